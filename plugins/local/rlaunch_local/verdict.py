"""How an attempt ended, from what its agents left behind. Pure.

the outcome says succeeded        SUCCEEDED, whatever happened to an agent afterwards
somebody asked for the end        KILLED `stopped` or `terminated`, FAILED `timeout`
an agent was killed, first        head FAILED `head-lost`, worker WORKER_FAILED `worker-lost`
the outcome says failed           its reason; WORKER_FAILED when that is `worker-lost`
a rank recorded its reason        that reason
otherwise                         `head-lost`, `worker-lost`, or `no-outcome` when all ended with 0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from signal import Signals
from typing import Any, NamedTuple

from rlaunch.model import State


class End(NamedTuple):
    """How one agent ended."""

    rank: int
    exit_code: int | None
    signal: int | None = None
    detail: str = ""
    """Why it could not be started, where it could not."""


class Verdict(NamedTuple):
    """The end of one attempt."""

    state: State
    reason: str
    """Empty for a success: nothing has to be explained."""
    exit_code: int | None = None
    """The driver's."""
    signal: int | None = None
    detail: str = ""


def judge(
    cause: str,
    ends: Sequence[End],
    outcome: Mapping[str, Any],
    records: Mapping[int, Mapping[str, Any]],
) -> Verdict:
    """Decide how an attempt ended.

    `cause` is `ended`, `stopped`, `terminated` or `timeout`; `ends` has the agents that ended before
    anyone signalled them, in the order in which they did; `outcome` is `ray_head.done` of this attempt
    or empty; `records` each rank's own record.
    """
    code, number = outcome.get("exit_code"), outcome.get("signal")
    detail = str(outcome.get("detail") or "")
    if outcome.get("outcome") == "succeeded":
        return Verdict(State.SUCCEEDED, "", 0, None, detail)
    if cause in {"stopped", "terminated"}:
        return Verdict(State.KILLED, cause, code, number, detail)
    if cause == "timeout":
        return Verdict(
            State.FAILED, cause, code, number, detail or "the run's time limit was reached"
        )
    first = ends[0] if ends else None
    if first is not None and first.signal is not None:
        return _lost(
            first, f"agent-killed: rank {first.rank} by {name(first.signal)}", code, number
        )
    if outcome.get("outcome") == "failed":
        reason = str(outcome.get("reason") or "driver-exit")
        return Verdict(_state(reason), reason, code, number, detail)
    return _without_outcome(ends, records)


def _without_outcome(ends: Sequence[End], records: Mapping[int, Mapping[str, Any]]) -> Verdict:
    bad = next((e for e in ends if e.exit_code != 0), None)
    if bad is None:
        ranks = ", ".join(str(e.rank) for e in ends) or "none"
        return Verdict(
            State.FAILED, "no-outcome", detail=f"ranks ended without an outcome: {ranks}"
        )
    record = records.get(bad.rank, {})
    if record.get("reason"):
        reason, detail = str(record["reason"]), str(record.get("detail") or "")
        code, number = record.get("exit_code"), record.get("signal")
        return Verdict(
            _state(reason), reason, code, number, f"rank {bad.rank}: {detail}".rstrip(": ")
        )
    what = bad.detail or f"its agent exited with code {bad.exit_code}"
    return _lost(bad, f"rank {bad.rank}: {what}", None, None)


def _lost(end: End, detail: str, code: int | None, number: int | None) -> Verdict:
    reason = "head-lost" if end.rank == 0 else "worker-lost"
    return Verdict(_state(reason), reason, code, number, detail)


def _state(reason: str) -> State:
    return State.WORKER_FAILED if reason == "worker-lost" else State.FAILED


def name(number: int) -> str:
    """Return a signal's name, such as `SIGKILL`; `signal 99` for one without."""
    try:
        return Signals(number).name
    except ValueError:
        return f"signal {number}"


def again(last: Verdict | None, this: Verdict) -> bool:
    """Tell whether two attempts failed in the same way: a third would too."""
    return last is not None and last[:4] == this[:4]
