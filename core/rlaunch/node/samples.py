"""Numbers taken every half minute, so that a node that is being ended can say how it stood.

An eviction leaves no trace in a job's log, and asking for these numbers then takes longer than the grace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from typing import Any

from .children import list_pids, read_stat
from .limits import parse_limit, read_cgroup_limit, read_oom_kills
from .records import now

EVERY = 30.0
KERNEL_LINES = re.compile(
    rb"out of memory|oom-kill|oom_reaper|Killed process|NVRM: Xid", re.IGNORECASE
)
GPU_FIELDS = (
    "index,name,memory.used,memory.total,utilization.gpu,temperature.gpu"
    ",ecc.errors.uncorrected.volatile.total"
)


class Sampler:
    """Takes samples in a thread of its own: a file system or driver that hangs stops nothing else."""

    def __init__(self, places: list[str]) -> None:
        self.latest: dict[str, Any] = {}
        self.before: dict[str, Any] = {}
        self._places = places
        self._kills = read_oom_kills() or 0
        self._stop = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def count_oom_kills(self) -> int:
        """Return how many processes the kernel killed here for want of memory, in the last minute or less."""
        seen = read_oom_kills() or 0
        before = self.before.get("memory", {}).get("oom_kills")
        return max(0, seen - (self._kills if before is None else before))

    def stop(self) -> None:
        """Take no more samples."""
        self._stop.set()

    def _run(self) -> None:
        while not self._stop.is_set():
            sample = take_sample(self._places)
            self.before, self.latest = self.latest, sample
            self._stop.wait(EVERY)


def take_sample(places: list[str]) -> dict[str, Any]:
    """Return disk, memory, GPUs and the largest processes. Sizes in bytes."""
    return {
        "at": now(),
        "disk": {place: room for place in places if (room := read_room(place))},
        "memory": read_memory(),
        "gpus": read_gpus(),
        "largest": list_largest(),
    }


def read_room(place: str) -> dict[str, int]:
    """Return free and total bytes of a file system; empty where it cannot be asked."""
    try:
        seen = os.statvfs(place)
    except OSError:
        return {}
    return {"free": seen.f_bavail * seen.f_frsize, "total": seen.f_blocks * seen.f_frsize}


def read_memory() -> dict[str, int | None]:
    """Return limit, use and the count of OOM kills of this cgroup, and what the host has left."""
    left = re.search(r"^MemAvailable:\s+(\d+)", _read("/proc/meminfo"), re.MULTILINE)
    used = _read("/sys/fs/cgroup/memory.current") or _read(
        "/sys/fs/cgroup/memory/memory.usage_in_bytes"
    )
    return {
        "limit": read_cgroup_limit(),
        "used": parse_limit(used),
        "oom_kills": read_oom_kills(),
        "host_available": int(left.group(1)) * 1024 if left else None,
    }


def read_gpus() -> list[str]:
    """Return one line a GPU as `nvidia-smi` prints it; empty where there is none."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    argv = [program, f"--query-gpu={GPU_FIELDS}", "--format=csv,noheader"]
    try:
        done = subprocess.run(argv, capture_output=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ["nvidia-smi does not answer"]
    return done.stdout.decode("utf-8", "replace").splitlines()[:16]


def list_largest(count: int = 10) -> list[dict[str, Any]]:
    """Return the processes with the most resident memory: id, name (no arguments), bytes."""
    page = os.sysconf("SC_PAGE_SIZE")
    found = []
    for pid in list_pids():
        fields = read_stat(pid)
        if len(fields) > 21 and int(fields[21]) > 0:
            found.append((int(fields[21]) * page, pid))
    return [
        {"pid": pid, "name": _read(f"/proc/{pid}/comm"), "resident": size}
        for size, pid in sorted(found, reverse=True)[:count]
    ]


def read_kernel_lines(path: str = "/dev/kmsg", count: int = 20) -> list[str]:
    """Return the kernel's last lines about killed processes and GPU faults; empty where not allowed."""
    lines: list[bytes] = []
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return []
    try:
        for _ in range(20_000):
            try:
                line = os.read(descriptor, 8192)
            except BrokenPipeError:
                continue  # a line was overwritten before it was read
            if not line:
                break
            if KERNEL_LINES.search(line):
                lines.append(line)
    except OSError:
        pass  # the end of what is there
    finally:
        os.close(descriptor)
    return [line.decode("utf-8", "replace").strip() for line in lines[-count:]]


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""
