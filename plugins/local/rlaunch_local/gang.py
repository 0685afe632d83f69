"""The node agents of one attempt: started together, ended together.

Every agent is started in a session of its own with an environment made from nothing. It holds the read
end of a pipe whose only writer is the supervisor: when the supervisor is gone, the agents see it.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from rlaunch_local import proc
from rlaunch_local.planning import fill
from rlaunch_local.statefile import Agent
from rlaunch_local.verdict import End

START_FAILED = 127
"""What a shell says of a program that cannot be started."""


class Member:
    """One agent: its process, and how it ended."""

    def __init__(self, rank: int, ip: str) -> None:
        self.rank, self.ip = rank, ip
        self.child: subprocess.Popen[bytes] | None = None
        self.identity: proc.Process | None = None
        self.handle = -1
        self.end: End | None = None

    def ended(self, code: int, detail: str = "") -> End:
        """Note the end: −N is signal N, as `subprocess` has it."""
        self.end = End(self.rank, None if code < 0 else code, -code if code < 0 else None, detail)
        return self.end

    @property
    def agent(self) -> Agent:
        """What the state file says of it."""
        end = self.end or End(self.rank, None)
        return Agent(self.rank, self.ip, self.identity, end.exit_code, end.signal)


class Gang:
    """All agents of one attempt, and the selector that waits for them (and for `wakeup`)."""

    def __init__(self, run: str, attempt: int, wakeup: int) -> None:
        self.run, self.attempt = run, attempt
        self.members: list[Member] = []
        self.ends: list[End] = []
        """In the order in which they were seen."""
        self.sessions: set[int] = set()
        self.selector = selectors.DefaultSelector()
        self.selector.register(wakeup, selectors.EVENT_READ)
        self.reader, self.writer = os.pipe()
        self.wakeup = wakeup

    def start(
        self, ranks: Sequence[Mapping[str, Any]], environ: Mapping[str, str], logs: Path
    ) -> None:
        """Start every agent; one that cannot be started has ended with code 127."""
        logs.mkdir(parents=True, exist_ok=True)
        for spec in ranks:
            member = Member(spec["rank"], spec["ip"])
            self.members.append(member)
            with (logs / f"{member.rank}.log").open("ab") as log:
                self._start(member, spec, environ, log)
        os.close(self.reader)

    def _start(
        self, member: Member, spec: Mapping[str, Any], environ: Mapping[str, str], log: IO[bytes]
    ) -> None:
        argv = fill(list(spec["argv"]), self.attempt, self.reader)
        marks = {"RLAUNCH_RUN_ID": self.run, "RLAUNCH_ATTEMPT": str(self.attempt)}
        try:
            child = subprocess.Popen(
                argv,
                cwd=spec["cwd"],
                env={**environ, **marks, "RLAUNCH_RANK": str(member.rank)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                pass_fds=(self.reader,),
            )
        except OSError as error:
            detail = f"`{argv[0]}` cannot be started: {error.strerror}"
            log.write(
                f"[rlaunch-local] rank={member.rank} attempt={self.attempt} {detail}\n".encode()
            )
            self.ends.append(member.ended(START_FAILED, detail))
            return
        member.child, member.identity = child, proc.identify(child.pid)
        member.handle = os.pidfd_open(child.pid)
        self.selector.register(member.handle, selectors.EVENT_READ, member)

    def wait(self, seconds: float) -> None:
        """Wait until an agent ends, a signal arrives or the time is up."""
        for key, _ in self.selector.select(max(0.0, seconds)):
            if key.fileobj == self.wakeup:
                os.read(self.wakeup, 4096)
                continue
            member: Member = key.data
            self.selector.unregister(member.handle)
            os.close(member.handle)
            if member.child is not None:
                self.ends.append(member.ended(member.child.wait()))

    @property
    def left(self) -> list[Member]:
        """Agents that still run."""
        return [m for m in self.members if m.end is None]

    @property
    def agents(self) -> tuple[Agent, ...]:
        """What the state file says of all of them."""
        return tuple(m.agent for m in self.members)

    def look(self) -> None:
        """Note the sessions of the attempt's processes while they can still be told by their parents."""
        found = proc.scan(self.run, self.attempt, self.sessions)
        self.sessions |= {r.session for r in found.values() if r.session != 0}

    def close(self, grace: float) -> int:
        """End what is left: SIGTERM to the agents, SIGKILL at `grace` seconds, then a sweep.

        Returns how many processes only SIGKILL ended.
        """
        self.look()
        for member in self.left:
            proc.signal_process(member.identity, signal.SIGTERM)
        deadline = time.monotonic() + grace
        while self.left and time.monotonic() < deadline:
            self.wait(deadline - time.monotonic())
        for member in self.left:
            if member.child is not None:
                proc.kill_group(member.child.pid)
        killed = proc.sweep(self.run, self.attempt, self.sessions)
        while self.left and time.monotonic() < deadline + 1:
            self.wait(0.2)
        os.close(self.writer)
        self.selector.close()
        return killed
