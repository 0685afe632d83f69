"""Generation A of the Iris client: the oldest one against its own real controller, on Python 3.11."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLIENT = "marin-iris[controller]==0.2.20.dev202606180959"
KEPT = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rlaunch-tests/iris-old"


def find_old_python() -> str | None:
    """Return an interpreter of Python 3.11, which that client needs, where this machine has one."""
    pyenv = sorted(Path.home().glob(".pyenv/versions/3.11.*/bin/python3.11"))
    return shutil.which("python3.11") or (str(pyenv[-1]) if pyenv else None)


def make_environment(python: str) -> str:
    """Return the interpreter of an environment with the old client; made once and kept."""
    made = KEPT / "bin/python"
    if not (KEPT / "done").exists():
        find = subprocess.run(
            [ROOT / "tools/find-uv", python], capture_output=True, text=True, check=True
        )
        uv = find.stdout.strip()
        subprocess.run([uv, "venv", "-q", "--clear", "--python", python, str(KEPT)], check=True)
        packages = [
            CLIENT,
            "pydantic>=2.9",
            "pyyaml>=6",
            "pluggy>=1.5",
            "stevedore>=5.3",
            "kubernetes>=29",
        ]
        install = [
            uv,
            "pip",
            "install",
            "-q",
            "--compile-bytecode",
            "--python",
            str(made),
            *packages,
        ]
        subprocess.run(install, check=True, timeout=280)
        (KEPT / "done").touch()
    return str(made)


if (OLD := find_old_python()) is not None:

    @pytest.mark.e2e
    @pytest.mark.timeout(600)
    def test_oldest_client_and_controller() -> None:
        """Submit, status of one and of many, logs by rank, exit code, stop and absence work with 0.2.20."""
        parts = ("core", "plugins/iris", ".")
        env = {
            "PATH": os.environ["PATH"], "HOME": str(KEPT), "PYTHONWARNINGS": "ignore",
            "WANDB_API_KEY": "of-the-shell",
            "PYTHONPATH": os.pathsep.join(str(ROOT / part) for part in parts),
        }  # fmt: skip
        done = subprocess.run(
            [make_environment(str(OLD)), str(ROOT / "tests/services/iris_old.py")],
            env=env, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        said = json.loads(done.stdout.strip().splitlines()[-1])
        assert said["health"][1].startswith("0.2.20")
        assert said["health"][3] == "A"
        assert said["failed"] == ["FAILED", 7, 0]
        assert said["ranks"] == [0, 1]
        assert "from the bundle" in said["lines"]
        assert any(line.endswith("|a b|t|") for line in said["lines"]), said["lines"]
        assert said["many"] == ["FAILED", "KILLED", "ABSENT"]
