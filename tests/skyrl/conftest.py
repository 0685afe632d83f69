"""Runs of SkyRL recipes, without a cluster: what the rules and the builder are given."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlaunch import identity, recipes
from rlaunch.model import Finding, Observed, Paths, Plan, Recipe, Run, Setting, Workspace
from rlaunch.skyrl import command, rules

ROOT = Path(__file__).resolve().parents[2]
BASE = """
entrypoint: terminal_bench
config_groups: {terminal_bench_config: terminal_bench}
terminal_bench: {trials_dir: null, harbor: {name: terminus-2}}
trainer:
  logger: console
  placement: {colocate_all: false, policy_num_nodes: 1, policy_num_gpus_per_node: 8}
generator:
  num_inference_engines: 8
  inference_engine_tensor_parallel_size: 1
"""


def make_run(recipe: Recipe, **given: Any) -> Run:
    """Return a run of a recipe with everything decided, `given` fields replaced."""
    overrides = tuple(given.pop("overrides", ()))
    fields: dict[str, Any] = {
        "id": "job-x-01234567",
        "name": "job-x",
        "cluster": "iris",
        "profile": {},
        "user": "u",
        "created": "2026-01-02T03:04:05.678Z",
        "version": "0.1.0",
        "workspace": Workspace("/w"),
        "model_path": "Qwen/Qwen3-8B",
        "train_data": ("org/tasks",),
        "val_data": (),
        "nodes": 2,
        "gpus_per_node": 8,
        "cpu": None,
        "memory": None,
        "disk": None,
        "max_retries": 0,
        "timeout_s": None,
        "priority": None,
        "preemptible": None,
        "task_image": None,
        "skyrl_ref": None,
        "python": "/py",
        "paths": Paths("/run", "/rendezvous", "/exp/job-x", "/data", "/art"),
        "resume": "never",
        "env": {},
        "secrets": ("WANDB_API_KEY",),
        "allow": (),
        "provenance": {},
        **given,
    }
    fields["identity"] = identity.hash_of(
        recipe, fields["model_path"], fields["train_data"], fields["val_data"], overrides
    )
    return Run(recipe=recipe, overrides=overrides, **fields)


def read(text: str) -> Recipe:
    """Read a recipe from its text."""
    return recipes.parse(text.encode(), "r.yaml")


@pytest.fixture
def shared_recipes() -> Path:
    """The folder of saved recipes, beside the checkout or inside it."""
    for place in (ROOT.parent / "shared" / "recipes", ROOT / "shared" / "recipes"):
        if place.is_dir():
            return place
    raise AssertionError(
        f"the saved recipes are missing: no `shared/recipes` beside or in `{ROOT}`"
    )


@pytest.fixture
def launch() -> Callable[..., Run]:
    """Make a run from a recipe, or from its text."""

    def make(recipe: Recipe | str = BASE, **given: Any) -> Run:
        return make_run(read(recipe) if isinstance(recipe, str) else recipe, **given)

    return make


@pytest.fixture
def sent(launch: Callable[..., Run]) -> Callable[..., tuple[str, ...]]:
    """Return the trainer's arguments of a recipe."""

    def arguments(recipe: Recipe | str = BASE, **given: Any) -> tuple[str, ...]:
        made = command.command(launch(recipe, **given))
        assert made is not None
        return made.argv[2 if made.argv[1].endswith(".pyz") else 3 :]

    return arguments


@pytest.fixture
def judged(launch: Callable[..., Run]) -> Callable[..., tuple[Finding, ...]]:
    """Return what the rules say of a recipe: BASE, with `more` merged over it."""

    def findings(more: str = "", *, base: str = BASE, **given: Any) -> tuple[Finding, ...]:
        import yaml

        facts = given.pop("facts", None)
        if facts is not None:
            given["provenance"] = {"model_facts": Setting(facts, "a test")}
        merged = _merge(yaml.safe_load(base), yaml.safe_load(more) or {})
        run = launch(yaml.safe_dump(merged, allow_unicode=True), **given)
        made = command.command(run)
        assert made is not None
        plan = Plan(run, made, run.env, run.secrets, (), (), (), {}, Observed())
        return tuple(rules.check(run, plan))

    return findings


def _merge(base: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in more.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = _merge(merged[key], value) if both else value
    return merged
