"""The controller's words → our states. Pure.

`running` of the controller only means "dispatched": a gang that Kueue holds back is running there, with all
its tasks building and the reason in a task's message. So the tasks are looked at.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from rlaunch.model import JobRef, Rank, State, Status
from rlaunch_iris.views import JobView, TaskView

ENDS = {
    "succeeded": State.SUCCEEDED, "failed": State.FAILED, "killed": State.KILLED,
    "worker_failed": State.WORKER_FAILED, "unschedulable": State.UNSCHEDULABLE,
}  # fmt: skip
LIVE = frozenset({"pending", "building", "running"})
_LOST = frozenset({"preempted", "cosched_failed", "worker_failed", "missing"})
_GATED = re.compile(r"Kueue workload .*?QuotaReserved \([^)]*\): (.*)", re.DOTALL)
_IMAGE = re.compile(r"(?:ImagePullBackOff|ErrImagePull|InvalidImageName|ErrImageNeverPull)\b")


class Wait(NamedTuple):
    """What a task that does not run yet is waiting for."""

    state: State
    reason: str


def read_message(message: str) -> Wait:
    """Read a task's message: Kueue's and Kubernetes' words as Iris passes them on."""
    text = re.sub(r"\s+", " ", message).strip()
    if _IMAGE.match(text):
        return Wait(State.STARTING, f"image: {text}")
    if "admitted by Kueue" in text:
        return Wait(State.STARTING, "admitted by kueue, the gates are being removed")
    if found := _GATED.search(text):
        return Wait(State.WAITING, f"kueue: {found[1].strip()}")
    if "not found yet" in text:
        return Wait(State.WAITING, "kueue: the gang is not queued yet")
    if text.startswith(("SchedulingGated", "Unschedulable", "Scheduler:")):
        return Wait(State.WAITING, text)
    return Wait(State.STARTING, text)


def judge(ref: JobRef, job: JobView, tasks: Sequence[TaskView]) -> Status:
    """Return the status of one job. Without `tasks` the job's own counts stand in."""
    attempt = max((t.attempt for t in tasks), default=None)
    ranks = tuple(map(_rank, tasks))
    counts = dict(Counter(t.state for t in tasks) or job.counts)
    native = {
        "state": job.state, "tasks": counts, "failures": job.failures, "preemptions": job.preemptions,
    }  # fmt: skip
    status = Status(ref, State.UNKNOWN, attempt=attempt, ranks=ranks, native=native)
    if job.state in ENDS:
        return _ended(status, job, tasks)
    if job.state not in LIVE:
        return status._replace(reason=f"the controller says `{job.state}`, which is not known here")
    wait = _live(job, tasks)
    return status._replace(state=wait.state, reason=wait.reason, since=_since(job, tasks, wait))


def _ended(status: Status, job: JobView, tasks: Sequence[TaskView]) -> Status:
    state = ENDS[job.state]
    at = _time(job.finished_ms)
    if state is State.SUCCEEDED:
        return status._replace(state=state, since=at, exit_code=0)
    culprit = _culprit(tasks)
    reason = re.sub(r"\s+", " ", job.error).strip()
    if culprit is None:
        return status._replace(state=state, since=at, reason=reason)
    code = culprit.exit_code
    signal = code - 128 if 128 < code < 160 else None
    why = next((a.reason for a in reversed(culprit.attempts) if a.reason), "")
    if state is State.FAILED:
        reason = f"rank {culprit.rank} exited {code}: {reason}" if code else reason
    elif why:
        reason = f"{reason} ({why})" if reason else why
    return status._replace(
        state=state, since=at, reason=reason, exit_code=code or None, signal=signal
    )


def _culprit(tasks: Sequence[TaskView]) -> TaskView | None:
    """Return the rank whose end decided: rank 0 where it failed, since the workers end with its code."""
    failed = [t for t in tasks if t.exit_code and t.state != "succeeded"]
    blamed = [t for t in failed if t.state == "failed"] or failed
    return min(blamed, key=lambda t: t.rank, default=None)


def _live(job: JobView, tasks: Sequence[TaskView]) -> Wait:
    counts = Counter(t.state for t in tasks) if tasks else Counter(job.counts)
    total = sum(counts.values())
    up = counts["running"] + counts["succeeded"]
    if total and up == total:
        return Wait(State.RUNNING, "")
    if up:
        return Wait(State.STARTING, f"{up} of {total} ranks run")
    waiting = [t for t in tasks if t.state in {"pending", "building", "assigned"}]
    told = [read_message(t.message) for t in waiting if t.message]
    held = next((w for w in told if w.state is State.WAITING), told[0] if told else None)
    lost = _lost(tasks)
    if held is not None:
        return held._replace(reason=f"{lost}; {held.reason}") if lost else held
    if lost:
        return Wait(State.WAITING, lost)
    if job.state == "pending":
        return Wait(State.WAITING, job.reason) if job.reason else Wait(State.PENDING, "")
    dispatched = counts["assigned"] + counts["building"]
    return Wait(State.STARTING, "") if dispatched else Wait(State.PENDING, job.reason)


def _lost(tasks: Sequence[TaskView]) -> str:
    """Return why the last attempt was lost to the cluster, where it was: that is no failure of the run."""
    for task in tasks:
        past = [a for a in task.attempts if a.number < task.attempt or task.state == "pending"]
        if past and past[-1].state == "preempted":
            return f"preempted: {past[-1].reason or past[-1].error}".rstrip(": ")
    for task in tasks:
        past = [a for a in task.attempts if a.number < task.attempt or task.state == "pending"]
        if past and past[-1].state in _LOST:
            return f"lost its node: {past[-1].reason or past[-1].error}".rstrip(": ")
    return ""


def _since(job: JobView, tasks: Sequence[TaskView], wait: Wait) -> str:
    if wait.state is State.RUNNING:
        return _time(max((t.started_ms for t in tasks), default=0) or job.started_ms)
    ended = max((a.finished_ms for t in tasks for a in t.attempts), default=0)
    return _time(max(ended, job.submitted_ms))


def _rank(task: TaskView) -> Rank:
    over = task.state in {"succeeded", "failed"} or bool(task.exit_code)
    code = task.exit_code if over else None  # a task that was bounced before it ended says 0
    signal = code - 128 if code and 128 < code < 160 else None
    return Rank(task.rank, task.node, task.state, exit_code=code, signal=signal)


def _time(ms: int) -> str:
    if not ms:
        return ""
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
