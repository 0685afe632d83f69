"""Submitting a hundred plans in one process, beside sbatch of the same files: `submit` alone, held jobs.
Then the state of a thousand jobs, in one question.

    SLURM_CONF=… python benchmarks/slurm_submit.py PROFILE.yaml

Wants a SLURM (`tests/services/slurm.sh up`) and a quiet machine: both sides are a millisecond of
work and a wait.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import yaml

import rlaunch_slurm_jupiter
from rlaunch import zipapps
from rlaunch.layers import lay
from rlaunch.model import (
    Command,
    Context,
    JobRef,
    Observed,
    Plan,
    Recipe,
    Request,
    State,
    Workspace,
)
from rlaunch.resolve import resolve
from rlaunch.shell import Shell
from rlaunch.world import SystemClock
from rlaunch_slurm_jupiter.cluster import Slurm

RUNS = 100
JOBS = 1000


def plans(profile: Path, folder: Path) -> tuple[Slurm, list[Plan]]:
    """Plan the runs: one node each, held, so that nothing starts."""
    base: dict[str, Any] = yaml.safe_load(profile.read_text(encoding="utf-8"))
    base |= {"sbatch": ["--hold"], "run_dir": f"{folder}/{{run}}"}
    made = []
    for number in range(RUNS):
        typed = {"name": "bench", "nodes": 1}
        layered = lay(Slurm.Profile, base, origin=str(profile), user={}, typed=typed, flags={})
        here = Workspace(str(folder))
        context = Context(
            "bench", "2026-01-02T03:04:05Z", f"{number:08x}", str(folder), str(folder), str(folder),
            sys.executable, "0", here,
        )  # fmt: skip
        recipe = Recipe("bench.yaml", "0" * 64, {"entrypoint": "rlaunch.smoke"}, {})
        request = Request(cluster="bench", model_path="toy/grpo", train_data='["builtin/sums"]')
        run = resolve(recipe, request, layered, context).run
        assert run is not None  # noqa: S101  # a benchmark of a bad profile is none
        facts = Slurm.Profile.model_validate(layered.profile.facts())
        cluster = Slurm(facts, Shell(), SystemClock())
        plan = cluster.plan(run, Command((sys.executable, "-c", "pass")), Observed())
        artifacts = tuple(zipapps.artifact(n) for n in zipapps.NAMES if "node" in n)
        made.append(plan._replace(artifacts=artifacts))
    return cluster, made


def main() -> None:
    """Measure both, and print the medians and their ratio."""
    rlaunch_slurm_jupiter.rlaunch_cluster()
    with tempfile.TemporaryDirectory() as folder:
        cluster, made = plans(Path(sys.argv[1]), Path(folder))
        ours, raw, jobs = [], [], []
        refs: list[JobRef] = []
        for plan in made:  # side by side, so that both see the same machine
            begin = time.perf_counter()
            refs.append(cluster.submit(plan, {}, lambda line: None))
            middle = time.perf_counter()
            words = [*plan.native["argv"], "1"]
            done = subprocess.run(words, capture_output=True, text=True, check=True)
            raw.append(time.perf_counter() - middle)
            ours.append(middle - begin)
            jobs.append(done.stdout.strip())
        try:
            for _ in range(JOBS - 2 * RUNS):
                done = subprocess.run(words, capture_output=True, text=True, check=True)
                jobs.append(done.stdout.strip())
            refs += [JobRef("bench", job) for job in jobs]
            begin = time.process_time()
            told = cluster.status(refs)
            cpu = time.process_time() - begin
        finally:
            subprocess.run(["scancel", *jobs, *(ref.native for ref in refs)], check=True)
    waiting = sum(status.state is State.PENDING for status in told.values())
    found = {
        "submit_ms": round(statistics.median(ours) * 1e3, 2),
        "sbatch_ms": round(statistics.median(raw) * 1e3, 2),
        "ratio": round(statistics.median(ours) / statistics.median(raw), 2),
        "status_cpu_s": round(cpu, 3),
        "of_jobs": waiting,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
