"""SLURM with Apptainer: JUPITER and its sisters, and any other SLURM cluster as a profile."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlaunch.cluster import Cluster
from rlaunch.hooks import hookimpl
from rlaunch.model import Evidence, Finding, Plan, Run
from rlaunch_slurm_jupiter import checks, codes, diagnosis

_NAMES = (
    "jupiter",
    "juwels",
    "jureca",
    "leonardo",
    "capella",
    "alpha",
    "vista",
    "perlmutter",
    "frontier",
)
PROFILES = {name: str(Path(__file__).parent / "profiles" / f"{name}.yaml") for name in _NAMES}
DEFAULT_PROFILE = "jupiter"
RULES = (*checks.RULES, *diagnosis.RULES)
CODES = (*checks.CODES, *diagnosis.CODES, *codes.CODES)


@hookimpl
def rlaunch_cluster() -> type[Cluster]:
    """Return the cluster class."""
    from rlaunch_slurm_jupiter.cluster import Slurm

    return Slurm


@hookimpl
def rlaunch_check(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ask the rules of this cluster."""
    return checks.check(run, plan)


@hookimpl
def rlaunch_diagnose(evidence: Evidence) -> Iterable[Finding]:
    """Say what the end of a run means here."""
    return diagnosis.explain_end(evidence)
