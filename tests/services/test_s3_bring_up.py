"""A gang whose store does not work ends within a minute, and says which store it was."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
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


STORES = (hung, no_such_bucket, forbidden)
Ended = tuple[int, str, float, str]
"""Exit code, output, seconds, endpoint."""


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Agents in front of all three stores at once, to their ends: each waits for most of a minute."""
    with ExitStack() as stores, ThreadPoolExecutor() as pool:
        places = {store.__name__: stores.enter_context(store()) for store in STORES}
        ends = {
            name: pool.submit(run_agent, tmp_path_factory.mktemp(name), *place)
            for name, place in places.items()
        }
        return {name: end.result() for name, end in ends.items()}


def run_agent(folder: Path, endpoint: str, keys: dict[str, str]) -> Ended:
    """Run rank 0's agent with a rendezvous in that store."""
    agent = folder / "node.pyz"
    agent.write_bytes(zipapps.build("rlaunch-node.pyz"))
    env = {
        "PATH": os.environ["PATH"], "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b",
        "RLAUNCH_S3_ENDPOINT": endpoint, **keys,
    }  # fmt: skip
    argv = [
        sys.executable, str(agent), "agent", "--run-id", "x-1", "--attempt", "0", "--rank", "0",
        "--nodes", "1", "--rendezvous", "s3://marin-na/x", "--node-ip", "127.9.9.9", "--work-dir",
        str(folder), "--", "true",
    ]  # fmt: skip
    began = time.monotonic()
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=90, check=False)
    return done.returncode, done.stdout, time.monotonic() - began, endpoint


@pytest.mark.parametrize("store", [store.__name__ for store in STORES])
def test_bring_up_ends(ended: dict[str, Ended], store: str) -> None:
    """A hung store, a bucket that is not there and keys that are refused end the agent within 60 s, named."""
    code, out, took, endpoint = ended[store]
    assert code == 70, out
    assert took < 60
    for part in ("reason=store-failed", "bucket `marin-na`", f"`{endpoint}`", "path-style"):
        assert part in out.splitlines()[-1], out
