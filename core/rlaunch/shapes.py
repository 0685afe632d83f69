"""The shapes of the documents that rlaunch prints and reads.

`schemas.py` turns these classes into the JSON schemas under `docs/schemas/`, `documents.py` fills them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from rlaunch.model import (
    Artifact,
    Command,
    File,
    Finding,
    Observed,
    Rank,
    Run,
    SecretFile,
    Setting,
    State,
)


class PlanDocument(NamedTuple):
    """`plan … --json`, `--dry-run --json` and a plan file."""

    schema: Literal["rlaunch.plan/1"]
    run: Run
    command: Command
    env: Mapping[str, str]
    secrets: tuple[str, ...]
    files: tuple[File, ...]
    artifacts: tuple[Artifact, ...]
    secret_files: tuple[SecretFile, ...]
    native: Mapping[str, Any]
    observed: Observed
    provenance: Mapping[str, Setting]
    findings: tuple[Finding, ...]
    digest: str
    """sha256 over the rest as canonical JSON; an edited file is refused."""


class StatusDocument(NamedTuple):
    """`status|watch --once --json` of one job."""

    schema: Literal["rlaunch.status/1"]
    job: str
    """`cluster:id`."""
    run: str
    """The run id; empty for a job that rlaunch did not start."""
    state: State
    reason: str
    since: str
    attempt: int | None
    exit_code: int | None
    signal: int | None
    ranks: tuple[Rank, ...]
    native: Mapping[str, Any]


class StatusesDocument(NamedTuple):
    """`status|watch --once --json` of several jobs, in the order they were named."""

    schema: Literal["rlaunch.statuses/1"]
    jobs: tuple[StatusDocument, ...]


class RecordedRun(NamedTuple):
    """One run of the record."""

    run: str
    name: str
    cluster: str
    job: str | None
    """`cluster:id`, None before it was submitted."""
    user: str
    identity: str
    recipe: str
    recipe_sha256: str
    commit: str
    dirty: tuple[str, ...]
    nodes: int
    allow: tuple[str, ...]
    intended_at: str
    submitted_at: str | None
    failed_at: str | None
    failure: str
    ended_at: str | None
    state: State | None
    """At the end; None while the record knows of none."""
    exit_code: int | None


class RunsDocument(NamedTuple):
    """`runs --json`, newest first."""

    schema: Literal["rlaunch.runs/1"]
    runs: tuple[RecordedRun, ...]


class ClusterName(NamedTuple):
    """One name that `--cluster` takes."""

    name: str
    distributions: tuple[str, ...]
    """More than one: a clash, the name is refused."""
    module: str


class ClustersDocument(NamedTuple):
    """`clusters --json`."""

    schema: Literal["rlaunch.clusters/1"]
    clusters: tuple[ClusterName, ...]


class FindingsDocument(NamedTuple):
    """Printed with `--json` instead of the document that could not be made."""

    schema: Literal["rlaunch.findings/1"]
    findings: tuple[Finding, ...]


class Summary(NamedTuple):
    """What a run that was waited for has come to."""

    first_reward: float | None
    last_reward: float | None
    steps: int
    """Steps that reported a reward."""
    rungs: int
    """Highest rung of the ladder that was reached in unbroken order."""
    rungs_in_all: int
    verdict: str
    run_dir: str
    storage: str


class LaunchDocument(NamedTuple):
    """`--json` of a launch or `submit`: with `--no-wait` there is no status and no summary."""

    schema: Literal["rlaunch.launch/1"]
    job: str
    run: str
    name: str
    cluster: str
    status: StatusDocument | None
    summary: Summary | None
    findings: tuple[Finding, ...]


class RungDocument(NamedTuple):
    """One rung of the ladder, as far as the evidence goes."""

    rung: int
    name: str
    proves: str
    reached: bool
    evidence: tuple[str, ...]
    """Literal lines, a few of them."""
    seen: int
    """Lines that matched in all."""
    missing: tuple[int, ...]
    """Ranks without a line, where every rank must have one."""
    absence: str
    """What it means that it was not reached; empty where it was."""


class DiagnosisDocument(NamedTuple):
    """`diagnose --json`."""

    schema: Literal["rlaunch.diagnosis/1"]
    job: str
    run: str
    verdict: str
    reasons: tuple[str, ...]
    rungs: tuple[RungDocument, ...]
    findings: tuple[Finding, ...]
    states: tuple[StatusDocument, ...]
    lines: int
    """Log lines that were looked at."""
    trials: int | None
    missing: tuple[str, ...]


class ExplainDocument(NamedTuple):
    """`explain --json` of a code or a setting; keys of the other kind are null."""

    schema: Literal["rlaunch.explain/1"]
    kind: Literal["code", "setting"]
    name: str
    page: str
    level: str | None
    waivable: bool | None
    cluster: str | None
    value: Any
    source: str | None
    reason: str | None


class Check(NamedTuple):
    """One line of `doctor`."""

    name: str
    ok: bool
    detail: str
    level: Literal["ok", "note", "warning", "error"]


class DoctorDocument(NamedTuple):
    """`doctor --json`."""

    schema: Literal["rlaunch.doctor/1"]
    checks: tuple[Check, ...]


DOCUMENTS: Mapping[str, type[Any]] = {
    "plan": PlanDocument,
    "status": StatusDocument,
    "statuses": StatusesDocument,
    "runs": RunsDocument,
    "clusters": ClustersDocument,
    "launch": LaunchDocument,
    "diagnosis": DiagnosisDocument,
    "explain": ExplainDocument,
    "doctor": DoctorDocument,
    "findings": FindingsDocument,
}
"""Name of the schema file -> shape."""
