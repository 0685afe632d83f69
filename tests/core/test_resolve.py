"""Recipe + profile + flags + context → run, with the source of every value."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch import draft, recipes, resolve
from rlaunch.errors import RlaunchError
from rlaunch.layers import lay
from rlaunch.model import Context, Request, Workspace
from rlaunch.profiles import Profile, Root

BASE: dict[str, Any] = {
    "name": "here",
    "plugin": "local",
    "gpus_per_node": 8,
    "run_dir": "{state}/here/{run}",
    "storage_root": "{run_dir}",
    "data_root": "~/data",
    "secrets": ["HF_TOKEN", "WANDB_PROJECT"],
    "reasons": {"gpus_per_node": "the node's shape"},
}
CONTEXT = Context(
    "u", "2026-01-02T03:04:05.678Z", "0123abcd", "/home/u", "/state", "/w", "/py", "0.1.0", Workspace("/w"),
    frozenset({"AWS_REGION", "HOME"}),
)  # fmt: skip
RECIPE = """
entrypoint: rlaunch.smoke
trainer:
  placement: {colocate_all: true}
generator:
  inference_engine_tensor_parallel_size: 1
"""


def settle(
    text: str = RECIPE, base: dict[str, Any] | None = None, **request: Any
) -> resolve.Resolution:
    """Resolve a recipe with the flags given."""
    recipe = recipes.parse(text.encode(), "smoke.yaml")
    asked = Request(
        "smoke.yaml", "here", **{"model_path": "toy/grpo", "train_data": '["d"]', **request}
    )
    layered = lay(
        Profile, base or BASE, origin="here.yaml", user={}, typed=asked.settings, flags=asked.flags
    )
    return resolve.resolve(recipe, asked, layered, CONTEXT)


def errors(done: resolve.Resolution) -> list[tuple[str, str]]:
    """Codes and places of the errors."""
    return [(f.code, f.place) for f in done.findings if f.level == "error"]


def test_a_run_is_decided_completely():
    """Names, paths, identity and sources are all there, and a second time they are the same."""
    done = settle(settings={"nodes": 2})
    run = done.run
    assert run is not None
    assert errors(done) == []
    assert run.id == "smoke-260102030405-0123abcd"
    assert run.paths.run_dir == f"/state/here/{run.id}"
    assert run.paths.storage == run.paths.run_dir
    assert run.paths.data == "/home/u/data"
    assert run.paths.rendezvous == f"{run.paths.run_dir}/rendezvous"
    assert (run.nodes, run.gpus_per_node, run.train_data) == (2, 8, ("d",))
    assert run.provenance["nodes"].source == "command line"
    assert run.provenance["gpus_per_node"][:] == (8, "profile here", "the node's shape")
    assert run.provenance["max_retries"].source == "default"
    assert settle(settings={"nodes": 2}) == done


def test_every_provenance_value_survives_json():
    """What a dry run prints can be written as JSON."""
    run = settle(settings={"nodes": 2}).run
    assert run is not None
    assert json.loads(json.dumps({k: s.value for k, s in run.provenance.items()}))


def test_credentials_of_the_shell_are_a_note():
    """AWS_* that is merely present is not sent, and that is said once."""
    done = settle(settings={"nodes": 1})
    assert [f.code for f in done.findings if f.level == "note"].count("env.not-forwarded") == 1
    assert done.run is not None
    assert "AWS_REGION" not in done.run.env


def test_the_name_of_the_job():
    """A name is taken as typed, or refused with the label that would do."""
    done = settle(settings={"nodes": 1, "name": "my-run"})
    assert done.run is not None
    assert done.run.id == "my-run-0123abcd"
    bad = settle(settings={"nodes": 1, "name": "My Run"}, flags={"name": "--job-name"})
    assert bad.run is None
    assert errors(bad) == [("core.job-name", "--job-name")]
    assert bad.findings[0].hint == "`--job-name my-run`"


@given(st.text(), st.integers(8, 54))
def test_a_label_is_always_a_dns_label(text: str, limit: int):
    """Whatever the text, its label is one, and never longer than asked."""
    label = draft.label(text, limit)
    assert draft.LABEL.match(label)
    assert len(label) <= limit


def test_long_names_keep_apart():
    """Two long names with one beginning get two labels."""
    assert draft.label("x" * 99 + "a") != draft.label("x" * 99 + "b")


@pytest.mark.parametrize("text", ["d", "{}", '"d"', "[1]", '["a", 2]', '[""]', "["])
def test_data_must_be_a_json_list_of_strings(text: str):
    """Plain text is not taken as one dataset."""
    done = settle(train_data=text, settings={"nodes": 1})
    assert errors(done) == [("core.data-list", "--train_data")]


def test_data_of_the_recipe_stands_in():
    """Without the flag the recipe's list is used."""
    done = settle(RECIPE + "data: {train_data: [a, b]}\n", train_data=None, settings={"nodes": 1})
    assert done.run is not None
    assert done.run.train_data == ("a", "b")
    assert done.run.provenance["train_data"].source == "recipe"


def test_a_model_is_needed():
    """Neither flag nor recipe: an error; the recipe's path is enough."""
    assert ("core.model-missing", "--model_path") in errors(
        settle(model_path=None, settings={"nodes": 1})
    )
    text = RECIPE.replace("trainer:", "trainer:\n  policy: {model: {path: org/m}}")
    done = settle(text, model_path=None, settings={"nodes": 1})
    assert done.run is not None
    assert done.run.model_path == "org/m"


@pytest.mark.parametrize(
    ("override", "code"),
    [
        ("++extra_env.AWS_SECRET_ACCESS_KEY=x", "env.refused"),
        ("++generator.R2_TOKEN=x", "env.refused"),
        ("++extra_env.WANDB_API_KEY=x", "env.secret-literal"),
        ("trainer.lr", "recipe.override"),
        ("a=1,2", "recipe.override"),
    ],
)
def test_bad_overrides(override: str, code: str):
    """Credentials, secrets, sweeps and text that is no override are refused."""
    assert code in [c for c, _ in errors(settle(overrides=(override,), settings={"nodes": 1}))]


def test_a_credential_that_was_written_down_is_in_no_plan():
    """Where a secret's value stands in the recipe or an override there is no plan to show it."""
    for text, overrides in (
        (RECIPE + "extra_env: {AWS_SECRET_ACCESS_KEY: canary}\n", ()),
        (RECIPE + "extra_env: {WANDB_API_KEY: canary}\n", ()),
        (RECIPE, ("++extra_env.WANDB_API_KEY=canary",)),
        (RECIPE + "rollout: {e: {AWS_SECRET_ACCESS_KEY: canary}}\n", ()),
        (RECIPE + "rollout: {e: [{WANDB_API_KEY: canary}]}\n", ()),
        (RECIPE, ("++ray_init={runtime_env:{env_vars:{WANDB_API_KEY:canary}}}",)),
        (RECIPE, ("++generator.foo=[{R2_KEY:canary}]",)),
    ):
        done = settle(text, overrides=overrides, settings={"nodes": 1})
        assert done.run is None
        assert "canary" not in repr(done.findings)


def test_a_rendezvous_directory_gets_a_fresh_sub_path():
    """A directory of one's own is never shared between runs."""
    done = settle(settings={"nodes": 1, "rendezvous_dir": "/shared/rv/"})
    assert done.run is not None
    assert done.run.paths.rendezvous == f"/shared/rv/{done.run.id}"


def test_a_retired_root_is_refused():
    """A store that is gone is an error with its reason."""
    base = {**BASE, "retired_roots": [Root(root="s3://old", reason="moved").model_dump()]}
    done = settle(
        base=base,
        settings={"nodes": 1, "rendezvous_dir": "s3://old/x"},
        flags={"rendezvous_dir": "--rendezvous-dir"},
    )
    assert errors(done) == [("core.retired-root", "--rendezvous-dir")]


def test_a_storage_root_is_parted_by_run():
    """Two runs never share checkpoints: the run id is part of the path."""
    done = settle(base={**BASE, "storage_root": "s3://b/x/"}, settings={"nodes": 1})
    assert done.run is not None
    assert done.run.paths.storage == f"s3://b/x/{done.run.id}"


def test_a_secret_that_the_recipe_sets_is_not_forwarded_too():
    """Every variable arrives once: a plain value of the recipe takes the name out of the secrets."""
    done = settle(RECIPE + "extra_env: {WANDB_PROJECT: p}\n", settings={"nodes": 1})
    assert done.run is not None
    assert done.run.secrets == ("HF_TOKEN",)


def test_the_number_of_nodes_is_the_recipes():
    """A number that does not fit the recipe's budget is refused with the arithmetic."""
    text = """
entrypoint: examples.terminal_bench.entrypoints.main_tbench
trainer:
  placement: {colocate_all: false, policy_num_nodes: 1, policy_num_gpus_per_node: 8}
generator: {num_inference_engines: 48, inference_engine_tensor_parallel_size: 1}
"""
    done = settle(text, settings={"nodes": 6}, flags={"nodes": "--num-nodes"})
    wrong = [f for f in done.findings if f.level == "error" and "56" in f.message]
    assert [f.place for f in wrong] == ["--num-nodes"]
    right = settle(text)
    assert right.run is not None
    assert right.run.nodes == 7
    assert right.run.provenance["nodes"].source == "derived"


def test_a_typed_setting_of_the_environment_is_the_command_lines():
    """`--set env.NAME=VALUE` beats the recipe and is refused like it."""
    done = settle(RECIPE + "extra_env: {A: 1}\n", settings={"nodes": 1, "env.A": "2"})
    assert done.run is not None
    assert done.run.env["A"] == "2"
    assert done.run.provenance["env.A"].source == "command line"
    bad = settle(settings={"nodes": 1, "env.AWS_REGION": "x"})
    assert ("env.refused", "env.AWS_REGION") in errors(bad)


def test_a_bad_profile_layer_raises_before_resolving():
    """Faults of settings come from the layers, with all findings at once."""
    with pytest.raises(RlaunchError, match=r"core\.setting-invalid"):
        settle(settings={"nodes": "two"})
