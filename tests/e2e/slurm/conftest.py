"""A real SLURM of three pretended nodes and a real SIF, started once for all tests here.

Where they cannot be had (no root, no package mirror) the tests say so and are skipped; with
`RLAUNCH_REQUIRE_SERVICES=1`, as in CI, that is a failure instead.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
SERVICES = ROOT / "tests" / "services"
RLAUNCH = Path(sys.executable).with_name("rlaunch")
PROFILE: Mapping[str, Any] = {
    "name": "rltest",
    "plugin": "slurm_jupiter",
    "gpus_per_node": 4,
    "cpu": 2,
    "memory": "3GiB",
    "partition": "booster",
    "account": "testacct",
    "gpu_request": "gres-typed",
    "gpu_type": "gh200",
    "interfaces": ["ib0"],
    "ip_variables": ["VLLM_HOST_IP"],
    "timeout_s": 1800,
    "max_time_s": 86400,
    "python": sys.executable,
    "grace_s": 10,
    "kill_wait_s": 15,
    "object_store": "128MiB",
    "memory_reserve": "256MiB",
    "min_disk": "100MiB",
    "min_inodes": 100,
    "secrets": ["HF_TOKEN"],
}


def service(name: str, *words: str) -> str:
    """Run a service script; where it fails, skip with what it said, or fail where it is required."""
    if os.getuid() != 0 or shutil.which("apt-get") is None:
        give_up(f"{name} needs root and apt-get")
    script = SERVICES / name
    done = subprocess.run(
        [script, *words], capture_output=True, text=True, check=False, timeout=900
    )
    if done.returncode != 0:
        give_up(f"{name} {' '.join(words)}: {done.stderr.strip()[-400:]}")
    return done.stdout


def no_surprise() -> None:
    """Skip where SLURM is not installed: `make test` installs nothing on a machine by itself."""
    if shutil.which("slurmctld") is None and not os.environ.get("RLAUNCH_REQUIRE_SERVICES"):
        pytest.skip("SLURM is not installed; `make test-e2e` installs it")


def give_up(why: str) -> None:
    """Skip, or fail where the services are required."""
    if os.environ.get("RLAUNCH_REQUIRE_SERVICES"):
        pytest.fail(why)
    pytest.skip(why)


class Cluster:
    """The cluster, and rlaunch on it with a home of its own."""

    def __init__(self, home: Path, conf: str) -> None:
        self.home = home
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "XDG_"))},
            "HOME": str(home),
            "SLURM_CONF": conf,
        }
        self.env.pop("PYTHONDONTWRITEBYTECODE", None)

    def slurm(self, *words: str) -> str:
        """Run one of SLURM's own programs."""
        done = subprocess.run(
            words, env=self.env, capture_output=True, text=True, check=True, timeout=60
        )
        return done.stdout

    def profile(self, **changes: Any) -> Path:
        """Write a profile file of one's own."""
        places = {
            "run_dir": f"{self.home}/runs/{{run}}",
            "storage_root": "{run_dir}",
            "data_root": f"{self.home}/data",
        }
        path = self.home / f"profile-{time.monotonic_ns()}.yaml"
        path.write_text(json.dumps({**PROFILE, **places, **changes}))
        return path

    def rlaunch(self, *words: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
        """Run rlaunch to its end."""
        return subprocess.run(
            [RLAUNCH, *words], env=self.env, cwd=ROOT, capture_output=True, text=True,
            check=False, timeout=timeout,
        )  # fmt: skip

    def launch(
        self,
        *words: str,
        name: str,
        nodes: int = 1,
        code: int = 0,
        patience: float = 240,
        **changes: Any,
    ) -> subprocess.CompletedProcess[str]:
        """Launch the smoke recipe and expect an exit code."""
        recipe = [] if "--rl_config" in words else ["--rl_config", "docs/recipes/smoke.yaml"]
        done = self.rlaunch(
            "--cluster", str(self.profile(**changes)), *recipe, "--model_path", "toy/grpo",
            "--train_data", '["builtin/sums"]', "--num-nodes", str(nodes), "--job-name", name,
            "--if-exists", "new",  # a second try of a test
            *words, timeout=patience,
        )  # fmt: skip
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}\n{self.output(name)}"
        return done

    def run_dir(self, name: str) -> Path:
        """Return the directory of the newest run of a name."""
        return max(self.home.glob(f"runs/{name}-*"), key=lambda p: p.stat().st_mtime)

    def output(self, name: str) -> str:
        """Return what the batch script and rank 0 said, for a failed test."""
        folders = sorted(self.home.glob(f"runs/{name}-*"))
        files = [f for d in folders for f in [*d.glob("job-*.out"), *d.glob("logs/*/0.log")]]
        return "\n".join(f"== {f}\n{f.read_text(errors='replace')[-3000:]}" for f in files)

    def status(self, name: str) -> dict[str, Any]:
        """Return the status document of a run."""
        done = self.rlaunch("status", name, "--json")
        assert done.stdout, done.stderr
        found = json.loads(done.stdout)
        return dict(found)

    def wait(
        self, name: str, enough: Callable[[dict[str, Any]], bool], seconds: float = 150
    ) -> dict[str, Any]:
        """Ask until a status is enough."""
        until = time.monotonic() + seconds
        while not enough(seen := self.status(name)):
            assert time.monotonic() < until, f"still {seen}\n{self.output(name)}"
            time.sleep(1)
        return seen


@pytest.fixture(scope="session")
def installed() -> None:
    """For tests of `make test`: SLURM is there already, or CI wants it."""
    no_surprise()


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster; it is taken down after the last test."""
    service("slurm.sh", "up")
    try:
        conf = service("slurm.sh", "env").strip()
        yield Cluster(tmp_path_factory.mktemp("slurm"), conf)
    finally:
        service("slurm.sh", "down")


@pytest.fixture(scope="session")
def image(slurm: Cluster) -> dict[str, Any]:
    """Profile fields of the real SIF: it has no Python, so the tests' own is bound into it."""
    program, sif = service("apptainer.sh", "up").split()
    real = Path(sys.executable).resolve()
    binds = dict.fromkeys(str(p) for p in (ROOT, Path(sys.prefix), real.parents[1]))
    return {"apptainer": program, "sif": sif, "binds": [b for b in binds if b != "/usr"]}
