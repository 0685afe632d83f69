"""Starting and ending the processes of a node.

Every child leads a session of its own and carries `RLAUNCH_RUN_ID`, `RLAUNCH_ATTEMPT` and `RLAUNCH_RANK`, so
that what is left of it can be found even when its parents are gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from .loop import Loop
from .output import Pump

PR_SET_PDEATHSIG = 1


def _find_prctl() -> Callable[..., int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).prctl
    except (OSError, AttributeError):
        return None


_prctl = _find_prctl()


class Child:
    """A process in its own session whose output is read line by line."""

    def __init__(
        self,
        loop: Loop,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        take: Callable[[bytes], None],
        take_errors: Callable[[bytes], None] | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        """Start it; raises OSError where that is not possible.

        `take` gets each line of standard output, and of standard error too unless `take_errors` is given.
        """
        parent = os.getpid()

        def prepare() -> None:
            if _prctl is not None:
                _prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
                if os.getppid() != parent:
                    os._exit(1)  # the agent died between fork and here

        self.process = subprocess.Popen(
            list(argv),
            env=dict(env),
            cwd=cwd or None,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if take_errors is None else subprocess.PIPE,
            start_new_session=True,
            preexec_fn=prepare,  # noqa: PLW1509  # calls only what is already loaded
        )
        self.pid = self.process.pid
        self.status: int | None = None
        """Once it has ended: its exit code, or −N for signal N."""
        self.pumps = [_pump(loop, self.process.stdout, take)]
        if take_errors is not None:
            self.pumps.append(_pump(loop, self.process.stderr, take_errors))
        loop.reap(self.poll)

    def poll(self) -> None:
        """Look whether it has ended."""
        if self.status is None:
            self.status = self.process.poll()

    @property
    def ended(self) -> bool:
        """True once it has ended."""
        return self.status is not None

    @property
    def drained(self) -> bool:
        """True once it has ended and every line that it printed was taken."""
        return self.ended and all(pump.closed for pump in self.pumps)

    @property
    def heard_at(self) -> float:
        """Monotonic time of its last output, or of its start."""
        return max(pump.heard_at for pump in self.pumps)

    def signal_group(self, number: int) -> None:
        """Send a signal to its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def kill(self) -> None:
        """Kill its whole session."""
        self.signal_group(signal.SIGKILL)
        for pid in find_session(self.pid):
            _kill(pid)

    def finish(self) -> None:
        """Take the rest of its output, even where a descendant still holds the pipe."""
        for pump in self.pumps:
            pump.close()


def _pump(loop: Loop, pipe: object, take: Callable[[bytes], None]) -> Pump:
    descriptor = os.dup(pipe.fileno())  # type: ignore[attr-defined]  # PIPE was asked for
    pipe.close()  # type: ignore[attr-defined]
    return Pump(loop, descriptor, take)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def list_pids() -> list[int]:
    """Return the ids of all processes; empty where there is no `/proc`."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def read_stat(pid: int) -> list[str]:
    """Return a process's `stat` fields after its name (state, parent, group, session, …)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()
    except OSError:
        return []


def find_session(leader: int) -> list[int]:
    """Return the living processes of a session."""
    found = []
    for pid in list_pids():
        fields = read_stat(pid)
        if len(fields) > 3 and fields[3] == str(leader) and fields[0] != "Z":
            found.append(pid)
    return found


def find_marked(marks: Mapping[str, str]) -> list[int]:
    """Return the living processes whose environment has all of `marks`, but for this one."""
    wanted = {f"{name}={value}".encode() for name, value in marks.items()}
    found = []
    for pid in list_pids():
        if pid == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                here = wanted <= set(file.read().split(b"\0"))
        except OSError:
            continue
        if here and read_stat(pid)[:1] != ["Z"]:
            found.append(pid)
    return found


def find_titled(marks: Mapping[str, str], sessions: Collection[int]) -> list[int]:
    """Return the living processes of these sessions that have lost some of `marks` to a title.

    A process that gives itself a title (Ray's agents do) writes it over the beginning of its environment.
    """
    own = {f"{name}={value}".encode() for name, value in marks.items()}
    found = []
    for pid in list_pids() if sessions else ():
        fields = read_stat(pid)
        if len(fields) < 4 or fields[0] == "Z" or int(fields[3]) not in sessions:
            continue
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                body = file.read()
        except OSError:
            continue
        if body.startswith(b"\0") or own & set(
            body.split(b"\0")
        ):  # else the number is another's now
            found.append(pid)
    return found


def sweep(marks: Mapping[str, str], timeout: float = 1.0, *, sessions: Collection[int] = ()) -> int:
    """Kill every process that carries `marks`, until none is left; returns how many there were.

    `sessions` are ids of sessions that belonged to the same node.
    """
    deadline = time.monotonic() + timeout
    spared = set(_list_ancestors())
    seen: set[int] = set()
    while True:
        left = {*find_marked(marks), *find_titled(marks, sessions)} - spared
        seen.update(left)
        for pid in left:
            _kill(pid)
        if not left or time.monotonic() > deadline:
            return len(seen)
        time.sleep(0.02)


def reap_strays(known: set[int]) -> None:
    """Collect ended processes that fell to this one (it may be the first process of a container)."""
    me = str(os.getpid())
    for pid in list_pids():
        fields = read_stat(pid)
        if fields[:2] == ["Z", me] and pid not in known:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _list_ancestors() -> list[int]:
    found, pid = [], os.getpid()
    while pid > 1:
        fields = read_stat(pid)
        pid = int(fields[1]) if len(fields) > 1 else 0
        found.append(pid)
    return found
