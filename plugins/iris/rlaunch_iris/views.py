"""What the rest of the plugin knows of the controller: our own types, whatever client is installed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

JOB_STATES = {
    1: "pending", 2: "building", 3: "running", 4: "succeeded", 5: "failed", 6: "killed",
    7: "worker_failed", 8: "unschedulable",
}  # fmt: skip
TASK_STATES = {**JOB_STATES, 9: "assigned", 10: "preempted", 11: "cosched_failed", 12: "missing"}
JOB_ENDED = frozenset({"succeeded", "failed", "killed", "worker_failed", "unschedulable"})


class JobView(NamedTuple):
    """One job as the controller sees it. Times are milliseconds since the epoch, 0 for unknown."""

    job_id: str
    state: str
    """A value of `JOB_STATES`, or `state-N` for one that is not known here."""
    error: str = ""
    reason: str = ""
    """The controller's pending reason or status message."""
    submitted_ms: int = 0
    started_ms: int = 0
    finished_ms: int = 0
    failures: int = 0
    preemptions: int = 0
    counts: Mapping[str, int] = {}
    """Tasks by state."""
    tasks: int = 0
    gpus: int = 0
    """Of one task."""

    @property
    def ended(self) -> bool:
        """True where the controller will not change the state any more."""
        return self.state in JOB_ENDED


class AttemptView(NamedTuple):
    """One attempt of one task."""

    number: int
    state: str
    exit_code: int = 0
    error: str = ""
    node: str = ""
    reason: str = ""
    """Why it ended, in Kubernetes' words."""
    finished_ms: int = 0


class TaskView(NamedTuple):
    """One task, which is one rank."""

    rank: int
    state: str
    attempt: int = 0
    exit_code: int = 0
    error: str = ""
    message: str = ""
    """Why it waits (Kueue's and Kubernetes' words), where it does."""
    node: str = ""
    started_ms: int = 0
    attempts: tuple[AttemptView, ...] = ()


class LogEntry(NamedTuple):
    """One line of one attempt of one rank."""

    rank: int
    attempt: int
    at_ms: int
    text: str


class LogPage(NamedTuple):
    """Lines and the cursor that the next page starts from."""

    entries: tuple[LogEntry, ...]
    cursor: int


class Health(NamedTuple):
    """What the installed client and the controller are."""

    url: str
    client_version: str
    client_date: str
    """ISO date of the client's build; empty where it does not know."""
    generation: str
    """`A` up to 0.2.84, `B` from 0.2.87 on."""
