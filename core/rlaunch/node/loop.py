"""One thread that waits for everything: children, sockets, signals and timers.

A role is straight-line code that calls `until`; whatever ends the attempt meanwhile (a signal, a dead
child, a lost peer) calls `end`, and `until` raises it.
"""

from __future__ import annotations

import contextlib
import heapq
import itertools
import os
import selectors
import signal
import time
from collections.abc import Callable, Generator
from typing import Any

from .reasons import TERMINATED, Ending, Outcome, fail

Ready = Callable[[int], None]


class Loop:
    """Waits with `select`; nothing in here blocks for longer than it was asked to."""

    def __init__(self) -> None:
        self.ending: Outcome | None = None
        """The first thing that ended the attempt."""
        self.ended_at: float | None = None
        self.shielded = False
        """True while ending: `until` no longer raises."""
        self.hurried_at: float | None = None
        """Monotonic time of the first SIGTERM or SIGINT, or of the supervisor's loss."""
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._reapers: list[Callable[[], None]] = []
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        self.watch(self._wake_read, selectors.EVENT_READ, self._drain)

    def watch(self, target: Any, events: int, ready: Ready) -> None:
        """Call `ready(mask)` when `target` is ready; a second call changes the first."""
        try:
            self._selector.modify(target, events, ready)
        except KeyError:
            self._selector.register(target, events, ready)

    def drop(self, target: Any) -> None:
        """Stop watching; harmless where it was not watched."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(target)

    def every(self, seconds: float, call: Callable[[], None], *, first: float = -1) -> None:
        """Call again and again, first after `first` seconds (default: `seconds`)."""
        self.later(seconds if first < 0 else first, lambda: self._again(seconds, call))

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call once, in so many seconds."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._count), call))

    def _again(self, seconds: float, call: Callable[[], None]) -> None:
        self.every(seconds, call)
        call()

    def reap(self, call: Callable[[], None]) -> None:
        """Call after every turn; children are polled there."""
        self._reapers.append(call)

    def end(self, outcome: Outcome) -> None:
        """Say that the attempt is over; only the first call counts."""
        if self.ending is None:
            self.ending, self.ended_at = outcome, time.monotonic()

    def hurry(self) -> None:
        """Say that whatever was granted for an early ending is cut to the grace from now on."""
        if self.hurried_at is None:
            self.hurried_at = time.monotonic()

    def wake(self) -> None:
        """End the present wait; safe from another thread and from a signal handler."""
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    def turn(self, longest: float) -> None:
        """Wait once, at most `longest` seconds, and call what is due."""
        if self._timers:
            longest = min(longest, self._timers[0][0] - time.monotonic())
        for key, mask in self._selector.select(max(0.0, longest)):
            key.data(mask)
        while self._timers and self._timers[0][0] <= time.monotonic():
            heapq.heappop(self._timers)[2]()
        for call in self._reapers:
            call()

    def until(self, done: Callable[[], Any], timeout: float) -> bool:
        """Turn until `done()` is true; False after `timeout` seconds.

        Raises `Ending` as soon as something has ended the attempt, unless `shielded`.
        """
        deadline = time.monotonic() + timeout
        while True:
            if self.ending is not None and not self.shielded:
                raise Ending(self.ending)
            if done():
                return True
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            self.turn(min(left, 5.0))

    def catch_signals(self, *, early: bool) -> None:
        """Turn SIGTERM and SIGINT into an ending, SIGCHLD into a wake-up, and ignore SIGHUP.

        SIGUSR1 is a scheduler's early signal: an ending too where `early`, else nothing. Handlers, since a
        child would inherit that a signal is ignored.
        """
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        signal.signal(signal.SIGUSR1, self._on_early if early else lambda number, frame: None)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # a handler, so that it wakes us
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def _on_signal(self, number: int, frame: object) -> None:
        self.hurry()
        self.end(fail(TERMINATED, f"the agent received signal {number}", signal=number))

    def _on_early(self, number: int, frame: object) -> None:
        detail = f"the agent received signal {number}, the scheduler's early one"
        self.end(fail(TERMINATED, detail, signal=number))

    def _drain(self, mask: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._wake_read, 4096):
                pass


def back_off(first: float = 0.2, last: float = 5.0, factor: float = 1.6) -> Generator[float]:
    """Yield waits in seconds that grow from `first` to `last`, each with up to 20 % of jitter."""
    wait = first
    while True:
        yield wait * (0.8 + 0.2 * int.from_bytes(os.urandom(2), "big") / 65535)
        wait = min(last, wait * factor)
