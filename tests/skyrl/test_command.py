"""How the trainer starts: arguments, derived values, staging, files, and the fate of every key.

Over 300 lines: all that one command is made of stands together.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from rlaunch import recipes
from rlaunch.model import Recipe, Run
from rlaunch.skyrl import base_keys, command, derive, emit
from rlaunch.skyrl.emit import leaves
from rlaunch.skyrl.tree import look, placed

Launch = Callable[..., Run]
Sent = Callable[..., tuple[str, ...]]

TOY = """
entrypoint: rlaunch.smoke
config_groups: {terminal_bench_config: terminal_bench}
terminal_bench: {trials_dir: null}
trainer: {max_steps: 2, placement: {colocate_all: true, policy_num_nodes: null}}
generator: {num_inference_engines: null}
"""
PLAIN = "entrypoint: skyrl_train.entrypoints.main_base\n"


def base_configuration(folder: Path) -> None:
    """Write a base configuration with every known key of the trainer, all null."""
    tree: dict[str, Any] = {}
    for key in sorted(base_keys.known()):
        if not any(other.startswith(f"{key}.") for other in base_keys.known()):
            tree = placed(tree, key, None)
    for key in ("generator.engine_init_kwargs", "generator.chat_template_kwargs"):
        tree = placed(tree, key, {})
    (folder / "terminal_bench_config").mkdir(parents=True)
    (folder / "terminal_bench_config" / "terminal_bench.yaml").write_text("{}\n")
    OmegaConf.save(OmegaConf.create(tree), folder / "base.yaml")


def composed(arguments: tuple[str, ...], folder: Path) -> Any:
    """Compose arguments with real Hydra over that base configuration."""
    with initialize_config_dir(str(folder), version_base=None):
        return OmegaConf.to_container(compose("base", list(arguments)), resolve=False)


APP = """
import json, sys
import hydra
from omegaconf import OmegaConf

@hydra.main(config_path=sys.argv.pop(1), config_name="base", version_base=None)
def main(cfg):
    print(json.dumps(OmegaConf.to_container(cfg, resolve=False)))

main()
"""


def started(arguments: tuple[str, ...], folder: Path) -> Any:
    """Start a program that is decorated as SkyRL's entry points are, and return what it got."""
    (folder / "app.py").write_text(APP)
    done = subprocess.run(
        [sys.executable, "app.py", str(folder), *arguments, "hydra.run.dir=out"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "name", ["iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3", "odd_28GPU_distill_glm46_teacher"]
)
def test_real_hydra_composes_a_saved_recipe(
    name: str, shared_recipes: Path, sent: Sent, tmp_path: Path
):
    """Over a struct base of the known keys, every leaf of the recipe arrives with its value."""
    base_configuration(tmp_path)
    recipe = recipes.read(str(shared_recipes / f"{name}.yaml"))
    found = composed(sent(recipe, nodes=8), tmp_path)
    for section in emit.SECTIONS:
        for key, value in leaves(recipe.body.get(section.recipe), section.recipe):
            if value is None or key.startswith("data.") or "_num_" in key:
                continue
            arrived = look(found, key.replace(section.recipe, section.hydra, 1))
            assert arrived == (float(value) if key.endswith(".lr") else value), key


def test_what_no_argument_can_carry_travels_in_a_file(launch: Launch, tmp_path: Path):
    """Keys that are no bare words, NUL bytes and long texts arrive through a file, unchanged."""
    values = {
        "a b": {"x.y": [1, "1e-6", None, True]},
        "list": [{"q r": 'it\'s "ß"\n\x07\u2028'}],
        "long": "x" * 150_000,
        "nul": "a\0b",
        "dollar": "a$b",
        "mixed": {"plain": 1, "1": 2.5},
    }
    body = {
        "entrypoint": "skyrl_train.entrypoints.main_base",
        "generator": {"engine_init_kwargs": values},
    }
    quoted = ("generator.engine_init_kwargs.a b.x.y[1]",)
    made = command.command(launch(Recipe("r.yaml", "", body, {}, quoted)))
    assert made is not None
    (file,) = made.files
    assert (file.path, file.place) == ("hydra/rlaunch/values.yaml", "run-dir")
    assert made.argv[3:5] == ("--config-dir=/run/hydra", "+rlaunch=values")
    path = tmp_path / "run" / file.path
    path.parent.mkdir(parents=True)
    path.write_text(file.content, encoding="utf-8")
    base_configuration(tmp_path / "base")
    arguments = tuple(a.replace("/run/hydra", str(tmp_path / "run/hydra")) for a in made.argv[3:])
    found = started(arguments, tmp_path / "base")
    arrived = found["generator"]["engine_init_kwargs"]
    assert arrived.pop("served_model_name") == "Qwen3-8B"
    assert arrived == values


TEXTS = st.text(st.characters(blacklist_categories=("Cs",)), max_size=8)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        TEXTS,
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), TEXTS),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
            max_leaves=6,
        ),
        max_size=3,
    )
)
def test_the_file_reads_back(values: dict[str, Any]):
    """OmegaConf reads the file as what was written, type for type."""
    values = {key: value for key, value in values.items() if "${" not in repr(value)}
    import yaml
    from omegaconf._utils import get_yaml_loader

    read = yaml.load(emit.file_text({"k": values}), Loader=get_yaml_loader())  # noqa: S506  # OmegaConf's own
    assert repr(read) == repr({"k": values})


def test_the_toy_starts_from_its_zipapp(launch: Launch):
    """`entrypoint: rlaunch.smoke` is the zipapp with the arguments and a stage of its own."""
    made = command.command(launch(TOY, gpus_per_node=0, train_data=("builtin/sums",)))
    assert made is not None
    assert made.argv == (
        "/py", "/art/rlaunch-smoke.pyz", "+terminal_bench_config=terminal_bench", "trainer.max_steps=2",
        "trainer.placement.colocate_all=true", "trainer.run_name=job-x",
        "trainer.ckpt_path=/exp/job-x/checkpoints", "trainer.export_path=/exp/job-x/exports",
        "trainer.resume_mode=latest", "trainer.policy.model.path=Qwen/Qwen3-8B",
        f'data.train_data=["{derive.data_directory("/data", "builtin/sums")}"]', "data.val_data=[]",
        "+terminal_bench_config.trials_dir=/exp/job-x/trace_jobs",
    )  # fmt: skip
    assert made.stage == (
        "/py", "/art/rlaunch-smoke.pyz", "stage", "--data-root", "/data", "builtin/sums",
    )  # fmt: skip
    assert made.artifacts == ("rlaunch-smoke.pyz",)


@pytest.mark.parametrize(
    ("entrypoint", "module"),
    [
        ("terminal_bench", "examples.terminal_bench.entrypoints.main_tbench"),
        ("skyrl_train.entrypoints.main_base", "skyrl_train.entrypoints.main_base"),
    ],
)
def test_skyrl_starts_as_a_module(entrypoint: str, module: str, launch: Launch):
    """The job's python runs the module; datasets are staged by the node agent, each once."""
    made = command.command(
        launch(f"entrypoint: {entrypoint}\n", train_data=("a", "b"), val_data=("b", "c"))
    )
    assert made is not None
    assert made.argv[:3] == ("/py", "-m", module)
    assert made.stage[1:] == (
        "/art/rlaunch-node.pyz",
        "stage",
        "--data-root",
        "/data",
        "a",
        "b",
        "c",
    )


@pytest.mark.parametrize("entrypoint", ["acme.train", "examples", "skyrl_train.a b", "null", "[1]"])
def test_another_trainers_recipe_is_left_to_others(entrypoint: str, launch: Launch):
    """An entry point that is not SkyRL's has no command here."""
    assert command.command(launch(f"entrypoint: {entrypoint}\n")) is None


def test_nothing_to_stage_is_no_stage(launch: Launch):
    """Without data there is no staging command."""
    made = command.command(launch(PLAIN, train_data=()))
    assert made is not None
    assert made.stage == ()


def test_a_path_is_data_where_it_lies():
    """A directory by path is not hashed; a name is, by its sha256."""
    assert derive.data_directory("/d", "/my/tasks") == "/my/tasks"
    assert derive.data_directory("/d/", "builtin/sums").startswith("/d/")
    assert len(derive.data_directory("/d", "builtin/sums")) == len("/d/") + 16


def test_null_and_explicit_null(sent: Sent):
    """A null leaf is not sent, so the default applies; `!null` is sent as null, in lists as well."""
    text = f"{PLAIN}trainer: {{a: null, b: !null , c: {{}}, d: [], e: [null, !null ], f: 1e-6, g: '1e-6'}}\n"
    found = [a for a in sent(text) if a.startswith("trainer.") and len(a.split("=")[0]) == 9]
    assert found == [
        "trainer.b=null", "trainer.d=[]", "trainer.e=[null,null]", "trainer.f=1e-6", "trainer.g='1e-6'",
    ]  # fmt: skip


def test_open_mappings_get_plus_plus(sent: Sent):
    """Below mappings that the base leaves open a key has to be added; `teacher` is nowhere in the base."""
    text = f"""{PLAIN}
trainer:
  policy: {{optimizer_config: {{optimizer_kwargs: {{eps: 1}}}}}}
  rope_scaling: {{type: yarn, factor: 2.0}}
generator: {{engine_init_kwargs: {{a: 1}}}}
teacher: {{x: 1}}
rollout: {{fanout: {{enabled: false}}}}
"""
    found = sent(text)
    assert "++trainer.policy.optimizer_config.optimizer_kwargs.eps=1" in found
    assert '++trainer.rope_scaling={type:"yarn",factor:2.0}' in found
    assert "++generator.engine_init_kwargs.a=1" in found
    assert "++teacher.x=1" in found
    assert "rollout.fanout.enabled=false" in found


def test_overrides_come_last_as_they_were_typed(sent: Sent):
    """Hydra lets the last one win, so the command line's are last, letter for letter."""
    typed = ("trainer.epochs=3", "++generator.engine_init_kwargs.x='a b'")
    assert sent(f"{PLAIN}trainer: {{epochs: 1}}\n", overrides=typed)[-2:] == typed


@pytest.mark.parametrize(
    ("resume", "mode"),
    [("never", ["latest"]), ("/old/global_step_4", ["from_path", "/old/global_step_4"])],
)
def test_resuming_is_written_out(resume: str, mode: list[str], sent: Sent):
    """Attempts go on from their own checkpoints; `--resume PATH` names another's."""
    found = [
        a.partition("=")[2] for a in sent(PLAIN, resume=resume) if a.startswith("trainer.resume")
    ]
    assert found == mode


@pytest.mark.parametrize(
    ("text", "given", "own"),
    [
        ("", {}, None),
        ("", {"resume": "/old/global_step_4"}, ("trainer.resume_mode=latest",)),
        ("trainer: {resume_mode: from_path, resume_path: /x}", {}, ("trainer.resume_mode=latest",)),
        ("", {"resume": "/o", "overrides": ("trainer.resume_mode=none",)}, None),
    ],
)
def test_a_later_attempt_goes_on_from_its_own_checkpoint(
    text: str, given: dict[str, Any], own: tuple[str, ...] | None, launch: Launch
):
    """A run that starts from a given checkpoint is told how to go on once it has one of its own."""
    made = command.command(launch(f"{PLAIN}{text}\n", **given))
    assert made is not None
    assert (made.own and made.own.words) == own
    if made.own:
        assert f"trainer.ckpt_path={made.own.place}" in made.argv


def test_a_retired_root_is_moved(sent: Sent):
    """Bucket for bucket: the rest of the path stays."""
    profile = {
        "retired_roots": [{"root": "s3://old", "reason": "moved"}],
        "storage_root": "s3://new/rlaunch",
    }
    text = f"{PLAIN}trainer: {{export_path: 's3://old/iris/x', ckpt_path: 's3://older/x'}}\n"
    found = sent(text, profile=profile)
    assert "trainer.export_path='s3://new/iris/x'" in found
    assert "trainer.ckpt_path='s3://older/x'" in found


def test_a_placement_is_laid_on_this_clusters_nodes(sent: Sent):
    """8 nodes of 4 become 4 of 8, unless the command line says otherwise."""
    text = f"""{PLAIN}
trainer: {{placement: {{colocate_all: false, policy_num_nodes: 8, policy_num_gpus_per_node: 4}}}}
generator: {{num_inference_engines: 8, inference_engine_tensor_parallel_size: 4}}
"""
    found = sent(text, nodes=8)
    assert "trainer.placement.policy_num_nodes=4" in found
    assert "trainer.placement.policy_num_gpus_per_node=8" in found
    assert "trainer.placement.ref_num_nodes=4" in found
    typed = sent(text, nodes=8, overrides=["trainer.placement.policy_num_gpus_per_node=4"])
    assert "trainer.placement.policy_num_nodes=8" in typed


def test_absent_tensor_parallelism_is_written_out(sent: Sent):
    """What the arithmetic assumed is what runs."""
    text = f"{PLAIN}generator: {{num_inference_engines: null}}\n"
    found = sent(text, nodes=1)
    assert "generator.inference_engine_tensor_parallel_size=4" in found
    assert "generator.num_inference_engines=2" in found
