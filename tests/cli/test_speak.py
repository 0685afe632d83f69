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
