"""A gang whose store does not work ends within a minute, and says which store it was."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.services.s3 import serve

from rlaunch import zipapps

pytestmark = pytest.mark.e2e


@contextmanager
def hung() -> Iterator[tuple[str, dict[str, str]]]:
    """A store that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", {}


@contextmanager
def no_such_bucket() -> Iterator[tuple[str, dict[str, str]]]:
    """A real store without the bucket."""
    with serve() as server:
        keys = {"AWS_ACCESS_KEY_ID": "admin", "AWS_SECRET_ACCESS_KEY": "adminsecret"}
        yield server.endpoint, keys


@contextmanager
def forbidden() -> Iterator[tuple[str, dict[str, str]]]:
    """A real store that knows neither the keys."""
    with serve() as server:
        yield server.endpoint, {}


@pytest.mark.parametrize("store", [hung, no_such_bucket, forbidden])
def test_bring_up_ends(store: object, tmp_path: Path) -> None:
    """A hung store, a bucket that is not there and keys that are refused end the agent within 60 s, named."""
    agent = tmp_path / "node.pyz"
    agent.write_bytes(zipapps.build("rlaunch-node.pyz"))
    with store() as (endpoint, keys):  # type: ignore[operator]  # one of the three above
        env = {
            "PATH": os.environ["PATH"], "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
            "RLAUNCH_S3_ENDPOINT": endpoint, **keys,
        }  # fmt: skip
        argv = [
            sys.executable, str(agent), "agent", "--run-id", "x-1", "--attempt", "0", "--rank", "0",
            "--nodes", "1", "--rendezvous", "s3://marin-na/x", "--node-ip", "127.9.9.9", "--work-dir",
            str(tmp_path), "--", "true",
        ]  # fmt: skip
        began = time.monotonic()
        done = subprocess.run(
            argv, env=env, capture_output=True, text=True, timeout=90, check=False
        )
        took = time.monotonic() - began
    assert done.returncode == 70, done.stdout
    assert took < 60
    for part in ("reason=store-failed", "bucket `marin-na`", f"`{endpoint}`", "path-style"):
        assert part in done.stdout.splitlines()[-1], done.stdout
