"""Runs and plans on Iris profiles, made as a launch makes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests import ada

import rlaunch_iris
from rlaunch import recipes
from rlaunch.layers import lay
from rlaunch.model import Command, Finding, Observed, Plan, Recipe, Request, Run
from rlaunch.resolve import resolve
from rlaunch.skyrl.command import command as skyrl_command
from rlaunch.testing.fakes import FakeClock, FakeShell
from rlaunch.testing.kit import read_profile
from rlaunch_iris.cluster import Iris

ROOT = Path(__file__).resolve().parents[2]
CONTEXT = ada.CONTEXT._replace(workspace=ada.CONTEXT.workspace._replace(dirty=("new.py",)))
TOY = Recipe("toy.yaml", "0" * 64, {"entrypoint": "rlaunch.smoke"}, {})
SEEN = Observed(
    "2026-01-02T03:04:05.000Z",
    "a test",
    {"workspace": {"sha256": "e" * 64, "size": 1000, "files": 3, "findings": []}},
)


class Maker:
    """Makes runs and plans."""

    def run(
        self,
        profile: str = "cw-us-east-02a",
        recipe: Recipe = TOY,
        *,
        overrides: tuple[str, ...] = (),
        **settings: Any,
    ) -> Run:
        """Return a run on a shipped profile; `settings` are typed, as by `--set`."""
        base = read_profile(rlaunch_iris.PROFILES[profile])
        typed = {"name": "rl", **({"nodes": 2} if recipe is TOY else {}), **settings}
        layered = lay(Iris.Profile, base, origin=profile, user={}, typed=typed, flags={})
        data = '["builtin/sums"]' if recipe is TOY else '["org/tasks"]'
        request = Request(
            cluster=profile, model_path="Qwen/Qwen3-8B", train_data=data, overrides=overrides
        )
        resolved = resolve(recipe, request, layered, CONTEXT)
        assert resolved.run is not None, resolved.findings
        return resolved.run

    def plan(
        self, run: Run, command: Command | None = None, observed: Observed | None = None
    ) -> Plan:
        """Return the plan of a run."""
        profile = Iris.Profile.model_validate(run.profile)
        command = command or skyrl_command(run)
        assert command is not None
        return Iris(profile, FakeShell(), FakeClock()).plan(run, command, observed or SEEN)

    def check(
        self, run: Run, command: Command | None = None, observed: Observed | None = None
    ) -> dict[str, Finding]:
        """Return what the plugin's rules say of a run, by code."""
        plan = self.plan(run, command, observed)
        return {f.code: f for f in rlaunch_iris.rlaunch_check(run, plan)}


@pytest.fixture
def make() -> Maker:
    """Make runs and plans."""
    return Maker()


@pytest.fixture
def shared_recipe() -> Any:
    """Read one of the saved recipes, beside the checkout or inside it."""

    def read(name: str) -> Recipe:
        for place in (ROOT.parent / "shared" / "recipes", ROOT / "shared" / "recipes"):
            if place.is_dir():
                recipe = recipes.read(str(place / name))
                return recipe._replace(path=f"hpc/skyrl_yaml/iris/{name}")
        raise AssertionError("the saved recipes are missing: no `shared/recipes`")

    return read
