"""The same from a laptop: everything through the system's ssh, to a real sshd on loopback."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
SERVICE = Path(__file__).resolve().parents[2] / "services" / "sshd.sh"


@pytest.fixture
def laptop(slurm: Any, tmp_path: Path) -> Iterator[Any]:
    """rlaunch without any SLURM of its own: the clients exist only behind ssh."""
    base = tmp_path / "sshd"
    conf = slurm.env["SLURM_CONF"]
    words = [SERVICE, "up", base, f"SLURM_CONF={conf}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    here = type(slurm)(tmp_path / "home", "/none/slurm.conf")
    here.home.mkdir()
    here.env["RLAUNCH_SSH_CONFIG"] = done.stdout.strip()
    yield here
    config = done.stdout.strip()
    for path in Path("/tmp", f"rlaunch-ssh-{os.getuid()}").glob("*"):
        subprocess.run(
            ["ssh", "-F", config, "-o", f"ControlPath={path}", "-O", "exit", "login"],
            check=False, capture_output=True,
        )  # fmt: skip
    subprocess.run([SERVICE, "down", base], check=False)


def test_the_whole_way_through_ssh(laptop: Any, slurm: Any) -> None:
    """Launch, watch, logs and diagnosis from a machine that has no SLURM; the run lies on the cluster."""
    place = f"{slurm.home}/remote/{{run}}"
    laptop.launch("--host", "login", name="remote", run_dir=place, data_root=f"{slurm.home}/data")
    [run] = Path(slurm.home, "remote").glob("remote-*")
    assert (run / "last").read_text() == "1 succeeded driver-exit 0\n"
    seen = laptop.status("remote")
    assert (seen["state"], seen["attempt"], seen["exit_code"]) == ("SUCCEEDED", 1, 0)
    assert [r["node"] for r in seen["ranks"]] == [seen["native"]["nodes"]]
    logs = laptop.rlaunch("logs", "remote")
    assert "Training done!" in logs.stdout
    assert laptop.rlaunch("stop", "remote", "--yes").returncode == 0


def test_a_login_node_that_is_away(laptop: Any, slurm: Any) -> None:
    """Without the login node a run is UNKNOWN, and a launch is refused with the command that must work."""
    laptop.env["RLAUNCH_SSH_CONFIG"] = "/dev/null"
    done = laptop.launch(name="lost", host="nowhere.invalid", run_dir="/tmp/none/{run}", code=3)
    assert "slurm_jupiter.host" in done.stderr
    assert "ssh nowhere.invalid true" in done.stderr


def test_a_run_started_elsewhere(laptop: Any, slurm: Any) -> None:
    """A job that this laptop did not start is found by its number, through the same ssh."""
    job = slurm.slurm(
        "sbatch",
        "--parsable",
        "--account=testacct",
        "--wrap=sleep 300",
        "--output=/dev/null",
        "--job-name=foreign",
    ).strip()
    profile = laptop.profile(host="login")
    try:
        done = laptop.rlaunch("status", f"{profile}:{job}", "--json")
        assert json.loads(done.stdout)["state"] in ("PENDING", "RUNNING"), done.stderr
        assert laptop.rlaunch("stop", f"{profile}:{job}", "--yes").returncode == 0
        done = laptop.rlaunch("status", f"{profile}:{job}", "--json")
        assert json.loads(done.stdout)["state"] == "KILLED"
    finally:
        slurm.slurm("scancel", job)
