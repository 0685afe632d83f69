"""The SLURM cluster keeps every promise: planning and answers on text as SLURM prints it. The promises
about real jobs are kept on a real SLURM, in `tests/e2e/test_slurm_promises.py`."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import rlaunch_slurm_jupiter
from rlaunch import JobRef, Plan, State
from rlaunch.shell import Done
from rlaunch.testing.answer_promises import AnswerPromises
from rlaunch.testing.bench import RUBBISH, Sent, ShellBench
from rlaunch.testing.conformance import ClusterConformance
from rlaunch.testing.fakes import FakeClock, FakeShell
from rlaunch.testing.plan_promises import PlanPromises
from rlaunch_slurm_jupiter.queries import ACCOUNT_HEADER, QUEUE_HEADER

WORDS = {
    "PENDING": State.PENDING,
    "REQUEUED": State.WAITING,
    "REQUEUE_HOLD": State.WAITING,
    "REQUEUE_FED": State.WAITING,
    "RESV_DEL_HOLD": State.WAITING,
    "SPECIAL_EXIT": State.WAITING,
    "CONFIGURING": State.STARTING,
    "RUNNING": State.RUNNING,
    "RESIZING": State.RUNNING,
    "SUSPENDED": State.RUNNING,
    "STOPPED": State.RUNNING,
    "SIGNALING": State.RUNNING,
    "COMPLETING": State.STOPPING,
    "STAGE_OUT": State.STOPPING,
    "COMPLETED": State.SUCCEEDED,
    "FAILED": State.FAILED,
    "TIMEOUT": State.FAILED,
    "DEADLINE": State.FAILED,
    "OUT_OF_MEMORY": State.FAILED,
    "BOOT_FAIL": State.FAILED,
    "NODE_FAIL": State.WORKER_FAILED,
    "PREEMPTED": State.KILLED,
    "CANCELLED": State.KILLED,
    "CANCELLED by 1000": State.KILLED,
    "REVOKED": State.KILLED,
}
CODES = {"COMPLETED": "0:0", "FAILED": "7:0", "OUT_OF_MEMORY": "0:125"}


class SlurmBench(ShellBench):
    """A controller and its accounting, as text. A job that ended is in the accounting too."""

    def __init__(self, tmp: Path) -> None:
        super().__init__(tmp)
        self.jobs: dict[str, str] = {}
        self._count = itertools.count(1001)
        self.shell, self.clock = FakeShell(self._answer), FakeClock()

    def settings(self) -> Mapping[str, Any]:
        """Runs lie in the test's own directory."""
        places = {"run_dir": f"{self.tmp}/runs/{{run}}", "data_root": f"{self.tmp}/data"}
        return {**places, "sif": None, "egress": True, "ships_workspace": False}

    def sent(self, plan: Plan) -> Sent:
        """The task's file has the driver, and the environment is a file of its own."""
        files = {file.path: file.content for file in plan.files}
        task = json.loads(files["task.json"])
        assert "--env-file" in task["agent"]
        return Sent(tuple(task["driver"]), json.loads(files["env.json"]))

    def absent(self) -> JobRef:
        """A job id that neither the controller nor the accounting knows."""
        return JobRef("jupiter", "999999")

    def native_states(self) -> Mapping[str, State]:
        """Every word of `squeue` and `sacct`, and a cancelled job as `sacct` words it."""
        return WORDS

    def show(self, word: str) -> JobRef:
        """Put a job in that state."""
        job = str(next(self._count))
        self.jobs[job] = word
        return JobRef("jupiter", job)

    def faults(self) -> Iterable[str]:
        """The names of the answers that no command should give."""
        return RUBBISH

    def _answer(self, argv: tuple[str, ...], stdin: str | None) -> Done | None:
        words = [w for w in argv if not w.startswith("-")]
        tool = next(
            (w for w in words if w in ("squeue", "sacct", "scontrol", "sinfo", "sbatch")), argv[0]
        )
        wanted = next((w[7:].split(",") for w in argv if w.startswith("--jobs=")), [])
        match tool:
            case "squeue" if any("%k" in w for w in argv):
                return Done(argv, 0, "STATE|COMMENT|NAME\n", "")
            case "squeue":
                return self._queue(argv, wanted)
            case "sacct":
                rows = [self._row(job) for job in wanted if job in self.jobs]
                return Done(argv, 0, "\n".join([ACCOUNT_HEADER, *rows]) + "\n", "")
            case "sinfo" if "--version" in argv[-1]:
                return Done(argv, 0, "/home/kit\nslurm-wlm 24.11.5\n", "")
            case "sinfo":
                nodes = "".join(f"n{i}|gpu:gh200:4(S:0-3)|idle\n" for i in range(64))
                return Done(argv, 0, f"NODELIST|GRES|STATE\n{nodes}", "")
            case "sbatch":
                text = "sbatch: Job 7 to start at 2026-01-02T03:05:00 using 4 processors on n1\n"
                return Done(argv, 0, "", text)
            case "sh" if "df -Pk" in argv[2]:
                table = "Filesystem 1K Used Avail Use Mounted\n/dev/x 9 1 99999999999 1% /\n"
                return Done(argv, 0, f"writable\n{table}{table}/home/kit\n", "")
        return Done(argv, 0, "", "")

    def _queue(self, argv: tuple[str, ...], wanted: list[str]) -> Done:
        known = [job for job in wanted if job in self.jobs]
        if not known and len(wanted) == 1:
            error = "slurm_load_jobs error: Invalid job id specified\n"
            return Done(argv, 1, "", error)
        rows = [
            f"{job}|{self.jobs[job].partition(' ')[0]}|None|2026-01-02T03:04:05|n1|kit|/nowhere/{job}"
            for job in known
        ]
        return Done(argv, 0, "\n".join([QUEUE_HEADER, *rows]) + "\n", "")

    def _row(self, job: str) -> str:
        word = self.jobs[job]
        times = "2026-01-02T03:04:05|2026-01-02T03:04:06"
        return f"{job}|{word}|{CODES.get(word, '0:0')}|{times}|n1|kit|/nowhere/{job}"


class TestSlurm(PlanPromises, AnswerPromises):
    """SLURM keeps every promise of a cluster that needs no real job."""

    plugin = rlaunch_slurm_jupiter
    bench: ClassVar[type[SlurmBench]] = SlurmBench
    kit = ClusterConformance.kit
