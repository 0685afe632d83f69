"""Iris: whole H100 nodes of CoreWeave, gang-scheduled through an Iris controller."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlaunch.cluster import Cluster
from rlaunch.hooks import hookimpl
from rlaunch.model import Finding, Plan, Run
from rlaunch_iris import codes, rules

_HERE = Path(__file__).parent / "profiles"
DEFAULT_PROFILE = "cw-us-east-02a"
PROFILES = {
    name: str(_HERE / f"{name}.yaml") for name in (DEFAULT_PROFILE, "cw-rno2a", "iris-local")
}
RULES = rules.RULES
CODES = (*rules.CODES, *codes.CODES)


@hookimpl
def rlaunch_cluster() -> type[Cluster]:
    """Return the cluster class."""
    from rlaunch_iris.cluster import Iris

    return Iris


@hookimpl
def rlaunch_check(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ask the rules of this cluster, and repeat what was found while looking."""
    for check in RULES:
        yield from check(run, plan)
    yield from rules.what_was_seen(run, plan)
