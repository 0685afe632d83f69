"""What goes wrong on a real SLURM ends with a named reason and the right exit code."""

from __future__ import annotations

import json
import re
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(700)]
SERVICES = Path(__file__).resolve().parents[2] / "services"


def override(**keys: object) -> list[str]:
    """Return the arguments that set keys of the toy trainer."""
    return [
        w for key, value in keys.items() for w in ("--skyrl_override", f"++smoke.{key}={value}")
    ]


def running(seen: dict[str, Any]) -> bool:
    """Tell whether the driver runs, or the run has ended."""
    ranks = seen["ranks"]
    begun = bool(ranks) and all(r["phase"] == "running" for r in ranks)
    return begun or seen["state"] in ("FAILED", "SUCCEEDED", "KILLED", "WORKER_FAILED")


def native(seen: dict[str, Any]) -> str:
    """Return the id of the job that the status is about."""
    return str(seen["native"]["job"])


def test_exit_code_is_kept(slurm: Any) -> None:
    """A driver that exits 7 makes rlaunch exit 1, and the status keep 7."""
    slurm.launch(*override(fail_at_step=1, exit_code=7), name="exit7", nodes=2, code=1)
    seen = slurm.status("exit7")
    assert (seen["state"], seen["reason"], seen["exit_code"]) == ("FAILED", "driver-exit", 7)


def test_a_chain_resumes_and_finishes(slurm: Any) -> None:
    """A link that meets its wall limit is no failure: the next one resumes from its checkpoint."""
    slurm.launch(
        *override(step_seconds=8), "--skyrl_override", "trainer.max_steps=14", "--skyrl_override",
        "trainer.ckpt_interval=1", "--max-retries", "2", "--timeout", "60", name="chain",
        patience=540,
    )  # fmt: skip
    run = slurm.run_dir("chain")
    seen = slurm.status("chain")
    assert (seen["state"], seen["native"]["links"]) == ("SUCCEEDED", 3)
    assert seen["attempt"] in (2, 3), "112 s of steps do not fit into 60 s"
    assert (run / "attempts" / "1" / "end").read_text().startswith("cut ")
    log = (run / "logs" / "2" / "0.log").read_text()
    [resumed] = re.findall(r"Resumed training from global_step (\d+)", log)
    assert int(resumed) > 0
    assert f"starts from step {resumed} of 14" in slurm.output("chain")


def test_the_driver_is_asked_before_the_wall_limit(slurm: Any) -> None:
    """`--signal` ends the gang in order before SLURM cuts it, and the run says `time-limit`."""
    slurm.launch(*override(hang_at_step=2), "--timeout", "60", name="lead", save_lead_s=5, code=1)
    run = slurm.run_dir("lead")
    assert (run / "attempts" / "1" / "end").read_text() == "cut wall-limit 138\n"
    seen = slurm.status("lead")
    assert (seen["state"], seen["reason"], seen["signal"]) == ("FAILED", "time-limit", 10)


def test_a_driver_may_save_for_longer_than_the_grace(slurm: Any) -> None:
    """On the early signal the driver has the lead to write its only checkpoint; the next link resumes it."""
    slurm.launch(
        *override(hang_at_step=3, save_seconds=15), "--skyrl_override", "trainer.ckpt_interval=100",
        "--max-retries", "1", "--timeout", "120", name="saves", nodes=2, save_lead_s=40, patience=540,
    )  # fmt: skip
    run = slurm.run_dir("saves")
    assert (run / "attempts" / "1" / "end").read_text() == "cut wall-limit 138\n"
    first = (run / "logs" / "1" / "0.log").read_text()
    times = [
        re.search(rf"^(\S+)Z .*{what}", first, re.MULTILINE)
        for what in ("Asked to end", "saved ch")
    ]
    asked, saved = (datetime.fromisoformat(found[1]) for found in times if found)
    assert (saved - asked).total_seconds() > 15, "the grace is 10 s"
    assert "starts from step 3 of 12" in slurm.output("saves")
    assert "Resumed training from global_step 3" in (run / "logs" / "2" / "0.log").read_text()
    seen = slurm.status("saves")
    assert (seen["state"], seen["attempt"], seen["native"]["links"]) == ("SUCCEEDED", 2, 2)


def test_requeue_and_then_success(slurm: Any) -> None:
    """With `restart: requeue` the same job runs again, with a new attempt number."""
    slurm.launch(
        *override(fail_at_step=2, fail_attempts=2), "--max-retries", "1", name="requeue",
        restart="requeue",
    )  # fmt: skip
    run = slurm.run_dir("requeue")
    assert (run / "attempts" / "1" / "end").read_text().startswith("failed driver-exit")
    assert "restart=1" in (run / "attempts" / "2" / "begin").read_text()
    assert slurm.status("requeue")["native"]["links"] == 1


def test_failing_alike_twice_ends_the_chain(slurm: Any) -> None:
    """The third link of a run that failed twice in the same way never asks for its nodes' time."""
    slurm.launch(*override(fail_at_step=1, exit_code=9), "--max-retries", "3", name="alike", code=1)
    run = slurm.run_dir("alike")
    assert sorted(p.name for p in (run / "attempts").iterdir()) == ["1", "2"]
    seen = slurm.status("alike")
    assert (seen["state"], seen["reason"], seen["exit_code"]) == ("FAILED", "driver-exit", 9)
    left = slurm.slurm("squeue", "--noheader", f"--name={run.name}", "--states=PENDING,RUNNING")
    assert left.strip() == ""


def test_stop_ends_the_whole_chain(slurm: Any) -> None:
    """`rlaunch stop` takes the waiting links first, the driver next, confirms, and is idempotent."""
    slurm.launch(*override(hang_at_step=2), "--max-retries", "2", "--no-wait", name="stop", nodes=2)
    slurm.wait("stop", running)
    begin = time.monotonic()
    done = slurm.rlaunch("stop", "stop", "--yes")
    took = time.monotonic() - begin
    assert done.returncode == 0, done.stderr
    assert took < 15 + 5 + 2, f"KillWait is 15 s, and it took {took:.1f} s"
    seen = slurm.status("stop")
    assert (seen["state"], seen["reason"]) == ("KILLED", "stopped")
    run = slurm.run_dir("stop")
    assert (run / "attempts" / "1" / "end").read_text().startswith("cut stopped")
    assert not (run / "secrets.json").exists()
    assert slurm.rlaunch("stop", "stop", "--yes").returncode == 0
    assert leftovers(run.name) == []


def leftovers(run: str) -> list[str]:
    """Return the processes that carry a run's id."""
    mark = f"RLAUNCH_RUN_ID={run}\0".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes() + b"\0":
                found.append(path.parent.joinpath("cmdline").read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def test_a_job_that_somebody_cancelled(slurm: Any) -> None:
    """scancel from elsewhere is KILLED, not failed and not absent."""
    slurm.launch(*override(hang_at_step=2), "--no-wait", name="scancel")
    seen = slurm.wait("scancel", running)
    slurm.slurm("scancel", native(seen))
    seen = slurm.wait("scancel", lambda s: s["state"] not in ("RUNNING", "STOPPING"), 60)
    assert seen["state"] == "KILLED"
    assert slurm.rlaunch("watch", "scancel", "--once").returncode == 1


def test_preemption_is_told_apart(slurm: Any) -> None:
    """A job that a more urgent one pushes away is KILLED, `preempted`; nobody failed."""
    slurm.launch(*override(hang_at_step=2), "--no-wait", name="preempted", nodes=3)
    slurm.wait("preempted", lambda s: s["state"] == "RUNNING")
    urgent = slurm.slurm(
        "sbatch", "--parsable", "--account=testacct", "--partition=urgent", "--nodes=3",
        "--gres=gpu:4", "--wrap=sleep 5", f"--output={slurm.home}/urgent.out",
    ).strip()  # fmt: skip
    try:
        seen = slurm.wait("preempted", lambda s: s["state"] not in ("RUNNING", "STOPPING"), 90)
    finally:
        slurm.slurm("scancel", urgent)
    assert (seen["state"], seen["reason"]) == ("KILLED", "preempted")


def test_a_lost_node_is_named(slurm: Any) -> None:
    """A node that loses its power ends the run as WORKER_FAILED, `node-failure`."""
    slurm.launch(*override(hang_at_step=2), "--no-wait", name="nodefail", nodes=2)
    seen = slurm.wait("nodefail", running)
    node = seen["ranks"][1]["node"]
    try:
        subprocess.run([SERVICES / "slurm.sh", "nodecrash", node], check=True, timeout=60)
        seen = slurm.wait("nodefail", lambda s: s["state"] in ("FAILED", "WORKER_FAILED"), 120)
    finally:
        subprocess.run([SERVICES / "slurm.sh", "nodestart", node], check=True, timeout=60)
    assert seen["state"] == "WORKER_FAILED", seen
    assert seen["reason"] in ("node-failure", "worker-lost")


def test_pending_for_ever_says_why(slurm: Any) -> None:
    """A job that the partition will never take stays PENDING, with SLURM's reason and what it means."""
    profile = slurm.profile(partition="small")
    plan = slurm.home / "never.plan.json"
    made = slurm.rlaunch(
        "plan", "--cluster", str(profile), "--rl_config", "docs/recipes/smoke.yaml", "--model_path",
        "toy/grpo", "--train_data", '["builtin/sums"]', "--num-nodes", "3", "--job-name", "never",
        "-o", str(plan),
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    done = slurm.rlaunch("submit", str(plan), "--no-wait", "--skip-preflight", "test-only")
    assert done.returncode == 0, done.stderr
    seen = slurm.wait("never", lambda s: "PartitionNodeLimit" in s["reason"], 30)
    assert seen["state"] == "PENDING"
    assert slurm.rlaunch("watch", "never", "--once").returncode == 4
    assert slurm.rlaunch("stop", "never", "--yes").returncode == 0
    assert slurm.status("never")["state"] == "KILLED"


def test_a_controller_that_is_away(slurm: Any) -> None:
    """While slurmctld is down the state is UNKNOWN, never ABSENT; afterwards the run is as it was."""
    slurm.launch(*override(hang_at_step=2), "--no-wait", name="away")
    slurm.wait("away", running)
    try:
        subprocess.run([SERVICES / "slurm.sh", "ctldown"], check=True, timeout=60)
        done = slurm.rlaunch("status", "away", "--json")
        assert (json.loads(done.stdout)["state"], done.returncode) == ("UNKNOWN", 3)
    finally:
        subprocess.run([SERVICES / "slurm.sh", "ctlup"], check=True, timeout=60)
    assert slurm.wait("away", lambda s: s["state"] != "UNKNOWN", 60)["state"] == "RUNNING"
    assert slurm.rlaunch("stop", "away", "--yes").returncode == 0
