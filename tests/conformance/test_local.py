"""The local cluster keeps every promise; what the promises need runs as real processes on this machine."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import rlaunch_local
from rlaunch import JobRef, Plan, Shell, State
from rlaunch.testing.bench import Bench, Sent
from rlaunch.testing.conformance import ClusterConformance
from rlaunch.world import SystemClock
from rlaunch_local import proc, statefile

LIVE = {
    "PENDING": State.PENDING,
    "WAITING": State.WAITING,
    "STARTING": State.STARTING,
    "RUNNING": State.RUNNING,
    "STOPPING": State.STOPPING,
}
ENDED = {
    "SUCCEEDED": State.SUCCEEDED,
    "FAILED": State.FAILED,
    "KILLED": State.KILLED,
    "WORKER_FAILED": State.WORKER_FAILED,
}
LOST = "RUNNING, supervisor gone"


class LocalBench(Bench):
    """This machine, with a state directory of its own. Pretended runs have a sleeper for a supervisor."""

    def __init__(self, tmp: Path) -> None:
        super().__init__(tmp)
        self.shell, self.clock = Shell(), SystemClock()
        self._home = mock.patch.dict(os.environ, {"XDG_STATE_HOME": f"{tmp}/state"})
        self._home.start()
        self._count = itertools.count(1)
        self._sleeper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])

    def settings(self) -> Mapping[str, Any]:
        """Runs lie in the test's own directory; no GPUs, so that a gang asks for none."""
        return {"run_dir": f"{self.tmp}/state/rlaunch/local/{{run}}", "gpus_per_node": 0}

    def sent(self, plan: Plan) -> Sent:
        """Rank 0's agent gets the driver after its `--`; every agent reads the same `env.json`."""
        argv = plan.native["ranks"][0]["argv"]
        env = next(file.content for file in plan.files if file.path == "env.json")
        return Sent(tuple(argv[argv.index("--") + 1 :]), json.loads(env))

    def absent(self) -> JobRef:
        """A run that no directory belongs to."""
        return JobRef("local", "never-00000000")

    def native_states(self) -> Mapping[str, State]:
        """The words of `state.json`; a live one is worth nothing once the supervisor is gone."""
        return {**LIVE, **ENDED, LOST: State.FAILED}

    def show(self, word: str) -> JobRef:
        """Write a run's directory as a supervisor would have left it."""
        name = f"shown-{next(self._count):08x}"
        run_dir = self._directory(name)
        (run_dir / "logs" / "1").mkdir(parents=True)
        (run_dir / "logs" / "1" / "0.log").write_text("2026-01-02T03:04:05.000Z one line\n")
        alive = word.partition(",")[0] in LIVE and word != LOST
        supervisor = proc.identify(self._sleeper.pid) if alive else proc.Process(2**22 - 1, 1, "")
        at = "2026-01-02T03:04:05Z"
        state = statefile.Snapshot(name, State.RUNNING, "", at, 1, supervisor=supervisor)
        said = {**statefile.to_json(state), "state": word.partition(",")[0]}
        (run_dir / statefile.STATE).write_text(json.dumps(said))
        return JobRef("local", name)

    def faults(self) -> Iterable[str]:
        """What a full disk, a crash or an editor makes of a state file."""
        return (
            "half a file",
            "an empty file",
            "another JSON",
            "a directory",
            "no state file",
            "NULs",
        )

    def spoil(self, fault: str, ref: JobRef) -> None:
        """Replace the run's state file."""
        state = self._directory(ref.native) / statefile.STATE
        text = state.read_text()
        state.unlink()
        match fault:
            case "half a file":
                state.write_text(text[: len(text) // 2])
            case "an empty file":
                state.touch()
            case "another JSON":
                state.write_text('[{"state": "RUNNING"}]')
            case "a directory":
                state.mkdir()
            case "NULs":
                state.write_bytes(b"\0" * 512)

    def leftovers(self, ref: JobRef) -> Iterable[str]:
        """Processes that carry the run's id."""
        return (f"process {row}" for row in proc.scan(ref.native).values())

    def close(self) -> None:
        """End the sleeper, and whatever a failed test left running."""
        for run_dir in Path(self.tmp, "state/rlaunch/local").glob("kit-*"):
            proc.sweep(run_dir.name)
        self._sleeper.kill()
        self._sleeper.wait()
        self._home.stop()

    def _directory(self, name: str) -> Path:
        return Path(self.tmp, "state", "rlaunch", "local", name)


class TestLocal(ClusterConformance):
    """Local keeps every promise of a cluster."""

    plugin = rlaunch_local
    bench = LocalBench
