"""What is killed on a real SLURM gets a last word from the node, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.slurm.processes import commands
from tests.e2e.slurm.test_slurm_faults import leftovers, override

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_rank_that_dies_before_it_speaks(slurm: Any) -> None:
    """Rank 0 ends the gang within seconds, naming the rank, though it never heard of it."""
    python = slurm.home / "python-of-rank-0"
    python.write_text(
        f'#!/bin/bash\n[[ "${{SLURM_PROCID:-0}}" == 0 ]] || kill -KILL $$\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    begin = time.monotonic()
    slurm.launch(name="mute", nodes=2, code=1, python=str(python))
    assert time.monotonic() - begin < 60, "srun alone would have waited for 90 s"
    seen = slurm.status("mute")
    assert (seen["state"], seen["reason"]) == ("WORKER_FAILED", "worker-lost")
    assert "Stopping: worker-lost: rank 1 (node n" in slurm.output("mute")


def test_a_python_that_does_not_start(slurm: Any) -> None:
    """No node is called lost where no agent ever began: the step failed, and diagnose says so."""
    slurm.launch(name="unable", nodes=2, code=1, python="/bin/false")
    seen = slurm.status("unable")
    assert (seen["state"], seen["reason"]) == ("FAILED", "step-failed")
    assert "a Python that does not start" in slurm.rlaunch("diagnose", "unable").stdout


def test_an_srun_that_is_killed(slurm: Any) -> None:
    """The run ends with a name for it, its ranks as ended, and no process nor directory is left."""
    slurm.launch(*override(hang_at_step=2), "--no-wait", name="srun", nodes=2)
    run = slurm.run_dir("srun")
    temp = f"rl-{run.name.rpartition('-')[2]}-1-"
    slurm.wait("srun", lambda s: len(list(Path("/tmp").glob(f"{temp}*"))) == 2, 60)
    os.kill(srun_of(run.name), signal.SIGKILL)
    seen = slurm.wait("srun", lambda s: s["state"] not in ("RUNNING", "STOPPING"), 60)
    assert (seen["state"], seen["reason"]) == ("FAILED", "head-lost")
    assert [rank["phase"] for rank in seen["ranks"]] == ["ended", "ended"]
    assert leftovers(run.name) == []
    assert list(Path("/tmp").glob(f"{temp}*")) == []


def srun_of(run: str) -> int:
    """Return the process of a run's `srun`; the other one of that name is its child."""
    mark = run.encode()
    return min(p for p, ws in commands() if ws[0] == b"srun" and any(mark in w for w in ws))
