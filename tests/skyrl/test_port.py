"""Ports of recipes between two clusters: every change has its class, and nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.skyrl.conftest import read
from tests.skyrl.profiles import iris, jupiter

from rlaunch import identity, recipes
from rlaunch.model import Recipe
from rlaunch.porting import here, places
from rlaunch.porting.changes import Translation
from rlaunch.porting.translate import mechanical, translate
from rlaunch.skyrl.classes import classify
from rlaunch.skyrl.emit import leaves
from rlaunch.skyrl.tree import look

IRIS, JUPITER = iris(), jupiter()
TP = "generator.inference_engine_tensor_parallel_size"
DCP = "generator.inference_engine_decode_context_parallel_size"
NARROWER = (TP, DCP)
DENSE = ("jupiter_56GPU_seqnorm_tis.yaml", "iris_56GPU_seqnorm_tis.yaml")
MOE = (
    "jupiter_16node_qwen3_30b_a3b_131k_cp_dcp_r3.yaml",
    "iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3.yaml",
)
LEFT = {
    DENSE: {"generator.gpu_memory_utilization", "generator.max_num_batched_tokens"},
    MOE: {
        TP, DCP, "generator.num_inference_engines", "generator.max_num_seqs", "generator.enforce_eager",
        "extra_env.NCCL_DEBUG", "extra_env.SKYRL_WEIGHT_SYNC_SERIALIZE",
        "terminal_bench.harbor.n_concurrent_trials",
    },
}  # fmt: skip
"""What people had tuned between the two recipes of a pair, beside the verifier's patience and the path of
trials: the table of real differences (facts of 2026), all of class tuning or science."""
ALWAYS_LEFT = {
    "terminal_bench.harbor.verifier_override_timeout_sec",
    "terminal_bench.trials_dir",  # a path of one run, in a retired bucket; null is each run's own
}
SMALL = """
entrypoint: terminal_bench
terminal_bench: {trials_dir: null}
trainer:
  logger: console
  placement: {colocate_all: false, policy_num_nodes: %d, policy_num_gpus_per_node: %d}
generator: {num_inference_engines: %d, inference_engine_tensor_parallel_size: %d}
"""


def small(nodes: int = 2, gpus: int = 4, engines: int = 8, tp: int = 1, more: str = "") -> Recipe:
    """Return a recipe of few keys."""
    return read(SMALL % (nodes, gpus, engines, tp) + more)


def flat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return every leaf by its key."""
    return dict(leaves(body))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Return the keys that two bodies do not agree on."""
    a, b = flat(one), flat(other)
    return {key for key in a.keys() | b.keys() if a.get(key, "absent") != b.get(key, "absent")}


def codes(made: Translation) -> list[str]:
    """Return the codes of all errors."""
    return [found.code for found in made.findings if found.level == "error"]


@pytest.mark.parametrize("pair", [DENSE, MOE], ids=["dense", "moe"])
def test_a_port_makes_what_people_made(pair: tuple[str, str], shared_recipes: Path):
    """Jupiter's recipe ported to Iris is the one that runs there, but for what was tuned by hand."""
    theirs, ours = (recipes.read(str(shared_recipes / name)) for name in pair)
    made = translate(theirs, IRIS, JUPITER)
    assert codes(made) == []
    assert differences(made.body, ours.body) == LEFT[pair] | ALWAYS_LEFT
    assert all(classify(key) != "mechanical" for key in LEFT[pair] - {"extra_env.NCCL_DEBUG"})


def test_accepted_proposals_are_made(shared_recipes: Path):
    """With the usual values of Iris accepted, only the verifier's patience is left to be accepted."""
    theirs, ours = (recipes.read(str(shared_recipes / name)) for name in DENSE)
    made = translate(theirs, IRIS, JUPITER, LEFT[DENSE])
    assert differences(made.body, ours.body) == ALWAYS_LEFT
    kept = [change for change in made.changes if change.action == "keep"]
    assert [(c.key, c.before, c.after, c.kind) for c in kept] == [
        ("terminal_bench.harbor.verifier_override_timeout_sec", 120, 300, "science")
    ]


def test_a_value_of_ones_own_is_not_proposed_away(shared_recipes: Path):
    """A value that is not the source's usual one was chosen, and stays without a word."""
    theirs = recipes.read(str(shared_recipes / MOE[0]))
    made = translate(theirs, IRIS, JUPITER)
    proposed = {change.key for change in made.changes if change.action == "keep"}
    assert "generator.gpu_memory_utilization" not in proposed  # 0.80 on both
    assert {"generator.max_num_seqs", "extra_env.NCCL_DEBUG"} <= proposed


def test_there_and_back_is_the_identity(shared_recipes: Path):
    """Iris to Jupiter and back changes no key, but for paths of one run and engines that had to be split."""
    for path in sorted(shared_recipes.glob("iris_*.yaml")):
        recipe = recipes.read(str(path))
        wide = (look(recipe.body, TP) or 1) > 4
        there = translate(recipe, JUPITER, IRIS, NARROWER if wide else ())
        assert codes(there) == []
        back = translate(recipe._replace(body=there.body), IRIS, JUPITER)
        assert codes(back) == []
        split = {TP, DCP, "generator.num_inference_engines"} if wide else set()
        assert differences(recipe.body, back.body) == {"terminal_bench.trials_dir"} | split
        assert look(back.body, "terminal_bench.trials_dir") is None


@pytest.mark.parametrize("to", [IRIS, JUPITER], ids=["iris", "jupiter"])
def test_the_experiment_stays(to: Mapping[str, Any], shared_recipes: Path):
    """Without `--accept` a port never changes what the experiment is, and says the class of all it does."""
    source = JUPITER if to is IRIS else IRIS
    for path in sorted(shared_recipes.glob("*.yaml")):
        recipe = recipes.read(str(path))
        made = translate(recipe, to, source)
        one = identity.hash_of(recipe, "m", ("d",), (), ())
        assert identity.hash_of(recipe._replace(body=made.body), "m", ("d",), (), ()) == one
        for change in made.changes:
            assert change.reason
            assert change.kind in {"mechanical", "tuning"} or change.action in {"keep", "move"}


def test_a_port_to_the_same_cluster_changes_nothing(shared_recipes: Path):
    """Each cluster's recipes are what a port to it would make of them, retired paths aside."""
    for path in sorted(shared_recipes.glob("iris_*.yaml")):
        made = translate(recipes.read(str(path)), IRIS, IRIS)
        assert {change.key for change in made.changes} <= {"terminal_bench.trials_dir"}
    for path in sorted(shared_recipes.glob("jupiter_*.yaml")):
        made = translate(recipes.read(str(path)), JUPITER, JUPITER)
        assert {change.key for change in made.changes} <= {
            "generator.engine_init_kwargs.custom_chat_template_chat_completion_path"
        }


def test_nodes_follow_the_world_size():
    """2×4 GPUs of the policy are 1×8, with the sum as the reason."""
    made = translate(small(2, 4, 8), IRIS, JUPITER)
    assert look(made.body, "trainer.placement.policy_num_nodes") == 1
    assert look(made.body, "trainer.placement.policy_num_gpus_per_node") == 8
    assert {c.reason for c in made.changes if "policy" in c.key} == {
        "2×4 = 8 GPUs = 1×8: the world size stays"
    }


def test_nodes_without_a_number_of_gpus_are_the_sources():
    """Nodes whose size is not written have the size of the cluster that the recipe is written for."""
    recipe = read(SMALL.replace(", policy_num_gpus_per_node: %d", "") % (2, 8, 1))
    made = translate(recipe, IRIS, JUPITER)
    assert look(made.body, "trainer.placement.policy_num_nodes") == 1
    assert look(made.body, "trainer.placement.policy_num_gpus_per_node") is None


def test_whole_nodes_that_become_broken_ones_are_refused():
    """28 GPUs are 7 nodes of 4 and 3.5 of 8: refused, with the arithmetic."""
    made = translate(small(4, 4, 12), IRIS, JUPITER)
    (found,) = made.findings
    assert found.code == "port.geometry"
    assert "2×8 (policy) + 12×1 (engines) = 28 GPUs / 8 = 3.5 nodes" in found.message
    assert "4 of 32 GPUs would stay idle" in found.message


def test_half_a_node_is_fine_where_the_sum_is_whole():
    """A policy of 4 and 4 engines fill one node of 8 together."""
    made = translate(small(1, 4, 4), IRIS, JUPITER)
    assert made.findings == ()
    assert look(made.body, "trainer.placement.policy_num_gpus_per_node") == 4


def test_wide_engines_are_split_only_if_accepted():
    """A group of 8 does not fit a node of 4; accepted, it becomes two of 4, and so many more engines."""
    recipe = small(1, 8, 4, 8)
    refused = translate(recipe, JUPITER, IRIS)
    (found,) = [f for f in refused.findings if f.level == "error"]
    assert found.code == "port.tensor-parallel"
    assert "4×8 = 32 GPUs = 8×4" in found.message
    made = translate(recipe, JUPITER, IRIS, [TP])
    assert codes(made) == []
    assert look(made.body, TP) == 4
    assert look(made.body, "generator.num_inference_engines") == 8


def test_each_key_is_accepted_by_itself():
    """Accepting the engines' width does not accept their context parallelism."""
    recipe = small(1, 8, 4, 8, "")
    body = {**recipe.body, "generator": {**recipe.body["generator"], DCP.partition(".")[2]: 2}}
    made = translate(recipe._replace(body=body), JUPITER, IRIS, [TP])
    assert [found.hint for found in made.findings if found.level == "error"] == [
        f"`--accept {DCP}` makes it 1"
    ]


def test_an_unclassified_variable_needs_consent():
    """A rule that drops a variable which may change results is not enough."""
    rules = {"SKYRL_W13_RELOAD_BRACKET": {"action": "drop", "reason": "not here"}}
    target = {**IRIS, "env_rules": rules}
    recipe = small(more="extra_env: {SKYRL_W13_RELOAD_BRACKET: '1', NCCL_DEBUG: WARN}\n")
    key = "extra_env.SKYRL_W13_RELOAD_BRACKET"
    refused = translate(recipe, target, JUPITER)
    assert codes(refused) == ["port.needs-accept"]
    assert f"`--accept {key}`" in refused.findings[0].hint
    made = translate(recipe, target, JUPITER, [key])
    assert codes(made) == []
    assert look(made.body, "extra_env") == {"NCCL_DEBUG": "WARN"}


def test_accepting_what_nobody_offers_is_an_error():
    """A misspelt key of `--accept` is not passed over."""
    made = translate(small(1, 8, 4, 8), JUPITER, IRIS, [f"{TP}s"])
    assert "port.accept" in codes(made)
    assert f"did you mean `{TP}`?" in {found.hint for found in made.findings}


def test_variables_of_a_container_become_text_at_the_top():
    """Twins are folded, numbers become text, what stands at the top already wins."""
    recipe = small(more=(
        "extra_env: {A: top}\ncontainer:\n  sif: /e/x.sif\n  extra_env:\n"
        "    A: 1\n    B: true\n    APPTAINERENV_B: 1\n    APPTAINERENV_C: 3\n    D: null\n"
    ))  # fmt: skip
    made = translate(recipe, {**IRIS, "env_rules": {}}, JUPITER)
    assert look(made.body, "extra_env") == {"A": "top", "B": "1", "C": "3", "D": None}
    assert "container" not in made.body


def test_twins_that_differ_are_not_folded_away():
    """Which of the two is meant, nobody can know."""
    recipe = small(more="container: {extra_env: {EPDIAG: 1, APPTAINERENV_EPDIAG: 0}}\n")
    assert codes(translate(recipe, IRIS, JUPITER)) == ["env.twins-differ"]


def test_what_only_a_container_or_no_internet_needs_is_dropped():
    """Without any rule for it: libraries inside an image, and libraries kept offline."""
    extra = {"LIBRARY_PATH": "/.singularity.d/libs", "HF_HUB_OFFLINE": "1", "NCCL_DEBUG": "INFO"}
    recipe = small()
    recipe = recipe._replace(body={**recipe.body, "extra_env": extra})
    bare = {**IRIS, "env_rules": {}}
    assert look(translate(recipe, bare, JUPITER).body, "extra_env") == {"NCCL_DEBUG": "INFO"}
    assert look(translate(recipe, jupiter(name="other"), JUPITER).body, "extra_env") == extra


def test_variables_that_are_no_mapping_are_an_error():
    """What cannot be read as variables is not rewritten."""
    assert codes(translate(small(more="extra_env: [A]\n"), IRIS, JUPITER)) == ["env.not-mapping"]
    assert codes(translate(small(more="extra_env: {A: [1]}\n"), IRIS, JUPITER)) == [
        "env.not-scalar"
    ]


def test_twins_at_the_top_are_folded_too():
    """With or without their plain name, and with the target's rules."""
    recipe = small(more=(
        "extra_env: {A: 1, APPTAINERENV_A: 1, APPTAINERENV_B: 2, APPTAINERENV_NCCL_P2P_DISABLE: 1, "
        "APPTAINERENV_LD_LIBRARY_PATH: /x}\n"
    ))  # fmt: skip
    made = translate(recipe, IRIS, JUPITER)
    assert look(made.body, "extra_env") == {
        "A": 1, "B": "2", "LD_LIBRARY_PATH": "/opt/openthoughts/envs/rl/lib",
    }  # fmt: skip
    assert look(translate(recipe, JUPITER, JUPITER).body, "extra_env.APPTAINERENV_B") == 2


def test_a_container_without_a_counterpart_is_taken_away():
    """Another SLURM cluster that knows no image: the paths go, the variables stay, and a note says so."""
    recipe = small(
        more="container: {sif: /e/x.sif, overlays: [/e/o.img], extra_env: {EPDIAG: 1}}\n"
    )
    made = translate(recipe, jupiter(name="capella", binds=()), JUPITER)
    assert look(made.body, "container") == {"extra_env": {"EPDIAG": 1}}
    assert [found.code for found in made.findings] == ["port.no-image"]


def test_what_needs_no_gpus_has_no_geometry():
    """The toy trainer takes nodes as they are; a cluster without GPUs refuses everything else."""
    toy = read("entrypoint: rlaunch.smoke\ntrainer: {placement: {policy_num_nodes: 2}}\n")
    assert translate(toy, IRIS, JUPITER).changes == ()
    whole = read(SMALL.replace("policy_num_nodes: %d, ", "") % (4, 8, 1))
    made = translate(whole, IRIS, JUPITER)
    assert look(made.body, "trainer.placement.policy_num_gpus_per_node") == 8
    assert codes(made) == ["skyrl.policy-missing"]


def test_interface_names_stay_behind():
    """The network of one cluster means nothing on another."""
    for head in ("extra_env: %s\n", "container: {extra_env: %s}\n"):
        recipe = small(more=head % "{NCCL_SOCKET_IFNAME: ib0, NCCL_IB_TIMEOUT: '23'}")
        made = translate(recipe, {**IRIS, "env_rules": {}}, JUPITER)
        assert look(made.body, "extra_env") == {"NCCL_IB_TIMEOUT": "23"}


def test_a_container_is_made_from_the_targets_profile():
    """A target with an image of its own gets its block; without one, a note says what will happen."""
    own = jupiter(sif="/e/scratch/rl.sif", pydeps="/e/scratch/deps")
    made = translate(small(1, 8, 8), own, IRIS)
    assert look(made.body, "container") == {
        "sif": "/e/scratch/rl.sif", "binds": ["/e/scratch", "/e/data1"], "pydeps": "/e/scratch/deps",
    }  # fmt: skip
    back = translate(small()._replace(body=made.body), IRIS, own)
    assert "container" not in back.body
    assert "port.no-image" in {f.code for f in translate(small(1, 8, 8), JUPITER, IRIS).findings}


def test_another_clusters_image_is_replaced():
    """An image's path belongs to one file system."""
    other = jupiter(name="capella", gpus_per_node=4, binds=(), sif="/data/rl.sif")
    recipe = small(more="container: {sif: /e/x.sif, binds: [/e/data1], extra_env: {EPDIAG: 1}}\n")
    made = translate(recipe, other, JUPITER)
    assert look(made.body, "container") == {"sif": "/data/rl.sif", "extra_env": {"EPDIAG": 1}}


@pytest.mark.parametrize(
    ("logger", "to", "after"),
    [
        ("wandb", JUPITER, "console"),
        ("null", JUPITER, "console"),
        ("[console, wandb]", JUPITER, ["console"]),
        ("[wandb, mlflow]", JUPITER, ["console", "mlflow"]),
        ("[]", JUPITER, []),
        ("console", IRIS, "wandb"),
        ("[]", IRIS, []),
        ("mlflow", IRIS, "mlflow"),
    ],
)
def test_the_logger_follows_the_internet(logger: str, to: Mapping[str, Any], after: Any):
    """wandb where the nodes have a way to it, the console where they have none."""
    recipe = read((SMALL % (1, 8, 8, 1)).replace("logger: console", f"logger: {logger}"))
    source = JUPITER if to is IRIS else IRIS
    assert look(translate(recipe, to, source).body, "trainer.logger") == after


def test_a_recipe_that_keeps_wandb_offline_keeps_it():
    """Offline wandb needs no internet: its directory is synced later."""
    text = (SMALL % (1, 8, 8, 1)).replace("logger: console", "logger: wandb")
    recipe = read(text + "extra_env: {WANDB_MODE: offline}\n")
    assert look(translate(recipe, JUPITER, IRIS).body, "trainer.logger") == "wandb"


@pytest.mark.parametrize(
    ("path", "source", "target", "after"),
    [
        ("s3://marin-us-east-02a/iris/a/trials", IRIS, JUPITER, None),
        ("s3://marin-na/iris/a/trials", JUPITER, IRIS, "s3://marin-us-east-02a/iris/a/trials"),
        ("/e/data1/a/trials", JUPITER, IRIS, None),
        ("/tmp/trials", JUPITER, IRIS, "/tmp/trials"),
        ("trials", JUPITER, IRIS, "trials"),
        (
            "s3://marin-us-east-02a/iris/a",
            IRIS,
            {**iris(), "name": "other", "storage_root": "s3://bucket/runs"},
            "s3://bucket/runs/a",
        ),
    ],
)
def test_outputs_follow_the_store(path: str, source: Any, target: Any, after: str | None):
    """An output goes to the target's store, or to the run's own directory in it."""
    recipe = read((SMALL % (1, 8, 8, 1)).replace("trials_dir: null", f"trials_dir: {path}"))
    made = translate(recipe, target, source)
    assert look(made.body, "terminal_bench.trials_dir") == after


def test_a_foreign_file_is_kept_and_named():
    """Where a template lies on the other cluster, nobody can know."""
    recipe = small(more="")
    text = (SMALL % (1, 8, 8, 1)).replace(
        "generator: {", "generator: {engine_init_kwargs: {a: ./x.jinja2, b: /e/p/x.jinja2}, "
    )
    made = translate(read(text), IRIS, JUPITER)
    assert [(f.level, f.code) for f in made.findings] == [("warning", "port.foreign-path")]
    assert "`/e/p/x.jinja2`" in made.findings[0].message
    assert recipe.path in made.findings[0].place


def test_a_launch_changes_only_what_it_must(shared_recipes: Path):
    """Without a source, `mechanical` makes what the target needs, and leaves what would be a choice."""
    recipe = recipes.read(str(shared_recipes / DENSE[0]))
    made, changes, findings = mechanical(recipe, IRIS)
    assert findings == ()
    assert look(made.body, "trainer.logger") == "console"
    assert {change.kind for change in changes} == {"mechanical"}
    _, changes, findings = mechanical(recipes.read(str(shared_recipes / MOE[1])), JUPITER)
    assert "port.tensor-parallel" in {found.code for found in findings}
    assert "trainer.logger" in {change.key for change in changes}


def test_a_dump_is_put_where_it_can_be_written():
    """A directory of another cluster becomes a node-local one; others of its kind stay."""
    name = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
    wish = here.relocated(name, "/e/data1/x/fr/nccl_fr_rank", IRIS)
    assert wish is not None
    assert wish.value == "/tmp/nccl_fr_rank"
    assert here.relocated(name, "/tmp/nccl_fr_rank", IRIS) is None
    assert here.relocated(name, "/e/data1/x", JUPITER) is None
    assert here.relocated("HF_HOME", "/e/data1/x", IRIS) is None


def test_roots_end_at_the_first_placeholder():
    """What is the same for all runs and users is known; the rest is not."""
    assert places.roots(JUPITER) == ("/e/scratch/reformo/", "/e/scratch", "/e/data1")
    assert not places.foreign("/e/scratch/x", JUPITER)
    assert places.foreign("/e/scratches/x", JUPITER)
    assert not places.foreign("/tmp/rlaunch-abc/x", IRIS)


NAMES = st.sampled_from(
    ["EPDIAG", "NCCL_DEBUG", "OMP_NUM_THREADS", "SKYRL_X", "VLLM_ATTENTION_BACKEND"]
)
VALUES = st.one_of(st.integers(-9, 99).map(str), st.text("abcXYZ:=,. ", max_size=8))


@given(
    variables=st.dictionaries(NAMES, VALUES, max_size=4),
    engines=st.integers(1, 8).map(lambda n: n * 8),
    nodes=st.integers(1, 6),
    logger=st.sampled_from(["wandb", ["console"], []]),
)
def test_there_and_back_for_any_recipe(
    variables: dict[str, str], engines: int, nodes: int, logger: Any
):
    """Of recipes of whole nodes, variables and loggers, Iris to Jupiter and back is the identity."""
    recipe = small(nodes, 8, engines, 1)
    trainer = {**recipe.body["trainer"], "logger": logger}
    extra = {"extra_env": {**variables, "LD_LIBRARY_PATH": "/opt/openthoughts/envs/rl/lib"}}
    body = {**recipe.body, "trainer": trainer, **(extra if variables else {})}
    there = translate(recipe._replace(body=body), JUPITER, IRIS)
    assert codes(there) == []
    back = translate(recipe._replace(body=there.body), IRIS, JUPITER)
    assert back.body == body
