"""Verdicts on an attempt, and whether another one makes sense. Pure."""

from __future__ import annotations

from typing import Any

import pytest

from rlaunch.model import State
from rlaunch_local.verdict import End, Verdict, again, judge, name

WON = {"outcome": "succeeded", "exit_code": 0}
SEVEN = {
    "outcome": "failed",
    "reason": "driver-exit",
    "exit_code": 7,
    "detail": "the driver exited 7",
}
LOST = {
    "outcome": "failed",
    "reason": "worker-lost",
    "exit_code": None,
    "detail": "rank 1 is silent",
}
STAGING = {"reason": "staging-failed", "exit_code": 65, "detail": "no data"}


@pytest.mark.parametrize(
    ("cause", "ends", "outcome", "records", "wanted"),
    [
        ("ended", [End(0, 0), End(1, 0)], WON, {}, (State.SUCCEEDED, "", 0)),
        ("stopped", [], WON, {}, (State.SUCCEEDED, "", 0)),
        ("ended", [End(1, None, 9)], WON, {}, (State.SUCCEEDED, "", 0)),
        ("stopped", [], {}, {}, (State.KILLED, "stopped", None)),
        ("terminated", [], SEVEN, {}, (State.KILLED, "terminated", 7)),
        ("timeout", [], {}, {}, (State.FAILED, "timeout", None)),
        ("ended", [End(0, 7), End(1, 7)], SEVEN, {}, (State.FAILED, "driver-exit", 7)),
        ("ended", [End(1, None, 9), End(0, 1)], SEVEN, {}, (State.WORKER_FAILED, "worker-lost", 7)),
        ("ended", [End(0, None, 9), End(1, 67)], {}, {}, (State.FAILED, "head-lost", None)),
        ("ended", [End(0, 68)], LOST, {}, (State.WORKER_FAILED, "worker-lost", None)),
        ("ended", [End(1, 65)], {}, {1: STAGING}, (State.FAILED, "staging-failed", 65)),
        ("ended", [End(1, 3)], {}, {}, (State.WORKER_FAILED, "worker-lost", None)),
        ("ended", [End(0, 3)], {}, {1: STAGING}, (State.FAILED, "head-lost", None)),
        ("ended", [End(1, 0), End(0, 65)], {}, {0: STAGING}, (State.FAILED, "staging-failed", 65)),
        ("ended", [End(0, 0)], {}, {}, (State.FAILED, "no-outcome", None)),
        ("ended", [], {}, {}, (State.FAILED, "no-outcome", None)),
        ("ended", [], {"outcome": "failed"}, {}, (State.FAILED, "driver-exit", None)),
    ],
)
def test_judging(cause: str, ends: Any, outcome: Any, records: Any, wanted: Any) -> None:
    """A success stands above all, then what was asked for, the first lost agent, the outcome."""
    assert judge(cause, ends, outcome, records)[:3] == wanted


def test_a_lost_agent_keeps_the_drivers_code() -> None:
    """What the driver made of a lost node is kept beside the reason, which is the node."""
    said = judge("ended", [End(2, None, 11)], SEVEN, {})
    assert said == Verdict(
        State.WORKER_FAILED, "worker-lost", 7, None, "agent-killed: rank 2 by SIGSEGV"
    )


def test_names_of_signals() -> None:
    """A signal has its name, or its number where it has none."""
    assert (name(9), name(99)) == ("SIGKILL", "signal 99")


def test_the_same_failure() -> None:
    """Only state, reason, exit code and signal decide: details differ every time."""
    first = Verdict(State.FAILED, "driver-exit", 7, None, "at 10:00")
    assert again(first, first._replace(detail="at 11:00"))
    assert not again(first, first._replace(exit_code=8))
    assert not again(first, first._replace(reason="ray-failed"))
    assert not again(None, first)
