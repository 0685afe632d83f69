"""The kit, run by the plugin's author. `queue` is not on this machine, so the kit's fake one stands in."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import rlaunch_acme
from rlaunch_acme import queue

from rlaunch import JobRef, Plan, State
from rlaunch.testing.bench import Sent, ShellBench
from rlaunch.testing.conformance import ClusterConformance
from rlaunch.testing.fakes import FakeClock, FakeQueue, FakeShell


class AcmeBench(ShellBench):
    """The fake queue, asked through a fake shell."""

    nodes = 1

    def __init__(self, tmp: Path) -> None:
        super().__init__(tmp)
        self.queue = FakeQueue()
        self.shell, self.clock = FakeShell(self.queue.answer), FakeClock()

    def settings(self) -> Mapping[str, Any]:
        """Keep everything in the test's own directory."""
        return {"run_dir": f"{self.tmp}/runs/{{run}}"}

    def sent(self, plan: Plan) -> Sent:
        """Read the request back."""
        return Sent(*queue.read_request(plan.native["request"]))

    def absent(self) -> JobRef:
        """A number that the queue has not given yet."""
        return JobRef("acme", "99")

    def native_states(self) -> Mapping[str, State]:
        """All words of the queue."""
        return queue.STATES

    def show(self, word: str) -> JobRef:
        """Put a job of that state into the queue."""
        return JobRef("acme", self.queue.put(word, 0 if word == "DONE" else None))


class TestAcme(ClusterConformance):
    """Acme keeps every promise of a cluster."""

    plugin = rlaunch_acme
    bench = AcmeBench
