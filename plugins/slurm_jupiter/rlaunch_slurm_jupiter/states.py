"""SLURM's words for the states of a job, what they mean here, and how a chain's jobs are one run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlaunch.model import State


class Meaning(NamedTuple):
    """What a native state is, and the reason to give where SLURM has no better one."""

    state: State
    reason: str = ""
    ended: bool = False


_LIVE = {
    "PENDING": (State.PENDING, ""),
    "REQUEUED": (State.WAITING, "requeued"),
    "REQUEUE_FED": (State.WAITING, "requeued"),
    "REQUEUE_HOLD": (State.WAITING, "requeued-held"),
    "SPECIAL_EXIT": (State.WAITING, "requeued-held"),
    "RESV_DEL_HOLD": (State.WAITING, "reservation-deleted"),
    "CONFIGURING": (State.STARTING, "nodes-configuring"),
    "POWER_UP_NODE": (State.STARTING, "nodes-configuring"),
    "EXPEDITING": (State.STARTING, "expediting"),
    "STAGE_IN": (State.STARTING, "stage-in"),
    "RUNNING": (State.RUNNING, ""),
    "RESIZING": (State.RUNNING, "resizing"),
    "SUSPENDED": (State.RUNNING, "suspended"),
    "STOPPED": (State.RUNNING, "suspended"),
    "SIGNALING": (State.RUNNING, "signaling"),
    "UPDATE_DB": (State.RUNNING, ""),
    "COMPLETING": (State.STOPPING, "completing"),
    "STAGE_OUT": (State.STOPPING, "stage-out"),
}
_ENDED = {
    "COMPLETED": (State.SUCCEEDED, ""),
    "FAILED": (State.FAILED, "job-failed"),
    "TIMEOUT": (State.FAILED, "time-limit"),
    "DEADLINE": (State.FAILED, "deadline"),
    "OUT_OF_MEMORY": (State.FAILED, "out-of-memory"),
    "BOOT_FAIL": (State.FAILED, "boot-failure"),
    "LAUNCH_FAILED": (State.FAILED, "launch-failure"),
    "RECONFIG_FAIL": (State.FAILED, "reconfiguration-failure"),
    "NODE_FAIL": (State.WORKER_FAILED, "node-failure"),
    "PREEMPTED": (State.KILLED, "preempted"),
    "CANCELLED": (State.KILLED, "cancelled"),
    "REVOKED": (State.KILLED, "revoked"),
}
TABLE: Mapping[str, Meaning] = {
    **{word: Meaning(state, reason) for word, (state, reason) in _LIVE.items()},
    **{word: Meaning(state, reason, True) for word, (state, reason) in _ENDED.items()},
}
"""Every state of SLURM 20.11 to 24.11 (`squeue -t all`, `sacct`), in capital letters."""

NO_OUTPUT = 53
"""SLURM's "signal" for a job whose output file could not be opened: quota or permissions."""
PUT_BACK = "BeginTime"
"""Why a job waits that SLURM has put back (preempted, requeued, a lost node): for a while it may not begin.
No run of rlaunch asks for a begin time by itself."""
NEVER = {
    "BadConstraints": "no node has what the job asks for",
    "DependencyNeverSatisfied": "the job that it waits for did not end as it should",
    "PartitionNodeLimit": "the partition takes no job of so many nodes",
    "PartitionTimeLimit": "the partition takes no job of that length",
    "ReservationDeleted": "its reservation is gone",
    "InvalidAccount": "the account cannot be used here",
    "InvalidQOS": "the QOS cannot be used here",
}
"""Reasons of pending jobs that no waiting mends. The job stays in the queue, so the state stays PENDING."""


def meaning(word: str) -> Meaning:
    """Return what a native state means; `CANCELLED by 1000` is read by its first word. Unknown words
    are `UNKNOWN`: neither ended nor well."""
    first = word.strip().split(" ")[0].rstrip("+").upper()
    return TABLE.get(first, Meaning(State.UNKNOWN, f"SLURM says `{word.strip()[:40]}`"))


class Link(NamedTuple):
    """One job of a run, as the scheduler or its accounting describes it."""

    job: str
    word: str
    """Native state."""
    reason: str = ""
    start: str = ""
    """RFC 3339; of a pending job the expected start."""
    end: str = ""
    exit_code: int | None = None
    signal: int | None = None
    nodes: str = ""
    name: str = ""
    work_dir: str = ""
    """The run directory, for a job of rlaunch."""
    steps: tuple[str, ...] = ()
    """Native states of its steps, where accounting was asked."""

    @property
    def meaning(self) -> Meaning:
        """What its state means; a step that ran out of memory tells more than `FAILED`."""
        found = meaning(self.word)
        if found.state is State.FAILED and found.reason == "job-failed":
            if self.signal == NO_OUTPUT:
                return Meaning(State.FAILED, "no-output-file", True)
            for step in self.steps:
                if meaning(step).reason == "out-of-memory":
                    return Meaning(State.FAILED, "out-of-memory", True)
        return found

    @property
    def started(self) -> bool:
        """Tell whether it ever ran."""
        return bool(self.start) and bool(self.nodes) and not self.nodes.startswith("None")


class Verdict(NamedTuple):
    """What the jobs of one run come to."""

    state: State
    reason: str
    since: str
    link: Link | None
    at: int
    """Number of that link, counted from 1."""


def combine(links: Sequence[Link]) -> Verdict:
    """Return where a run stands, from its jobs in the order in which they follow one another.

    The first job that has not ended decides; of ended ones the last that ran. A job that was cancelled
    before it ran says nothing: that is how the rest of a chain ends.
    """
    if not links:
        return Verdict(State.ABSENT, "", "", None, 0)
    for number, link in enumerate(links, 1):
        what = link.meaning
        if not what.ended:
            return _live(links, number, link, what)
    for number, link in reversed(list(enumerate(links, 1))):
        if link.meaning.state is State.SUCCEEDED:
            return Verdict(State.SUCCEEDED, "", link.end, link, number)
    ran = [(n, link) for n, link in enumerate(links, 1) if link.started]
    number, link = ran[-1] if ran else (1, links[0])
    return Verdict(link.meaning.state, _reason(link, link.meaning), link.end, link, number)


def _live(links: Sequence[Link], number: int, link: Link, what: Meaning) -> Verdict:
    state, reason = what.state, _reason(link, what)
    if state is State.PENDING and (number > 1 or link.reason == PUT_BACK):
        state = State.WAITING
    if state is State.RUNNING and link.reason == "Prolog":
        state, reason = State.STARTING, "the nodes' prolog runs"
    return Verdict(state, reason, link.start if state is not State.PENDING else "", link, number)


def _reason(link: Link, what: Meaning) -> str:
    said = link.reason if link.reason not in ("None", "", "(null)") else ""
    if what.state in (State.PENDING, State.WAITING):
        never = NEVER.get(said)
        return f"{said}: {never}" if never else said or what.reason
    return what.reason
