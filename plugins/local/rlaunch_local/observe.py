"""What this machine looks like before a plan is made: read-only, and a few milliseconds."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from rlaunch.model import Observed, Run
from rlaunch_local import planning

_DIST = re.compile(r"(?P<name>ray|numpy)-(?P<version>[^-]+)\.dist-info\Z")


def look(run: Run, at: str) -> Observed:
    """Return what planning needs of this machine: a free loopback network, free ports, its interpreter.

    Room and memory are in it too, so that a dry run shows them; preflight reads them anew. `at` is the
    time of the look.
    """
    taken = sockets()
    facts: dict[str, Any] = {
        "rlaunch_python": sys.executable,
        "network": free_network(run, taken),
        "blocks": free_blocks(run, taken),
        "cpus": os.cpu_count(),
        "memory_total": memory("MemTotal"),
        "memory_available": memory("MemAvailable"),
        "disk_free": disk_free(Path(run.paths.run_dir)),
        "shm_free": disk_free(Path("/dev/shm")),  # noqa: S108  # looked at, not written
        "gpus": gpus(),
        "python": installed(Path(run.python)),
    }
    return Observed(at, "this machine", facts)


class Sockets(NamedTuple):
    """The TCP sockets of this machine, as /proc/net lists them."""

    networks: frozenset[str]
    """Loopback networks (`127.A.B`) in which one is bound."""
    ports: frozenset[int]
    """Local ports, of IPv4 and IPv6."""


def sockets() -> Sockets:
    """List the machine's TCP sockets; empty where there is no /proc."""
    networks, numbers = set(), set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            address, _, port = line.split(None, 2)[1].partition(":")
            numbers.add(int(port, 16))
            if len(address) == 8 and address.endswith("7F"):  # little-endian: 127 is the last byte
                networks.add(f"127.{int(address[4:6], 16)}.{int(address[2:4], 16)}")
    return Sockets(frozenset(networks), frozenset(numbers))


def free_network(run: Run, taken: Sockets) -> str:
    """Return the first network of the run's own series that no socket has an address in."""
    series = (planning.network(run.id, turn) for turn in range(64))
    return next((n for n in series if n not in taken.networks), planning.network(run.id))


def free_blocks(run: Run, taken: Sockets) -> list[int]:
    """Return the first port of a free block for every node; fewer where the machine has no more.

    Ports with a name, and the guard, are tried as well: a bound socket that does not listen is in no
    list.
    """
    first, size = run.profile["first_port"], run.profile["ports_per_node"]
    found: list[int] = []
    for turn in range(planning.blocks(first, size)):
        start = planning.block(run.id, turn, first, size)
        named = (*range(start, start + len(planning.PORTS)), start + size - 1)
        if taken.ports.isdisjoint(range(start, start + size)) and all(map(can_bind, named)):
            found.append(start)
        if len(found) == run.nodes:
            break
    return found


def can_bind(number: int, ip: str = "") -> bool:
    """Tell whether a TCP port can be bound on `ip`, or, without one, on every address (0: any port)."""
    import socket

    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # TIME_WAIT is no owner
        try:
            probe.bind((ip, number))
        except OSError:
            return False
    return True


def memory(entry: str) -> int | None:
    """Return `MemAvailable` or `MemTotal` in bytes; None where the kernel does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(rf"^{entry}:\s+(\d+) kB", text, re.MULTILINE)
    return int(match[1]) * 1024 if match else None


def disk_free(path: Path) -> int | None:
    """Return the bytes that a user may still write where `path` is, or will be; None if unknown."""
    for place in (path, *path.parents):
        try:
            stat = os.statvfs(place)
        except FileNotFoundError:
            continue
        except OSError:
            return None
        return stat.f_bavail * stat.f_frsize
    return None


def gpus() -> int:
    """Return how many NVIDIA GPUs the machine has (`/dev/nvidia0` …)."""
    return sum(1 for entry in os.scandir("/dev") if re.fullmatch(r"nvidia\d+", entry.name))


def installed(python: Path) -> dict[str, Any]:
    """Return what the job's interpreter brings, from the names in its site-packages.

    `{"path", "exists", "ray", "numpy"}`; a version is None where it was not seen here, which only
    preflight's question to the interpreter itself can settle.
    """
    facts: dict[str, Any] = {
        "path": str(python),
        "exists": python.exists(),
        "ray": None,
        "numpy": None,
    }
    for site in sorted(python.parent.parent.glob("lib/python3*/site-packages")):
        for name in os.listdir(site):  # noqa: PTH208  # names only: a third of the time of Path
            if match := _DIST.match(name):
                facts[match["name"]] = match["version"]
    return facts
