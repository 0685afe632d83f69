"""What rlaunch knows of SkyRL and MarinSkyRL: a built-in plugin. This file is its table of contents."""

from __future__ import annotations

from collections.abc import Iterable

from rlaunch.hooks import hookimpl
from rlaunch.model import Command, Evidence, Finding, Milestone, Plan, Run, RunFacts


@hookimpl
def rlaunch_command(run: Run) -> Command | None:
    """How SkyRL and the toy trainer start: `command`, `emit`, `derive`, `ledger`."""
    from rlaunch.skyrl.command import command

    return command(run)


@hookimpl
def rlaunch_check(run: Run, plan: Plan) -> Iterable[Finding]:
    """What is wrong with a recipe: `rules`."""
    from rlaunch.skyrl.rules import check

    return check(run, plan)


@hookimpl
def rlaunch_milestones(facts: RunFacts) -> Iterable[Milestone]:
    """The rungs that a run climbs: `milestones`."""
    from rlaunch.skyrl.milestones import milestones

    return milestones(facts)


@hookimpl
def rlaunch_diagnose(evidence: Evidence) -> Iterable[Finding]:
    """What a run has shown: `diagnosis`."""
    from rlaunch.skyrl.diagnosis import diagnose

    return diagnose(evidence)
