"""Processes of this machine, told apart exactly: identity, liveness, and the leftovers of a run.

A pid alone says nothing an hour later. A process is its pid, its start in clock ticks and the boot it
belongs to. What belongs to a run is found by `RLAUNCH_RUN_ID` and `RLAUNCH_ATTEMPT` in the
environment it was started with, never by name: several runs, and other people's Ray, share a machine.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")


class Process(NamedTuple):
    """One process, for ever."""

    pid: int
    started: int
    """Clock ticks after boot (field 22 of /proc/PID/stat)."""
    boot: str
    """`/proc/sys/kernel/random/boot_id`: ticks start anew with every boot."""


class Row(NamedTuple):
    """One line of the process table."""

    pid: int
    state: str
    """R, S, D, T, Z, …"""
    parent: int
    session: int
    started: int


def boot() -> str:
    """Return the id of the present boot; empty where the kernel does not say."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def row(pid: int) -> Row | None:
    """Read one process's line; None when there is no such process."""
    try:
        text = (PROC / str(pid) / "stat").read_bytes().decode("utf-8", "replace")
    except OSError:
        return None
    fields = text.rpartition(")")[2].split()  # the name before it may hold blanks and parentheses
    return Row(pid, fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def identify(pid: int) -> Process | None:
    """Return the identity of a live process; None when it is gone or a zombie."""
    found = row(pid)
    return None if found is None or found.state in "ZX" else Process(pid, found.started, boot())


def alive(process: Process | None) -> bool:
    """Tell whether exactly this process still runs. A zombie does not."""
    return process is not None and identify(process.pid) == process


def signal_process(process: Process | None, number: int) -> bool:
    """Send a signal to exactly this process; False when it is gone.

    The pidfd is opened before the identity is checked, so a recycled pid is never hit.
    """
    if process is None:
        return False
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except OSError:
        return False
    finally:
        os.close(handle)
    return True


def environ(pid: int) -> frozenset[bytes]:
    """Return the environment that a process was started with, as `NAME=value`.

    Empty for a process of another user, and for one that has written its title over it (Ray's workers
    do: only their session and their parents say whose they are).
    """
    try:
        return frozenset((PROC / str(pid) / "environ").read_bytes().split(b"\0"))
    except OSError:
        return frozenset()


def find(argv: Sequence[str]) -> Process | None:
    """Find the live process whose command line ends with exactly these words."""
    end = b"\0" + b"\0".join(os.fsencode(word) for word in argv) + b"\0"
    for pid in table():
        with suppress(OSError):
            if (PROC / str(pid) / "cmdline").read_bytes().endswith(end):
                return identify(pid)
    return None


def table() -> dict[int, Row]:
    """Return all live processes by pid."""
    rows = (row(int(entry)) for entry in os.listdir(PROC) if entry.isdigit())  # noqa: PTH208  # names only
    return {r.pid: r for r in rows if r is not None and r.state not in "ZX"}


def scan(run: str, attempt: int | None = None, sessions: Collection[int] = ()) -> dict[int, Row]:
    """Find the processes of a run (of one attempt, where given).

    Taken are those whose environment names exactly this run (and attempt), those of their sessions and
    of `sessions`, and all descendants; never the caller itself, its session, or a process that names
    another run.
    """
    rows, me = table(), os.getpid()
    own, mine = rows.pop(me, None), f"RLAUNCH_RUN_ID={run}".encode()
    now = f"RLAUNCH_ATTEMPT={attempt}".encode()
    named = {pid: environ(pid) for pid in rows}
    found = {p for p, env in named.items() if mine in env and (attempt is None or now in env)}
    foreign = {p for p in named.keys() - found if _names_a_run(named[p])}
    near = own.session if own else -1
    candidates = {p: r for p, r in rows.items() if p not in foreign and r.session != near}
    known = {rows[p].session for p in found} | set(sessions)
    found = {p for p in candidates if p in found or candidates[p].session in known}
    return {p: candidates[p] for p in _with_children(found, candidates)}


def _names_a_run(env: frozenset[bytes]) -> bool:
    return any(item.startswith(b"RLAUNCH_RUN_ID=") for item in env)


def _with_children(found: set[int], rows: dict[int, Row]) -> Iterator[int]:
    todo = list(found)
    while todo:
        parent = todo.pop()
        yield parent
        children = [p for p, r in rows.items() if r.parent == parent and p not in found]
        found.update(children)
        todo.extend(children)


def sweep(
    run: str, attempt: int | None = None, sessions: Collection[int] = (), *, within: float = 2.0
) -> int:
    """Kill what is left of a run, until nothing is; returns how many processes were killed.

    `within` seconds at most: a process that the kernel cannot end (state D) does not hold it for ever.
    """
    killed: set[tuple[int, int]] = set()
    known, deadline = set(sessions), time.monotonic() + within
    while left := scan(run, attempt, known):
        known |= {r.session for r in left.values() if r.session != 0}
        for r in left.values():
            if signal_process(Process(r.pid, r.started, boot()), signal.SIGKILL):
                killed.add((r.pid, r.started))
        if time.monotonic() >= deadline:
            break
        time.sleep(0.02)
    return len(killed)


def kill_group(pid: int) -> None:
    """Kill the process group that `pid` leads; no error when it is gone."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
