"""Local: a real Ray on this machine, one node agent per pretended node."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlaunch.cluster import Cluster
from rlaunch.hooks import hookimpl
from rlaunch.model import Finding, Plan, Run
from rlaunch_local import checks, codes

PROFILES = {"local": str(Path(__file__).parent / "profiles" / "local.yaml")}
FACTS = {"local": str(Path(__file__).parent / "profiles" / "local.json")}
"""The same, validated beforehand (`tools/settle.py`)."""
DEFAULT_PROFILE = "local"
RULES = checks.RULES
CODES = (*checks.CODES, *codes.CODES)


@hookimpl
def rlaunch_cluster() -> type[Cluster]:
    """Return the cluster class."""
    from rlaunch_local.cluster import Local

    return Local


@hookimpl
def rlaunch_check(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ask the rules of this cluster."""
    for check in RULES:
        yield from check(run, plan)
