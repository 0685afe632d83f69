"""Iris keeps every promise of a cluster, on a real controller; odd words and rubbish come from a stand-in.

The jobs of the kit really run: tasks of the local controller are processes of this machine. A controller
cannot be brought into every state at will, and never says rubbish; for those promises the real client talks
to `tests/services/iris_words.py`, which speaks the controller's wire.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.services import iris_controller, iris_words
from tests.services.outside import find_python

import rlaunch_iris
from rlaunch import JobRef, Plan, Shell, State
from rlaunch.testing.bench import Bench, Sent
from rlaunch.testing.conformance import ClusterConformance
from rlaunch.testing.kit import Kit
from rlaunch.world import SystemClock
from rlaunch_iris import planning


class IrisBench(Bench):
    """Two controllers: a real one, which runs what is submitted, and one that says what it is told."""

    profile = "iris-local"
    nodes = 2

    def __init__(self, tmp: Path) -> None:
        super().__init__(tmp)
        self.shell, self.clock = Shell(), SystemClock()
        self._stack = ExitStack()
        self.words = self._stack.enter_context(iris_words.serve())
        self._short = Path(tempfile.mkdtemp(prefix="rl-"))
        (tmp / "workspace").mkdir()
        (tmp / "workspace/code_of_mine.py").write_text("")

    @property
    def url(self) -> str:
        """The controller that this bench's cluster asks."""
        return self.words.url

    def settings(self) -> Mapping[str, Any]:
        """A shared directory to meet in, no GPUs, and no secrets but the kit's own."""
        return {
            "controller": self.url, "rendezvous_dir": f"{self.tmp}/meet/{{run}}",
            "gpus_per_node": 0, "secrets": [], "python": find_python(),
            "run_dir": f"{self._short}/{{run}}", "ray_temp": f"{self._short}/{{hex}}", "max_retries": 0,
        }  # fmt: skip

    def sent(self, plan: Plan) -> Sent:
        """The driver and its environment stand in `job.json`."""
        import json

        job = json.loads(next(f.content for f in plan.files if f.path == planning.JOB_PATH))
        return Sent(tuple(job["driver"]), job["env"])

    def absent(self) -> JobRef:
        """A job that no controller knows."""
        return JobRef("iris-local", "/kit/never-00000000")

    def native_states(self) -> Mapping[str, State]:
        """The job's states, with the tasks' where the job is only said to be running."""
        return iris_words.STATES

    def show(self, word: str) -> JobRef:
        """Have the stand-in say the word about a new job."""
        return JobRef("iris-local", self.words.show(word))

    def faults(self) -> Iterable[str]:
        """What a proxy, a crash or another program answers."""
        return iris_words.FAULTS

    def spoil(self, fault: str, ref: JobRef) -> None:
        """Let the stand-in go wrong."""
        self.words.fault = fault

    def leftovers(self, ref: JobRef) -> Iterable[str]:
        """Processes that carry the run's id once a pod's grace is over: KILLED is said before."""
        deadline = time.monotonic() + 35
        while (left := self._processes(ref)) and time.monotonic() < deadline:
            time.sleep(0.5)
        return left

    def _processes(self, ref: JobRef) -> list[str]:
        left = []
        mark = f"RLAUNCH_RUN_ID={ref.run_id}\0".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes() + b"\0":
                    left.append(f"process {path.parent.name}")
            except OSError:
                continue
        return left

    def close(self) -> None:
        """Stop both controllers."""
        self._stack.close()
        shutil.rmtree(self._short, ignore_errors=True)


class RealBench(IrisBench):
    """The bench on which jobs really run."""

    def __init__(self, tmp: Path) -> None:
        super().__init__(tmp)
        self._real = self._stack.enter_context(iris_controller.serve("local"))

    @property
    def url(self) -> str:
        """The real controller."""
        return self._real.url


@pytest.mark.e2e
class TestIris(ClusterConformance):
    """Iris keeps every promise of a cluster."""

    plugin = rlaunch_iris
    bench = IrisBench

    @pytest.fixture(scope="class")
    @classmethod
    def job_kit(cls, tmp_path_factory: pytest.TempPathFactory) -> Any:
        """The plugin on a real controller."""
        bench = RealBench(tmp_path_factory.mktemp("jobs"))
        try:
            yield Kit(cls.plugin, bench)
        finally:
            bench.close()
