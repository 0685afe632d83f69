"""The command line that starts Ray on a node, and what it says about itself."""

from __future__ import annotations

import importlib.machinery
import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from typing import NamedTuple

from .flags import Flags
from .limits import Memory
from .ports import Ports

STARTED = b"Ray runtime started."
"""Printed by `ray start` once this node is registered."""

FLAG_OF_PORT = {
    "node-manager": "--node-manager-port",
    "object-manager": "--object-manager-port",
    "metrics-export": "--metrics-export-port",
    "runtime-env-agent": "--runtime-env-agent-port",
    "dashboard-agent-grpc": "--dashboard-agent-grpc-port",
    "dashboard-agent-listen": "--dashboard-agent-listen-port",
    "min-worker": "--min-worker-port",
    "max-worker": "--max-worker-port",
}


class Versions(NamedTuple):
    """What must be the same on all nodes."""

    ray: str
    """Empty where this interpreter has no Ray."""
    python: str


def build_ray_command(
    flags: Flags, ports: Ports, memory: Memory, *, head: str, temp: str, client: bool
) -> list[str]:
    """Return the argv of `ray start --block` for this rank.

    `head` is the head's `ip:port`, empty on the head itself; `client` says whether this Ray has its client
    server, whose fixed port two heads on one host would fight for. Console scripts of an image may be dead,
    so the module is run.
    """
    numbers = ports.numbers
    argv = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
    argv += ["--disable-usage-stats", f"--node-ip-address={flags.node_ip}", f"--temp-dir={temp}"]
    if head:
        argv.append(f"--address={head}")
    else:
        argv += ["--head", f"--port={numbers['gcs']}", "--include-dashboard=false"]
        if "dashboard" in numbers:
            argv.append(f"--dashboard-port={numbers['dashboard']}")
        if client and "client" in numbers:
            argv.append(f"--ray-client-server-port={numbers['client']}")
        if flags.spill_dir:
            argv.append(f"--system-config={_spill_config(flags.spill_dir)}")
    argv += [f"{flag}={numbers[name]}" for name, flag in FLAG_OF_PORT.items()]
    amounts = {
        "--num-gpus": flags.gpus,
        "--num-cpus": flags.cpus,
        "--memory": memory.limit,
        "--object-store-memory": memory.object_store,
    }
    return argv + [f"{flag}={value}" for flag, value in amounts.items() if value is not None]


def join_address(ip: str, port: int) -> str:
    """Return `ip:port`, with brackets around an IPv6 address."""
    return f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"


def _spill_config(place: str) -> str:
    """Return where objects spill; Ray takes this on the head only and refuses it on a worker."""
    if "://" in place:
        spill = {"type": "smart_open", "params": {"uri": place, "buffer_size": 100 << 20}}
    else:
        spill = {"type": "filesystem", "params": {"directory_path": place}}
    return json.dumps({"object_spilling_config": json.dumps(spill), "min_spilling_size": 0})


def read_versions(pythonpath: Sequence[str]) -> Versions:
    """Return Ray's and Python's version without importing Ray (0.5 s)."""
    folder = find_package("ray", pythonpath)
    return Versions(_read_ray_version(folder) if folder else "", platform.python_version())


def find_package(name: str, pythonpath: Sequence[str]) -> str:
    """Return the directory of a package that children of this interpreter can import, or nothing."""
    spec = importlib.machinery.PathFinder.find_spec(name, [*pythonpath, *sys.path])
    return os.path.dirname(spec.origin) if spec is not None and spec.origin else ""


def _read_ray_version(folder: str) -> str:
    try:
        with open(os.path.join(folder, "_version.py"), encoding="utf-8") as file:
            found = re.search(r"""^version\s*=\s*["']([^"']+)""", file.read(), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1) if found else "unknown"
