"""A real Iris controller on loopback, as long as a `with` block lasts; `iris_server.py` is its process."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

SERVER = str(Path(__file__).with_name("iris_server.py"))
START_S = 60.0
OPERATORS = ("AWS_", "R2_", "CW_", "IRIS_", "HF_TOKEN", "WANDB_")
"""What the operator's shell has and a cluster has not: tasks inherit the controller's environment."""


class Controller:
    """A running controller."""

    def __init__(self, url: str, child: subprocess.Popen[str]) -> None:
        self.url, self._child = url, child

    def act(self, word: str, job: str) -> Any:
        """Let Kubernetes do something to a job's pods (`kubernetes` only); AssertionError where it fails."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        print(word, job, file=self._child.stdin, flush=True)
        answer = json.loads(self._child.stdout.readline())
        assert answer is None or word == "pods", answer
        return answer


@contextmanager
def serve(
    kind: str = "local",
    *,
    python: str = sys.executable,
    env: Mapping[str, str] | None = None,
) -> Iterator[Controller]:
    """Start a controller with a home of its own; `env` is what this cluster puts into every task."""
    folder = tempfile.mkdtemp(prefix="rl-iris-")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(OPERATORS)}
    whole = {**clean, "HOME": folder, "TMPDIR": folder, "PYTHONWARNINGS": "ignore", **(env or {})}
    with Path(folder, "log").open("wb") as log:
        child = subprocess.Popen(
            [python, SERVER, kind, f"{folder}/url"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=whole,
            cwd=folder,
            text=True,
            start_new_session=True,
        )
    try:
        yield Controller(_wait(child, Path(folder, "url"), Path(folder, "log")), child)
    finally:
        assert child.stdin is not None
        child.stdin.close()
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
        if child.stdout is not None:
            child.stdout.close()
        shutil.rmtree(folder, ignore_errors=True)


def _wait(child: subprocess.Popen[str], url: Path, log: Path) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and child.poll() is None:
        if url.exists():
            return url.read_text(encoding="utf-8")
        time.sleep(0.05)
    raise RuntimeError(f"the controller did not start: {log.read_text(errors='replace')[-3000:]}")
