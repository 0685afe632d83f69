"""The conformance kit's promises about real jobs, on the real SLURM; what sbatch reads of a script; and how
long submitting takes beside sbatch alone."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest

import rlaunch_slurm_jupiter
from rlaunch import JobRef, Plan, Shell, State
from rlaunch.testing.bench import Bench, Sent
from rlaunch.testing.conformance import ClusterConformance
from rlaunch.testing.job_promises import JobPromises
from rlaunch.testing.kit import Kit
from rlaunch.world import SystemClock

SETTINGS: Mapping[str, Any] = {
    "account": "testacct", "gpu_type": "gh200", "gpu_request": "gres-typed", "cpu": 2.0,
    "memory": "3GiB", "modules": [], "tunnel": None, "save_lead_s": 0, "grace_s": 10.0,
    "kill_wait_s": 15.0, "object_store": "128MiB", "memory_reserve": "256MiB", "min_disk": "100MiB",
    "min_inodes": 100, "egress": True, "python": sys.executable, "timeout_s": 1800,
}  # fmt: skip


class RealBench(Bench):
    """The real SLURM of the session."""

    nodes = 2

    def __init__(self, tmp: Path) -> None:
        super().__init__(tmp)
        self.shell, self.clock = Shell(), SystemClock()

    def settings(self) -> Mapping[str, Any]:
        """The test cluster's facts; runs lie in the test's own directory."""
        return {**SETTINGS, "run_dir": f"{self.tmp}/runs/{{run}}", "data_root": f"{self.tmp}/data"}

    def sent(self, plan: Plan) -> Sent:
        """Never asked: these are the promises about jobs."""
        raise NotImplementedError

    def absent(self) -> JobRef:
        """A job number that was never given."""
        return JobRef("jupiter", "99999999")

    def native_states(self) -> Mapping[str, State]:
        """Never asked here."""
        return {}

    def show(self, word: str) -> JobRef:
        """Never asked here."""
        raise NotImplementedError

    def faults(self) -> Iterable[str]:
        """Never asked here."""
        return ()

    def spoil(self, fault: str, ref: JobRef) -> None:
        """Never asked here."""

    def leftovers(self, ref: JobRef) -> Iterable[str]:
        """Processes that carry the run's id."""
        mark = f"RLAUNCH_RUN_ID={ref.run_id}".encode()
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes().split(b"\0"):
                    yield path.parent.name
            except OSError:
                continue


@pytest.fixture(scope="module", autouse=True)
def conf(slurm: Any) -> Iterator[None]:
    """SLURM's clients find the cluster by this variable."""
    with mock.patch.dict(os.environ, {"SLURM_CONF": slurm.env["SLURM_CONF"]}):
        yield


@pytest.mark.timeout(600)
@pytest.mark.e2e
class TestJobs(JobPromises):
    """SLURM keeps the promises about real jobs."""

    plugin = rlaunch_slurm_jupiter
    bench: ClassVar[type[RealBench]] = RealBench
    job_kit = ClusterConformance.job_kit
    failed = ClusterConformance.failed
    succeeded = ClusterConformance.succeeded
    stopped = ClusterConformance.stopped


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Kit:
    """The plugin on the real SLURM."""
    return Kit(rlaunch_slurm_jupiter, RealBench(tmp_path_factory.mktemp("kit")))


NAMES = ["b", "0", "x" * 54, "a-b-c", "rl-131k-2026", "n" * 30 + "-1"]
DIRS = [
    "plain",
    "a b",
    "it's",
    "50%",
    "#hash",
    "a=b,c",
    "ünï-李",
    "(x) [1] & $y ;",
    "back`tick",
]
_ids = itertools.count(1)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("name", "folder"), [*((n, "plain") for n in NAMES), *(("a", d) for d in DIRS)]
)
def test_sbatch_reads_what_was_written(kit: Kit, name: str, folder: str) -> None:
    """Job names and directories of many shapes arrive in SLURM as they are in the plan."""
    root = kit.bench.tmp / folder
    run_id = f"{name}-{next(_ids):08x}"
    paths = kit.run.paths._replace(run_dir=f"{root}/{run_id}")
    run = kit.run._replace(
        id=run_id, name=name, paths=paths, profile={**kit.run.profile, "sbatch": ["--hold"]}
    )
    plan = kit.plan(run, kit.job("0").command)
    ref = kit.submit(plan)
    try:
        shown = subprocess.run(
            ["squeue", "--noheader", f"--jobs={ref.native}", "--format=%j\t%Z\t%k\t%T"],
            capture_output=True, text=True, check=True,
        ).stdout.rstrip("\n")  # fmt: skip
        assert shown.split("\t") == [run_id, paths.run_dir, "rlaunch", "PENDING"]
        assert kit.status(ref).state is State.PENDING
        said = subprocess.run(
            ["scontrol", "show", "job", ref.native], capture_output=True, text=True, check=True
        ).stdout
        output = re.search(r"StdOut=(.*)", said)
        assert output is not None
        assert output[1].replace("%%", "%") == f"{paths.run_dir}/job-{ref.native}.out"
    finally:
        kit.cluster.stop(ref)
    assert kit.status(ref).state is State.KILLED
