"""Jobs that a real SLURM ends early, and those that it starts again by itself."""

from __future__ import annotations

import time
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(700)]
SLOW = ["--skyrl_override", "++smoke.step_seconds=2", "--skyrl_override", "trainer.ckpt_interval=1"]


def begun(seen: dict[str, Any]) -> bool:
    """Tell whether all drivers run."""
    return bool(seen["ranks"]) and all(rank["phase"] == "running" for rank in seen["ranks"])


def test_a_preempted_run_comes_back_with_its_secrets(
    slurm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SLURM puts the job back; its next attempt finds the secrets, resumes and succeeds, and they go.

    Chains are tried with a told SLURM (`test_script.py`): the same lines of the script decide.
    """
    monkeypatch.setitem(slurm.env, "HF_TOKEN", "not-a-real-one")
    name = "back"
    words = ("--max-retries", "1", "--no-wait")
    slurm.launch(*SLOW, *words, name=name, nodes=3, restart="requeue")
    slurm.wait(name, begun)
    run = slurm.run_dir(name)
    urgent = slurm.slurm(
        "sbatch", "--parsable", "--account=testacct", "--partition=urgent", "--nodes=3",
        "--gres=gpu:4", "--wrap=sleep 5", f"--output={slurm.home}/urgent.out",
    ).strip()  # fmt: skip
    try:
        slurm.wait(name, lambda s: s["state"] in ("WAITING", "PENDING"), 90)
        assert (run / "attempts" / "1" / "end").read_text().startswith("cut terminated ")
        assert (run / "secrets.json").exists()
        assert slurm.status(name)["state"] == "WAITING", "put back is not new"
    finally:
        slurm.slurm("scancel", urgent)
    job = slurm.status(name)["native"]["job"]
    slurm.slurm("scontrol", "update", f"JobId={job}", "StartTime=now")
    seen = slurm.wait(name, lambda s: s["state"] in ("SUCCEEDED", "FAILED", "KILLED"), 200)
    assert (seen["state"], seen["attempt"]) == ("SUCCEEDED", 2), slurm.output(name)
    assert "Resumed training from global_step" in (run / "logs" / "2" / "0.log").read_text()
    assert not (run / "secrets.json").exists()


def test_stop_while_the_site_is_prepared(slurm: Any) -> None:
    """`rlaunch stop` need not wait for a line of the profile: the job ends at once, as stopped."""
    slurm.launch("--no-wait", name="early", before=["sleep 100"])
    slurm.wait("early", lambda s: s["attempt"] == 1)
    begin = time.monotonic()
    done = slurm.rlaunch("stop", "early", "--yes")
    assert done.returncode == 0, done.stderr
    assert time.monotonic() - begin < 10, "the grace is 10 s, and nothing needs it"
    seen = slurm.status("early")
    assert (seen["state"], seen["reason"]) == ("KILLED", "stopped")
    assert (slurm.run_dir("early") / "attempts" / "1" / "end").read_text() == "cut stopped 143\n"
