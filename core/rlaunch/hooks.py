"""The six questions that any plugin may answer (pluggy specifications).

One answer makes sense: that is a method of `Cluster`. Many answers make sense: that is a hook here.
A hookimpl may take fewer arguments than its specification, so a specification can grow.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from rlaunch.cluster import Cluster
from rlaunch.model import Command, Event, Evidence, Finding, Milestone, Plan, Run, RunFacts

hookspec = pluggy.HookspecMarker("rlaunch")
hookimpl = pluggy.HookimplMarker("rlaunch")


@hookspec(firstresult=True)
def rlaunch_cluster() -> type[Cluster] | None:
    """Return the plugin's cluster class. Asked once, right after the chosen plugin is loaded."""


@hookspec(firstresult=True)
def rlaunch_command(run: Run) -> Command | None:
    """Return how the trainer starts inside the job, or None when the recipe is not this trainer's.

    Asked once, before planning; pure.
    """


@hookspec
def rlaunch_check(run: Run, plan: Plan) -> Iterable[Finding]:
    """Yield findings about a planned run. Asked before it is shown or sent; pure and offline."""
    return ()


@hookspec
def rlaunch_milestones(facts: RunFacts) -> Iterable[Milestone]:
    """Yield the rungs that a run of this kind climbs. Asked when a diagnosis starts; pure."""
    return ()


@hookspec
def rlaunch_diagnose(evidence: Evidence) -> Iterable[Finding]:
    """Yield findings about what a run has shown. Asked by `diagnose` and at a failed end; pure."""
    return ()


@hookspec
def rlaunch_event(event: Event) -> None:
    """Take note of something that happened. The only hook that may do I/O; its failure only warns."""
