"""How much memory this node has: the cgroup's limit, not the host's.

Ray reads the host's memory (2 TB on an 8-GPU node) and takes 30 % of it for its object store, more than
the container may use.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

UNLIMITED = 1 << 62
STORE_CAP = 96 << 30
STORE_FLOOR = 80 << 20
"""Ray refuses an object store under 75 MiB."""


class Memory(NamedTuple):
    """What to tell Ray, in bytes; None leaves it to Ray."""

    limit: int | None
    object_store: int | None


def plan_memory(
    limit: int | None, *, host: int | None, shm: int | None, asked: int | None, store: int | None
) -> Memory:
    """Decide from the cgroup's limit, the host's memory, what `/dev/shm` has free, and the flags.

    The object store is an eighth, at most 96 GiB, and never more than 95 % of `/dev/shm`: beyond that Ray
    puts it on a disk.
    """
    total = asked or limit
    if store is None:
        basis = total or host
        store = None if basis is None else min(STORE_CAP, basis // 8)
    if store is not None and shm is not None:
        store = min(store, shm * 95 // 100)
    return Memory(total, None if store is None else max(store, STORE_FLOOR))


def read_cgroup_limit(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> int | None:
    """Return the smallest memory limit above this process (cgroup v2 or v1); None: unlimited."""
    limits = []
    for path in _limit_files(root, own):
        limit = parse_limit(_read(path))
        if limit is not None:
            limits.append(limit)
    return min(limits, default=None)


def parse_limit(text: str) -> int | None:
    """Read `memory.max` or `memory.limit_in_bytes`; None for `max`, nothing, or a number beyond reason."""
    try:
        value = int(text)
    except ValueError:
        return None
    return value if 0 < value < UNLIMITED else None


def read_oom_kills(root: str = "/sys/fs/cgroup", own: str = "/proc/self/cgroup") -> int | None:
    """Return how many processes of this process's cgroup the kernel has killed for want of memory.

    Version 2 counts those of the cgroups below too, version 1 only its own; None where nobody counts. Where a
    container shows its own cgroup as the root, the path of `own` is not there, and the root is looked at.
    """
    for new, folders in _memory_folders(root, own):
        for folder in reversed(folders):
            text = _read(os.path.join(folder, "memory.events" if new else "memory.oom_control"))
            found = re.search(r"^oom_kill (\d+)", text, re.MULTILINE)
            if found:
                return int(found.group(1))
    return None


def _limit_files(root: str, own: str) -> list[str]:
    """List the limit files of this process's cgroup and of all above it."""
    return [
        os.path.join(folder, "memory.max" if new else "memory.limit_in_bytes")
        for new, folders in _memory_folders(root, own)
        for folder in folders
    ]


def _memory_folders(root: str, own: str) -> Iterator[tuple[bool, list[str]]]:
    """Yield (is it version 2?, the memory cgroups from the root down to this process's own)."""
    for line in _read(own).splitlines() or ["0::/"]:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            folder = root
        elif "memory" in controllers.split(","):
            folder = os.path.join(root, "memory")
        else:
            continue
        parts = [part for part in path.split("/") if part and part != ".."]
        yield not controllers, [os.path.join(folder, *parts[:d]) for d in range(len(parts) + 1)]


def read_host_memory(path: str = "/proc/meminfo") -> int | None:
    """Return the host's memory in bytes."""
    for line in _read(path).splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def read_shm_room(path: str = "/dev/shm") -> int | None:  # noqa: S108  # asked, not written
    """Return the free bytes of `/dev/shm`; None where there is none."""
    try:
        seen = os.statvfs(path)
    except OSError:
        return None
    return seen.f_bavail * seen.f_frsize


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
