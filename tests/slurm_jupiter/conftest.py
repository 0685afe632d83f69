"""Runs and plans on SLURM profiles, made as a launch makes them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ada import CONTEXT
from tests.slurm_jupiter.told import Site

import rlaunch_slurm_jupiter
from rlaunch import recipes, zipapps
from rlaunch.layers import lay
from rlaunch.model import Command, Observed, Plan, Recipe, Request, Run
from rlaunch.resolve import resolve
from rlaunch.skyrl.command import command as skyrl_command
from rlaunch.testing.fakes import FakeClock, FakeShell
from rlaunch.testing.kit import read_profile
from rlaunch_slurm_jupiter.cluster import Slurm

ROOT = Path(__file__).resolve().parents[2]
PLAIN = {"tunnel": None, "modules": [], "interfaces": [], "egress": True}
TOY = Recipe("toy.yaml", "0" * 64, {"entrypoint": "rlaunch.smoke"}, {})


def make_run(profile: str = "jupiter", recipe: Recipe = TOY, **settings: Any) -> Run:
    """Return a run on a shipped profile; `settings` are typed, as by `--set`."""
    base = read_profile(rlaunch_slurm_jupiter.PROFILES[profile])
    typed = {"name": "rl", **({"nodes": 2} if recipe is TOY else {}), **settings}
    layered = lay(Slurm.Profile, base, origin=profile, user={}, typed=typed, flags={})
    data = '["builtin/sums"]' if recipe is TOY else '["org/tasks"]'
    request = Request(cluster=profile, model_path="Qwen/Qwen3-8B", train_data=data)
    resolved = resolve(recipe, request, layered, CONTEXT)
    assert resolved.run is not None, resolved.findings
    return resolved.run


def make_plan(run: Run, command: Command | None = None) -> Plan:
    """Return the plan of a run."""
    profile = Slurm.Profile.model_validate(run.profile)
    command = command or skyrl_command(run)
    assert command is not None
    return Slurm(profile, FakeShell(), FakeClock()).plan(run, command, Observed())


def script_of(plan: Plan) -> str:
    """Return the text of the batch script."""
    return next(file.content for file in plan.files if file.path == "job.sh")


@pytest.fixture
def run_on() -> Callable[..., Run]:
    """Make a run on a shipped profile."""
    return make_run


@pytest.fixture
def plan_of() -> Callable[..., Plan]:
    """Plan a run."""
    return make_plan


@pytest.fixture
def script() -> Callable[..., str]:
    """Return the batch script of a run on a profile."""

    def text(profile: str = "jupiter", recipe: Recipe = TOY, **settings: Any) -> str:
        return script_of(make_plan(make_run(profile, recipe, **settings)))

    return text


@pytest.fixture(scope="session")
def saved() -> Callable[[str], Recipe]:
    """Read a recipe that was saved from a real experiment; its path is shown without a directory."""
    places = (ROOT.parent / "shared" / "recipes", ROOT / "shared" / "recipes")
    folder = next((place for place in places if place.is_dir()), None)
    assert folder is not None, f"the saved recipes are missing: no `shared/recipes` beside `{ROOT}`"
    return lambda name: recipes.read(str(folder / f"{name}.yaml"))._replace(path=f"{name}.yaml")


@pytest.fixture
def site(
    tmp_path: Path, run_on: Callable[..., Run], plan_of: Callable[..., Plan]
) -> Callable[..., Site]:
    """Make a site whose runs lie in a directory with a blank in its name."""

    def make(**settings: Any) -> Site:
        places = {"run_dir": f"{tmp_path}/a b/{{run}}", "data_root": f"{tmp_path}/data"}
        plan = plan_of(run_on(**{**PLAIN, **places, **settings}))
        artifacts = tuple(zipapps.artifact(n) for n in zipapps.NAMES if "node" in n)
        return Site(plan._replace(artifacts=artifacts))

    return make
