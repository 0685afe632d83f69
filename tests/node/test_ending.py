"""How long an agent waits for its driver once the attempt is over."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from rlaunch.node import reasons
from rlaunch.node.agent import Agent
from rlaunch.node.flags import parse_agent_flags
from rlaunch.node.main import guard
from rlaunch.node.output import Log
from rlaunch.node.reasons import Ending, Outcome, fail


class Stubborn:
    """A role that comes to its end in a given way, with a driver that never does."""

    def __init__(self, agent: Agent, trouble: Exception | None) -> None:
        self.agent, self.trouble = agent, trouble
        self.looked = 0

    def run(self) -> None:
        if self.trouble is not None:
            raise self.trouble
        self.agent.loop.end(fail(reasons.TERMINATED, "told to"))
        self.agent.loop.until(lambda: False, 1)

    def still_there(self) -> bool:
        """Say that the driver is there, but not for ever: the test must end too."""
        self.looked += 1
        return self.looked > 20

    def finish(self, outcome: Outcome) -> Outcome:
        self.agent.loop.shielded = True
        self.agent.outlast(outcome, self.still_there)
        return outcome


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (None, reasons.TERMINATED),
        (Ending(fail(reasons.DRIVER_SILENT, "mute")), reasons.DRIVER_SILENT),
        (RuntimeError("a bug"), reasons.AGENT_FAILED),
    ],
    ids=["told", "raised", "bug"],
)
def test_patience_with_the_driver_ends(
    tmp_path: Path, trouble: Exception | None, reason: str
) -> None:
    """However the attempt came to its end, the driver is waited for until 2 s before the grace is over."""
    words = ["--run-id", "r", "--attempt", "1", "--rank", "0", "--nodes", "1", "--grace", "2.5"]
    words += ["--rendezvous", str(tmp_path / "r"), "--node-ip", "127.0.0.2"]
    words += ["--work-dir", str(tmp_path / "w"), "--", "true"]
    role = Stubborn(Agent(parse_agent_flags(words), Log("", "rank=0/1")), trouble)
    began = time.monotonic()
    assert guard(role).reason == reason
    assert time.monotonic() - began >= 0.5
    assert role.looked <= 20
