"""What this machine looks like before a plan is made: read-only, and a few milliseconds."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rlaunch.model import Observed, Run
from rlaunch_local import planning

_DIST = re.compile(r"(?P<name>ray|numpy)-(?P<version>[^-]+)\.dist-info\Z")


def look(run: Run, at: str) -> Observed:
    """Return what planning needs of this machine: a free loopback network, free ports, its interpreter.

    Room and memory are in it too, so that a dry run shows them; preflight reads them anew. `at` is the
    time of the look.
    """
    facts: dict[str, Any] = {
        "rlaunch_python": sys.executable,
        "network": free_network(run),
        "blocks": free_blocks(run),
        "cpus": os.cpu_count(),
        "memory_available": memory_available(),
        "disk_free": disk_free(Path(run.paths.run_dir)),
        "shm_free": disk_free(Path("/dev/shm")),  # noqa: S108  # looked at, not written
        "gpus": gpus(),
        "python": installed(Path(run.python)),
    }
    return Observed(at, "this machine", facts)


def free_network(run: Run) -> str:
    """Return the first network of the run's own series that no listening socket has an address in."""
    busy = {address.rpartition(".")[0] for address in listening()}
    return next(
        (n for turn in range(64) if (n := planning.network(run.id, turn)) not in busy),
        planning.network(run.id),
    )


def listening() -> Iterator[str]:
    """Yield the IPv4 loopback addresses that this machine's TCP sockets are bound to."""
    try:
        lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    except OSError:
        return
    for line in lines:
        number = line.split()[1].partition(":")[0]
        if number.endswith("7F"):  # little-endian: 127 is the last byte
            yield ".".join(str(int(number[i : i + 2], 16)) for i in (6, 4, 2, 0))


def free_blocks(run: Run) -> list[int]:
    """Return the first port of a free block for every node; fewer where the machine has no more."""
    first, size = run.profile["first_port"], run.profile["ports_per_node"]
    found: list[int] = []
    for turn in range(planning.blocks(first, size)):
        start = planning.block(run.id, turn, first, size)
        if not any_busy(range(start, start + size)):
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


def any_busy(numbers: Iterable[int]) -> bool:
    """Tell whether any of the TCP ports is in use on any address."""
    return not all(can_bind(number) for number in numbers)


def memory_available() -> int | None:
    """Return MemAvailable in bytes; None where the kernel does not say."""
    try:
        text = Path("/proc/meminfo").read_text(encoding="ascii")
    except OSError:
        return None
    match = re.search(r"^MemAvailable:\s+(\d+) kB", text, re.MULTILINE)
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
