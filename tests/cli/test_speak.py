"""How a status is told in one line."""

from __future__ import annotations

import pytest

from rlaunch.cli.speak import status_line
from rlaunch.model import JobRef, State, Status

JOB = JobRef("ours", "7", "rl-0a1b2c3d")
AT = "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("state", "reason", "native", "told"),
    [
        (State.PENDING, "Priority", {"expected_start": AT}, f"(Priority, expected start {AT})"),
        (State.WAITING, "", {"expected_start": AT}, f"(expected start {AT})"),
        (State.PENDING, "Priority", {}, "(Priority)"),
        (State.PENDING, "", {}, ""),
        (State.KILLED, "cancelled", {"expected_start": AT}, "(cancelled)"),
    ],
)
def test_a_line_says_when_a_waiting_run_may_start(
    state: State, reason: str, native: dict[str, object], told: str
) -> None:
    """Any cluster's expected start stands beside the reason, until the run has ended."""
    line = status_line(Status(JOB, state, reason, native=native), AT)
    assert line == f"{AT} {JOB} {state.value} {told}".rstrip()


@pytest.mark.parametrize(
    ("native", "told"),
    [
        ({"detail": "Ray exited 1:\n  no room"}, ": Ray exited 1: no room"),
        ({"detail": ""}, ""),
        ({"detail": None}, ""),
        ({}, ""),
        ({"detail": "x" * 5000}, f": {'x' * 299}…"),
    ],
)
def test_the_detail_stands_beside_the_reason(native: dict[str, object], told: str) -> None:
    """What a cluster knows beside the reason is shown in one line, and cut where it is very long."""
    status = Status(JOB, State.FAILED, "ray-failed", attempt=1, exit_code=69, native=native)
    assert status_line(status) == f"{JOB} FAILED (ray-failed) attempt=1 exit=69{told}"
