"""Asks Ray's GCS which nodes are alive, in one process of the job's Python that lives while nodes join."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import NamedTuple

from .children import Child
from .loop import Loop

PROGRAM = """
import json, select, sys, time
address = sys.argv[1]
def connect():
    try:
        from ray._raylet import GcsClient
        from ray.core.generated.gcs_pb2 import GcsNodeInfo
        client = GcsClient(address=address)
        client.get_all_node_info
    except (ImportError, AttributeError, TypeError):  # another Ray: the public way, which is slower
        import ray
        ray.init(address=address, log_to_driver=False)
        return lambda: [(n["NodeManagerAddress"], n["Resources"]) for n in ray.nodes() if n["Alive"]]
    def look():
        nodes = client.get_all_node_info(timeout=10).values()
        alive = [node for node in nodes if node.state == GcsNodeInfo.ALIVE]
        return [(node.node_manager_address, dict(node.resources_total)) for node in alive]
    return look
look, last, pause = connect(), None, 0.1
while True:
    try:
        seen = look()
    except Exception as error:
        print(json.dumps({"trouble": repr(error)[:300]}), flush=True)
    else:
        total = {}
        for _, resources in seen:
            for name, amount in resources.items():
                if not name.startswith("node:") and not name.startswith("accelerator_type:"):
                    total[name] = total.get(name, 0) + amount
        line = json.dumps({"alive": sorted({ip for ip, _ in seen}), "resources": total}, sort_keys=True)
        if line != last:
            print(line, flush=True)
            last, pause = line, 0.1
    if select.select([sys.stdin], [], [], pause)[0]:
        if not sys.stdin.buffer.raw.read(4096):
            sys.exit(0)
        pause = 0.05
    pause = min(0.5, pause * 1.3)
"""


class Alive(NamedTuple):
    """What GCS sees: the addresses of living nodes and the sum of their resources."""

    nodes: tuple[str, ...] = ()
    resources: Mapping[str, float] = {}


class Probe:
    """The probe as the head sees it."""

    def __init__(self, loop: Loop, address: str, env: Mapping[str, str]) -> None:
        self.alive = Alive()
        self.changes = 0
        """How often `alive` has changed."""
        self.trouble = ""
        self._loop = loop
        self._child = Child(
            loop,
            [sys.executable, "-c", PROGRAM, address],
            env=env,
            cwd=None,
            take=self._take,
            take_errors=self._take_error,
            stdin=subprocess.PIPE,
        )

    @property
    def ended(self) -> bool:
        """True where the probe died, which it never should."""
        return self._child.drained

    def wait(self, timeout: float) -> None:
        """Wait for its next news, at most `timeout` seconds."""
        before = self.changes
        self._loop.until(lambda: self.changes != before or self.ended, timeout)

    def hurry(self) -> None:
        """Ask it to look now."""
        pipe = self._child.process.stdin
        if pipe is not None:
            with contextlib.suppress(OSError):  # it may have been closed since
                os.write(pipe.fileno(), b"\n")

    def close(self) -> None:
        """End it."""
        self._child.kill()

    def _take(self, line: bytes) -> None:
        try:
            body = json.loads(line)
            if "trouble" in body:
                self.trouble = str(body["trouble"])
                return
            self.alive = Alive(tuple(body["alive"]), body["resources"])
            self.changes += 1
        except (ValueError, KeyError, TypeError):
            self._take_error(line)

    def _take_error(self, line: bytes) -> None:
        self.trouble = line.decode("utf-8", "replace")


def answers(loop: Loop, ip: str, port: int, timeout: float) -> bool:
    """Try once to connect; True where something listens. Waits in the loop, at most `timeout` seconds."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    seen: list[bool] = []
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        probe.connect_ex((ip, port))
        loop.watch(
            probe,
            selectors.EVENT_WRITE,
            lambda mask: seen.append(probe.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0),
        )
        try:
            loop.until(lambda: seen, timeout)
        finally:
            loop.drop(probe)
    return bool(seen and seen[0])
