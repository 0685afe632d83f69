"""Gangs of real agents on loopback addresses of their own."""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rlaunch.node.children import find_marked

TRUE = (sys.executable, "-c", "pass")
IDLE_STAGE = json.dumps([sys.executable, "-c", "import time; time.sleep(600)"])


class Member:
    """One agent's process."""

    def __init__(self, process: subprocess.Popen[bytes], lifeline: int | None) -> None:
        self.process = process
        self.lifeline = lifeline

    def signal(self, number: int) -> None:
        """Signal the agent and nothing else."""
        self.process.send_signal(number)

    def wait(self, timeout: float = 60) -> int:
        """Return its exit code."""
        return self.process.wait(timeout)

    def cut(self) -> None:
        """Close the supervisor's end of its lifeline."""
        assert self.lifeline is not None
        os.close(self.lifeline)
        self.lifeline = None


class Gang:
    """A gang whose ranks are started one by one."""

    def __init__(self, root: Path, zipapp: Path, nodes: int) -> None:
        self.root, self.nodes, self.zipapp = root, nodes, zipapp
        self.run = f"t-{secrets.token_hex(6)}"
        self.net = f"127.{random.randint(2, 250)}.{random.randint(2, 250)}"
        self.rendezvous = root / "rendezvous"
        self.members: list[Member] = []

    def start(
        self,
        rank: int,
        *more: str,
        attempt: int = 1,
        driver: Sequence[str] = TRUE,
        grace: float = 4,
        lifeline: bool = False,
        python: str = sys.executable,
        env: dict[str, str] | None = None,
    ) -> Member:
        """Start the agent of one rank; `more` are flags of its own."""
        read_end, write_end = os.pipe() if lifeline else (None, None)
        argv = [python, str(self.zipapp), "agent", "--run-id", self.run]
        argv += ["--attempt", str(attempt), "--rank", str(rank), "--nodes", str(self.nodes)]
        argv += ["--rendezvous", str(self.rendezvous), "--node-ip", f"{self.net}.{rank + 1}"]
        argv += ["--work-dir", str(self.root / f"work-{rank}"), "--grace", str(grace)]
        argv += ["--log-file", str(self.log_path(rank, attempt))]
        argv += ["--cpus", "1", "--object-store-memory", "100000000"]
        if read_end is not None:
            argv += ["--lifeline-fd", str(read_end)]
        with (self.root / f"stderr-{rank}").open("wb") as errors:
            process = subprocess.Popen(
                [*argv, *more, "--", *driver],
                env={**os.environ, **(env or {})},
                pass_fds=[read_end] if read_end is not None else [],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        if read_end is not None:
            os.close(read_end)
        member = Member(process, write_end)
        self.members.append(member)
        return member

    def log_path(self, rank: int, attempt: int = 1) -> Path:
        return self.root / "logs" / str(attempt) / f"{rank}.log"

    def log(self, rank: int, attempt: int = 1) -> str:
        """Return all that a rank has logged."""
        path = self.log_path(rank, attempt)
        return path.read_text() if path.exists() else ""

    def read(self, key: str) -> dict[str, Any]:
        """Return a record of the rendezvous directory, empty where there is none."""
        path = self.rendezvous / key
        return json.loads(path.read_text()) if path.exists() else {}

    def write(self, key: str, body: dict[str, Any]) -> None:
        """Leave a record in the rendezvous directory, as somebody else would."""
        path = self.rendezvous / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(body))

    def rank(self, rank: int, attempt: int = 1) -> dict[str, Any]:
        """Return a rank's record."""
        return self.read(f"ranks/{attempt}/{rank}.json")

    @property
    def done(self) -> dict[str, Any]:
        """Return the outcome that rank 0 published."""
        return self.read("ray_head.done")

    def wait_for(self, what: Callable[[], Any], timeout: float = 60) -> None:
        """Wait until something is true, or fail with the logs."""
        deadline = time.monotonic() + timeout
        while not what():
            if time.monotonic() > deadline:
                logs = "\n".join(self.log(rank) for rank in range(self.nodes))
                raise AssertionError(f"it did not happen within {timeout} s\n{logs}")
            time.sleep(0.05)

    def wait_logged(self, rank: int, text: str, timeout: float = 60) -> None:
        """Wait until a rank has logged a text."""
        self.wait_for(lambda: text in self.log(rank), timeout)

    def left(self) -> list[int]:
        """Return the processes that still carry this run's mark."""
        return find_marked({"RLAUNCH_RUN_ID": self.run})

    def close(self) -> None:
        """End whatever is left of it."""
        for member in self.members:
            if member.process.poll() is None:
                member.process.kill()
            member.process.wait()
            if member.lifeline is not None:
                os.close(member.lifeline)
        for pid in self.left():
            os.kill(pid, signal.SIGKILL)
