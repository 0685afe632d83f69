"""The shapes of the documents that rlaunch prints and reads.

`schemas.py` turns these classes into the JSON schemas under `docs/schemas/`, `documents.py` fills them.
Over 300 lines on purpose: a document and its parts are read in one place.
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
    """The run with everything decided."""
    command: Command
    """How the trainer starts inside the job."""
    env: Mapping[str, str]
    """All variables of the job; no secret is among them."""
    secrets: tuple[str, ...]
    """Names of the secrets that are sent; never a value."""
    files: tuple[File, ...]
    """Texts that are written for the run."""
    artifacts: tuple[Artifact, ...]
    """Archives that travel with the run."""
    secret_files: tuple[SecretFile, ...]
    """Files that are filled with secrets at submit."""
    native: Mapping[str, Any]
    """What the scheduler is sent."""
    observed: Observed
    """What the cluster saw before planning."""
    provenance: Mapping[str, Setting]
    """Setting -> its value, source and reason."""
    findings: tuple[Finding, ...]
    """What was found."""
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
    """Where the run stands, the same words on every cluster."""
    reason: str
    """A named reason or the scheduler's own words; may be empty."""
    since: str
    """RFC 3339: when it came into this state; empty where nobody knows."""
    attempt: int | None
    """Which attempt this is, in the cluster's own count."""
    exit_code: int | None
    """The driver's, never translated; null while it runs."""
    signal: int | None
    """That ended the driver; null where none did."""
    ranks: tuple[Rank, ...]
    """One for each node, as far as they are known."""
    native: Mapping[str, Any]
    """What the scheduler said besides."""


class StatusesDocument(NamedTuple):
    """`status|watch --once --json` of several jobs, in the order they were named."""

    schema: Literal["rlaunch.statuses/1"]
    jobs: tuple[StatusDocument, ...]
    """One status for each job."""


class RecordedRun(NamedTuple):
    """One run of the record."""

    run: str
    """The run id."""
    name: str
    """Its name, which several runs may have had."""
    cluster: str
    """Where it was launched."""
    job: str | None
    """`cluster:id`, None before it was submitted."""
    user: str
    """Who launched it."""
    identity: str
    """Hash of what the experiment is, not of how it is run."""
    recipe: str
    """The recipe's path, as it was named."""
    recipe_sha256: str
    """Of the recipe's bytes."""
    commit: str
    """HEAD of the workspace; empty outside git."""
    dirty: tuple[str, ...]
    """Changed and untracked files of the workspace."""
    nodes: int
    """Size of the gang."""
    allow: tuple[str, ...]
    """Codes of findings that were waived."""
    intended_at: str
    """RFC 3339: before anything was sent."""
    submitted_at: str | None
    """RFC 3339; null where nothing was accepted."""
    failed_at: str | None
    """RFC 3339: when submitting failed; null where it did not."""
    failure: str
    """Why submitting failed; else empty."""
    ended_at: str | None
    """RFC 3339: when its end was first seen; null before that."""
    state: State | None
    """At the end; None while the record knows of none."""
    exit_code: int | None
    """The driver's; null where nobody knows one."""


class RunsDocument(NamedTuple):
    """`runs --json`, newest first."""

    schema: Literal["rlaunch.runs/1"]
    runs: tuple[RecordedRun, ...]
    """The runs that were asked for."""


class ClusterName(NamedTuple):
    """One name that `--cluster` takes."""

    name: str
    """As `--cluster` takes it."""
    distributions: tuple[str, ...]
    """More than one: a clash, the name is refused."""
    module: str
    """The plugin's module."""


class ClustersDocument(NamedTuple):
    """`clusters --json`."""

    schema: Literal["rlaunch.clusters/1"]
    clusters: tuple[ClusterName, ...]
    """All names, sorted."""


class FindingsDocument(NamedTuple):
    """Printed with `--json` instead of the document that could not be made."""

    schema: Literal["rlaunch.findings/1"]
    findings: tuple[Finding, ...]
    """Why nothing came of it."""


class Summary(NamedTuple):
    """What a run that was waited for has come to."""

    first_reward: float | None
    """Mean reward of the first step; null before one was reported."""
    last_reward: float | None
    """Mean reward of the newest step."""
    steps: int
    """Steps that reported a reward."""
    rungs: int
    """Highest rung of the ladder that was reached in unbroken order."""
    rungs_in_all: int
    """Rungs that apply to this run."""
    verdict: str
    """One word, as `diagnose` gives it."""
    run_dir: str
    """What belongs to this run alone."""
    storage: str
    """Checkpoints and exports."""


class LaunchDocument(NamedTuple):
    """`--json` of a launch or `submit`: with `--no-wait` there is no status and no summary."""

    schema: Literal["rlaunch.launch/1"]
    job: str
    """`cluster:id`; empty where the submit was interrupted."""
    run: str
    """The run id."""
    name: str
    """The run's name."""
    cluster: str
    """Where it runs."""
    status: StatusDocument | None
    """The last one that was seen."""
    summary: Summary | None
    """What it has come to, where it has ended."""
    findings: tuple[Finding, ...]
    """Warnings and notes on the way."""


class RungDocument(NamedTuple):
    """One rung of the ladder, as far as the evidence goes."""

    rung: int
    """Its number, from 1."""
    name: str
    """Its name."""
    proves: str
    """What is known once it is reached."""
    reached: bool
    """Whether it is, by the newest attempt's evidence."""
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
    """`cluster:id`."""
    run: str
    """The run id; empty for a job that rlaunch did not start."""
    verdict: str
    """One of `progressing`, `executing`, `wedge`, `starvation`, `failed`, `succeeded`, `no evidence`."""
    reasons: tuple[str, ...]
    """What the verdict rests on."""
    rungs: tuple[RungDocument, ...]
    """The ladder, lowest first."""
    findings: tuple[Finding, ...]
    """Known lines and patterns, fatal and benign."""
    states: tuple[StatusDocument, ...]
    """States that were seen, oldest first."""
    lines: int
    """Log lines that were looked at."""
    trials: int | None
    """Completed trials that were counted; null where nobody could count."""
    missing: tuple[str, ...]
    """What could not be obtained, and why."""


class ExplainDocument(NamedTuple):
    """`explain --json` of a code, a setting or a reason; keys of another kind are null."""

    schema: Literal["rlaunch.explain/1"]
    kind: Literal["code", "setting", "reason"]
    """What the name is."""
    name: str
    """The code, the setting or the reason."""
    page: str
    """Its explanation."""
    level: str | None
    """Of a code: `error`, `warning` or `note`."""
    waivable: bool | None
    """Of a code: whether `--allow` passes it."""
    cluster: str | None
    """Of a setting: the cluster whose value this is."""
    value: Any
    """Of a setting: its value before any flag."""
    source: str | None
    """Of a setting: where that value comes from."""
    reason: str | None
    """Of a setting: why it is that value."""


class NamesDocument(NamedTuple):
    """`explain --json` without a name: all that it can explain."""

    schema: Literal["rlaunch.names/1"]
    codes: tuple[str, ...]
    """Codes of the core, sorted; those of a plugin are explained too."""
    settings: tuple[str, ...]
    """Launch settings; with `--cluster` the fields of that cluster's profile too."""
    reasons: tuple[str, ...]
    """Reasons that a state is given."""


class Check(NamedTuple):
    """One line of `doctor`."""

    name: str
    """What was looked at."""
    ok: bool
    """False where something must be mended."""
    detail: str
    """What was found, and what to type."""
    level: Literal["ok", "note", "warning", "error"]
    """How much it matters."""


class DoctorDocument(NamedTuple):
    """`doctor --json`."""

    schema: Literal["rlaunch.doctor/1"]
    checks: tuple[Check, ...]
    """In the order in which they were made."""


DOCUMENTS: Mapping[str, type[Any]] = {
    "plan": PlanDocument,
    "status": StatusDocument,
    "statuses": StatusesDocument,
    "runs": RunsDocument,
    "clusters": ClustersDocument,
    "launch": LaunchDocument,
    "diagnosis": DiagnosisDocument,
    "explain": ExplainDocument,
    "names": NamesDocument,
    "doctor": DoctorDocument,
    "findings": FindingsDocument,
}
"""Name of the schema file -> shape."""
