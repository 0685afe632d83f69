"""What happens in the job before the node agent: rank, address, workspace, MarinSkyRL, secrets."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlaunch.shell import Shell
from rlaunch_iris import archive, planning, start

from .test_archive import git

TELL = """\
import json, os, sys
keep = ("A", "HF_TOKEN", "RLAUNCH_S3_ENDPOINT", "OTHER")
print("TOLD", json.dumps({"argv": sys.argv[1:], "env": {k: os.environ.get(k) for k in keep}}))
"""
"""Stands where the node agent's zipapp lies: tells what it was started with."""


@pytest.mark.parametrize(
    ("task", "told", "rank"),
    [
        ("/ada/rl/3", "8", (3, 8, 0)),
        ("/ada/rl/3:0", "8", (3, 8, 0)),
        ("/ada/rl/0:12", "", (0, 8, 12)),
        ("/ada/parent/kid/7:1", "8", (7, 8, 1)),
    ],
)
def test_rank_and_attempt(task: str, told: str, rank: tuple[int, int, int]) -> None:
    """Both forms of the task id give rank and attempt: old controllers write no attempt 0."""
    assert start.read_rank({"IRIS_TASK_ID": task, "IRIS_NUM_TASKS": told}, 8) == rank


@pytest.mark.parametrize(
    ("task", "told"),
    [("", "8"), ("/ada/rl/x", "8"), ("/ada/rl/1:x", "8"), ("/ada/rl/8", "8"), ("/ada/rl/1", "4")],
)
def test_rank_that_does_not_fit(task: str, told: str) -> None:
    """A rank that cannot be read, or is not of the planned gang, ends the job at once."""
    with pytest.raises(start.Trouble, match="IRIS_"):
        start.read_rank({"IRIS_TASK_ID": task, "IRIS_NUM_TASKS": told}, 8)


def test_addresses() -> None:
    """The advertised address is used, never loopback; ranks on one machine get loopback's of their own."""
    assert start.choose_address({"IRIS_ADVERTISE_HOST": "10.0.4.11"}, "", 0) == "10.0.4.11"
    assert start.choose_address({"IRIS_ADVERTISE_HOST": "10.0.4.11"}, "127.40.2", 3) == "127.40.2.4"


def test_only_whole_marks_are_filled() -> None:
    """A mark inside a word stays: a dataset may be called `{rank}`."""
    words = ["{rank}", "--stage", '["{rank}"]', "x{rank}", "{other}"]
    assert start.fill(words, {"{rank}": "3"}) == [
        "3",
        "--stage",
        '["{rank}"]',
        "x{rank}",
        "{other}",
    ]


def test_secrets_arrive_as_files(tmp_path: Path) -> None:
    """Planned secrets are read from the controller's files; others are not, and variables stand first."""
    for name in ("HF_TOKEN", "WANDB_API_KEY", "UNPLANNED"):
        (tmp_path / name).write_text(f"{name}-value")
    env = {"RIGGING_SECRETS_DIR": str(tmp_path), "WANDB_API_KEY": "already"}
    found = start.gather_secrets(["HF_TOKEN", "WANDB_API_KEY", "MISSING"], env)
    assert found == {"HF_TOKEN": "HF_TOKEN-value"}
    assert start.gather_secrets(["HF_TOKEN"], {}) == {}


def test_check_out_purges_and_says_where(tmp_path: Path) -> None:
    """`--skyrl-ref` puts the clone at the commit, removes stale bytecode and prints the revision."""
    origin, clone = tmp_path / "origin", tmp_path / "clone"
    origin.mkdir()
    git(origin, "init", "-q", "-b", "main")
    (origin / "a.py").write_text("old")
    git(origin, "add", "-A")
    git(origin, "commit", "-qm", "old")
    git(tmp_path, "clone", "-q", str(origin), str(clone))
    (origin / "a.py").write_text("new")
    git(origin, "commit", "-qam", "new")
    head = subprocess.run(
        ["git", "-C", str(origin), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    ).stdout.strip()
    (clone / "__pycache__").mkdir()
    (clone / "__pycache__/a.cpython-312.pyc").write_text("stale")
    said: list[str] = []
    start.check_out(str(clone), head, said.append)
    assert (clone / "a.py").read_text() == "new"
    assert not list(clone.rglob("*.pyc"))
    assert said == [f"MarinSkyRL now at {head} (1 stale bytecode files removed)"]


def test_check_out_without_the_origin(tmp_path: Path) -> None:
    """A fetch that fails is told and passed over; a commit that is not there ends the job."""
    git(tmp_path, "init", "-q")
    (tmp_path / "a").touch()
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "x")
    git(tmp_path, "remote", "add", "origin", str(tmp_path / "nowhere"))
    said: list[str] = []
    start.check_out(str(tmp_path), "HEAD", said.append)
    assert "fetching MarinSkyRL failed" in said[0]
    with pytest.raises(start.Trouble, match="`feedface` cannot be checked out"):
        start.check_out(str(tmp_path), "feedface", said.append)


def test_image_without_git(tmp_path: Path) -> None:
    """A clone that was built from an archive has no git: one clear clause, not git's exit 128."""
    with pytest.raises(start.Trouble, match="is no git checkout"):
        start.check_out(str(tmp_path), "HEAD", print)


def job_at(tmp_path: Path, **changes: Any) -> tuple[Path, dict[str, Any]]:
    """Lay out a work directory as Iris does, with a teller for an agent."""
    work, tree = tmp_path / "work", tmp_path / "tree"
    ours = work / "_rlaunch"
    ours.mkdir(parents=True)
    (tree / "tests").mkdir(parents=True)
    (tree / "tests/run.sh").write_text("#!/bin/sh\n")
    (tree / "tests/run.sh").chmod(0o755)
    packed = archive.bundle(str(tree), Shell(), str(tmp_path / "cache"))
    (ours / "workspace.tar.gz").write_bytes(packed.data)
    (ours / "rlaunch-node.pyz").write_text(TELL)
    (ours / "start.py").write_text(planning.START_TEXT, encoding="utf-8")
    job = {
        "run": "rl-0a1b2c3d", "nodes": 2, "python": sys.executable, "run_dir": str(tmp_path / "run"),
        "ray_temp": "/tmp/r", "network": "127.40.2",
        "workspace": {"archive": "workspace.tar.gz", "to": "", "sha256": packed.sha256},
        "artifacts": {"to": str(tmp_path / "run/artifacts"), "names": ["rlaunch-node.pyz"]},
        "files": [{"path": "conf/x.yaml", "mode": 0o600, "content": "é\n"}],
        "skyrl": {"dir": "", "ref": ""}, "s3": {"RLAUNCH_S3_ENDPOINT": "http://h"},
        "env": {"A": "l1\nl2 $(id) é"}, "secrets": ["HF_TOKEN"],
        "agent": ["agent", "--rank", "{rank}", "--attempt", "{attempt}", "--cwd", "{workspace}",
                  "--node-ip", "{address}", "--env-file", "{env_file}", "--ray-temp", "{ray_temp}"],
        "driver": ["python", "{rank}", "a b", "$HOME", ""],
    }  # fmt: skip
    job |= changes
    (ours / "job.json").write_text(json.dumps(job))
    return work, job


def begin(work: Path, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run the shell text of the request as Iris does."""
    secrets = tmp_path / "secrets"
    secrets.mkdir(exist_ok=True)
    (secrets / "HF_TOKEN").write_text("token")
    env = {
        "PATH": os.environ["PATH"], "IRIS_TASK_ID": "/ada/rl/1:4", "IRIS_NUM_TASKS": "2",
        "IRIS_WORKDIR": str(work), "RIGGING_SECRETS_DIR": str(secrets), "OTHER": "kept",
    }  # fmt: skip
    from rlaunch_iris import request

    argv = ["bash", "-c", request.START, sys.executable]
    return subprocess.run(argv, env=env, cwd="/", capture_output=True, text=True, check=False)


def test_start_becomes_the_agent(tmp_path: Path) -> None:
    """The workspace is unpacked, artifacts and files lie in place, and the agent gets what was planned."""
    work, job = job_at(tmp_path)
    done = begin(work, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout.partition("TOLD ")[2])
    env_file = f"{job['run_dir']}/work/1/env-4.json"
    assert told["argv"] == [
        "agent", "--rank", "1", "--attempt", "4", "--cwd", str(work), "--node-ip", "127.40.2.2",
        "--env-file", env_file, "--ray-temp", "/tmp/r/4", "--", *job["driver"],
    ]  # fmt: skip
    assert told["env"] == {
        "A": None, "HF_TOKEN": "token", "RLAUNCH_S3_ENDPOINT": "http://h", "OTHER": "kept",
    }  # fmt: skip
    assert json.loads(Path(env_file).read_text()) == job["env"]
    assert os.access(work / "tests/run.sh", os.X_OK)
    assert (tmp_path / "run/conf/x.yaml").read_text() == "é\n"
    assert "rank=1/2 attempt=4" in done.stdout


def test_workspace_goes_where_it_was_planned(tmp_path: Path) -> None:
    """A planned directory that can be written is used; one that cannot is not, and the job goes on."""
    place = tmp_path / "app"
    place.mkdir()
    work, _ = job_at(
        tmp_path, workspace={"archive": "workspace.tar.gz", "to": str(place), "sha256": ""}
    )
    assert begin(work, tmp_path).returncode == 0
    assert (place / "tests/run.sh").is_file()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"workspace": {"archive": "workspace.tar.gz", "to": "", "sha256": "0" * 64}},
            "planned was",
        ),
        ({"nodes": 1}, "does not fit the 1 nodes planned"),
        ({"skyrl": {"dir": "/nowhere", "ref": "x"}}, "is no git checkout"),
        ({"workspace": {"archive": "absent", "to": "", "sha256": ""}}, "absent"),
    ],
)
def test_trouble_is_told(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    """What goes wrong before the agent is one clause in the log, and exit code 79."""
    work, _ = job_at(tmp_path, **change)
    done = begin(work, tmp_path)
    assert done.returncode == start.FAILED
    assert said in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_start_is_old_python() -> None:
    """It runs on the job's interpreter: Python 3.10 to its parser, and the standard library alone."""
    tree = ast.parse(planning.START_TEXT, feature_version=(3, 10))
    names = {
        a.name.partition(".")[0]
        for n in ast.walk(tree)
        if isinstance(n, ast.Import)
        for a in n.names
    }
    names |= {
        str(n.module).partition(".")[0] for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)
    }
    assert names - {"__future__"} <= sys.stdlib_module_names
