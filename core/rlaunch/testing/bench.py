"""What an author gives the kit: a world to act on, and how to look at what arrived in it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from rlaunch.cluster import Clock
from rlaunch.model import JobRef, Plan, State
from rlaunch.shell import Done, Shell
from rlaunch.testing.fakes import FakeShell


class Sent(NamedTuple):
    """What the driver will get, read back out of what the scheduler is sent."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


class Bench(ABC):
    """The world that a cluster is tried in. One is made for each test, in a fresh directory `tmp`.

    Subclasses set `shell` and `clock` (what the cluster is made with) and answer the methods below.
    """

    shell: Shell
    clock: Clock

    profile: str = ""
    """One of the plugin's `PROFILES`; empty: its `DEFAULT_PROFILE`."""
    nodes: int = 2
    """Nodes of the jobs that the kit really submits."""
    patience_s: float = 240.0
    """A job of the kit must have ended, or be running, within this time."""
    poll_s: float = 0.2

    def __init__(self, tmp: Path) -> None:
        self.tmp = tmp

    def settings(self) -> Mapping[str, Any]:
        """Return profile fields to change for the bench, such as directories under `tmp`."""
        return {}

    @abstractmethod
    def sent(self, plan: Plan) -> Sent:
        """Read the driver's argv and environment back out of `plan.native` and `plan.files`.

        Pure; this is how the kit tries quoting with thousands of values. `env` may have more names than
        the run's.
        """

    @abstractmethod
    def absent(self) -> JobRef:
        """Return a well-formed reference to a job that was never there."""

    @abstractmethod
    def native_states(self) -> Mapping[str, State]:
        """Return every state that the scheduler can say, and the `State` it must become."""

    @abstractmethod
    def show(self, word: str) -> JobRef:
        """Bring a job into a native state and return it. `word` may be one that nobody knows."""

    @abstractmethod
    def faults(self) -> Iterable[str]:
        """Return names of the ways in which this world can go wrong."""

    @abstractmethod
    def spoil(self, fault: str, ref: JobRef) -> None:
        """Let the world go wrong from now on, for whoever asks about `ref`."""

    def leftovers(self, ref: JobRef) -> Iterable[str]:
        """Return what an ended job has left behind (processes, mounts); each in a few words."""
        return ()

    def close(self) -> None:  # noqa: B027  # most benches have nothing to close
        """End what the bench started; called after every test."""


RUBBISH: Mapping[str, Done] = {
    "a non-zero exit": Done((), 1, "", "error: something is wrong\n"),
    "a missing program": Done((), 127, "", "not found"),
    "a time-out": Done((), 124, "", ""),
    "a signal": Done((), -9, "", ""),
    "an HTML page": Done((), 0, "<html><body>502 Bad Gateway</body></html>\n", ""),
    "half of a JSON document": Done((), 0, '{"jobs": [{"id": ', ""),
    "a JSON list of nulls": Done((), 0, "[null, null]\n", ""),
    "bytes that were no text": Done((), 0, "\ufffd\x00\x1b[31m\ufffd\n", ""),
    "a warning before nothing": Done((), 0, "WARNING: the queue is busy\n", "WARNING"),
}
"""Answers that no command should give, and that every command has given."""


class ShellBench(Bench):
    """A bench for clusters that are asked through commands: `shell` is a `FakeShell`.

    The faults are the answers in `RUBBISH`, given to every command.
    """

    shell: FakeShell

    def faults(self) -> Iterable[str]:
        """Return the names of `RUBBISH`."""
        return RUBBISH

    def spoil(self, fault: str, ref: JobRef) -> None:
        """Answer every command with the rubbish of that name."""
        self.shell.spoiled = RUBBISH[fault]
