"""An operator in front of a real Iris controller and a real store: a checkout, a home, secrets, `rlaunch`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.services import iris_controller, s3
from tests.services.outside import find_python

ROOT = Path(__file__).resolve().parents[2]
CANARY = "s3cr3t-канарейка"
USER = "ada"


class Said(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


class Ground:
    """Where the tests of one module act."""

    def __init__(self, folder: Path, store: s3.S3, controller: iris_controller.Controller) -> None:
        self.folder, self.store, self.controller = folder, store, controller
        self.home, self.tree = folder / "home", folder / "tree"
        self._lay_out()

    def _lay_out(self) -> None:
        config = self.home / ".config/rlaunch"
        config.mkdir(parents=True)
        storage = {
            "endpoint": self.store.endpoint, "outside_endpoint": self.store.endpoint,
            "addressing": "path", "region": "us-east-1",
        }  # fmt: skip
        settings = {
            "controller": self.controller.url, "python": find_python(), "run_dir": f"{self.folder}/{{run}}",
            "ray_temp": f"{self.folder}/{{hex}}", "rendezvous_dir": f"s3://{s3.BUCKET}/iris",
            "storage_root": f"{self.folder}/storage", "data_root": f"{self.folder}/data",
        }  # fmt: skip
        lines = ["[clusters.iris-local]", *(f"{k} = {json.dumps(v)}" for k, v in settings.items())]
        lines += [
            "[clusters.iris-local.storage]", *(f"{k} = {json.dumps(v)}" for k, v in storage.items())
        ]  # fmt: skip
        (config / "rlaunch.toml").write_text("\n".join(lines), encoding="utf-8")
        secrets = {
            "HF_TOKEN": CANARY, "CW_KEY_ID": self.store.key_id, "CW_KEY_SECRET": self.store.secret,
            "R2_TOKEN": "r2-canary",
        }  # fmt: skip
        text = "".join(f"{name}={value}\n" for name, value in secrets.items())
        (config / "secrets.env").write_text(text, encoding="utf-8")
        (config / "secrets.env").chmod(0o600)
        (self.tree / "tests").mkdir(parents=True)
        (self.tree / "tests/dropped_by_iris.py").write_text("# travels\n")
        shutil.copy(ROOT / "docs/recipes/smoke.yaml", self.tree / "smoke.yaml")
        git = ["git", "-C", str(self.tree), "-c", "user.email=a@b.c", "-c", "user.name=ada"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
            subprocess.run([*git, *words], check=True, capture_output=True)

    @property
    def env(self) -> dict[str, str]:
        """The operator's shell, with credentials in it that must stay there."""
        kept = {
            k: v for k, v in os.environ.items() if k in ("PATH", "PYTHONPATH", "LANG", "LC_ALL")
        }
        return {
            **kept, "HOME": str(self.home), "USER": USER, "COLUMNS": "100", "PYTHONWARNINGS": "ignore",
            "AWS_SECRET_ACCESS_KEY": "aws-canary", "AWS_ACCESS_KEY_ID": "aws-canary-id",
        }  # fmt: skip

    def rl(self, *words: str, timeout: float = 550, env: Mapping[str, str] | None = None) -> Said:
        """Run rlaunch as the operator."""
        done = subprocess.run(
            [sys.executable, "-m", "rlaunch", *words],
            cwd=self.tree,
            env={**self.env, **(env or {})},
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        return Said(done.returncode, done.stdout, done.stderr)

    def launch(self, name: str, nodes: int, *words: str, recipe: str = "smoke.yaml") -> Said:
        """Launch the smoke recipe, shortened: three steps say as much as twelve."""
        return self.rl(
            "--cluster", "iris-local", "--rl_config", recipe, "--model_path", "toy/grpo", "--train_data",
            '["builtin/sums"]', "--num-nodes", str(nodes), "--job-name", name, "--interval", "1",
            "--skyrl_override", "trainer.max_steps=4", "--skyrl_override", "trainer.ckpt_interval=1", *words,
        )  # fmt: skip

    def status(self, name: str) -> Any:
        """Return the status document of a run."""
        return self.rl("status", name, "--json").document

    def wait_for(self, name: str, *states: str, timeout: float = 200) -> Any:
        """Poll until a run is in one of the states."""
        deadline = time.monotonic() + timeout
        while (seen := self.status(name))["state"] not in states:
            assert time.monotonic() < deadline, seen
            time.sleep(0.5)
        return seen

    def processes(self, run_id: str) -> list[int]:
        """Return the processes of a run, told by their environment."""
        mark = f"RLAUNCH_RUN_ID={run_id}\0".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                if mark in path.read_bytes() + b"\0":
                    found.append(int(path.parent.name))
            except OSError:
                continue
        return found


@contextmanager
def open_ground(**injected: str) -> Iterator[Ground]:
    """Start store and controller; `injected` is what the cluster puts into every task."""
    folder = Path(tempfile.mkdtemp(prefix="rl-"))  # short: Ray's sockets lie below it
    try:
        with s3.serve() as store:
            env = {"AWS_ENDPOINT_URL": store.endpoint, **injected}
            with iris_controller.serve("local", env=env) as controller:
                ground = Ground(folder, store, controller)
                yield ground
    finally:
        shutil.rmtree(folder, ignore_errors=True)
