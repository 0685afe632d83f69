"""Carries requests to the store in a thread of its own, so that a store that hangs stops nothing else."""

from __future__ import annotations

import collections
import contextlib
import queue
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from .loop import Loop, back_off
from .reasons import STORE_FAILED, Ending, fail
from .store import Store, StoreError

T = TypeVar("T")
SPACING = 1.0
"""Seconds between two drafts of one object."""
PATIENCE = 30.0
"""Seconds that one request may take before its thread is given up."""


class Parcel(Generic[T]):
    """One request and, later, its answer."""

    def __init__(
        self, ask: Callable[[], T], then: Callable[[Parcel[T]], None] | None = None
    ) -> None:
        self.ask = ask
        self.then = then
        self.done = threading.Event()
        self.answer: T | None = None
        self.error: StoreError | None = None


class Courier:
    """The store as the roles see it. Counts requests, for the budgets of the protocol."""

    def __init__(self, store: Store, loop: Loop) -> None:
        self.requests = 0
        self._store = store
        self._loop = loop
        self._drafts: dict[str, bytes] = {}
        self._sent_at: dict[str, float] = {}
        self._arrived: collections.deque[Parcel[object]] = collections.deque()
        self._busy_since: float | None = None
        self._queue: queue.SimpleQueue[Parcel[object]] = queue.SimpleQueue()
        self.restart()
        loop.reap(self._deliver)

    def list(self, prefix: str, timeout: float) -> dict[str, str]:
        """Return the names under `prefix` with their tags, trying again until `timeout` seconds."""
        return self._insist(lambda: self._store.list(prefix), timeout)

    def read(self, key: str, timeout: float) -> bytes | None:
        """Return an object, trying again until `timeout` seconds."""
        return self._insist(lambda: self._store.read(key), timeout)

    def write(self, key: str, data: bytes, timeout: float) -> None:
        """Write an object, trying again until `timeout` seconds; a draft of it is forgotten."""
        self._drafts.pop(key, None)
        self._insist(lambda: self._store.write(key, data), timeout)

    def create(self, key: str, data: bytes, timeout: float) -> bool:
        """Create an object, trying again until `timeout` seconds; False where it exists."""
        return self._insist(lambda: self._store.create(key, data), timeout)

    def ask(
        self, call: Callable[[Store], T], then: Callable[[Parcel[T]], None] | None = None
    ) -> Parcel[T]:
        """Send one request and return at once; `then` gets the answered parcel in the loop's thread."""
        parcel = Parcel(lambda: call(self._store), then)
        self._queue.put(cast("Parcel[object]", parcel))
        return parcel

    def draft(self, key: str, data: bytes) -> None:
        """Write when there is time: at most once a second, the newest only; failures pass."""
        waiting = key in self._drafts
        self._drafts[key] = data
        if not waiting:
            due = self._sent_at.get(key, 0.0) + SPACING - time.monotonic()
            self._loop.later(max(0.0, due), lambda: self._send_draft(key))

    def _send_draft(self, key: str) -> None:
        data = self._drafts.pop(key, None)
        if data is not None:
            self._sent_at[key] = time.monotonic()
            self.ask(lambda store: store.write(key, data))

    def _insist(self, call: Callable[[], T], timeout: float) -> T:
        """Ask until it works. Raises `Ending` with reason `store-failed` when `timeout` has passed."""
        deadline = time.monotonic() + timeout
        trouble = silence = f"no answer ({self._store})"
        if self._busy_since is not None and time.monotonic() - self._busy_since > 2:
            self.restart()  # something before us hangs
        for pause in back_off():
            parcel = self.ask(lambda store: call())
            left = max(0.05, deadline - time.monotonic())
            if not self._loop.until(parcel.done.is_set, min(PATIENCE, left)):
                self.restart()
                trouble = silence
            elif parcel.error is None:
                return cast("T", parcel.answer)
            else:
                trouble = str(parcel.error)
            if time.monotonic() + pause >= deadline:
                break
            self._loop.until(lambda: False, pause)
        raise Ending(
            fail(STORE_FAILED, f"the rendezvous store failed for {timeout:g} s: {trouble}")
        )

    def restart(self) -> None:
        """Leave a thread that hangs, and what waits for it, behind."""
        self._queue = queue.SimpleQueue()
        self._busy_since = None
        threading.Thread(target=self._carry, args=(self._queue,), daemon=True).start()

    def _carry(self, waiting: queue.SimpleQueue[Parcel[object]]) -> None:
        while True:
            parcel = waiting.get()
            self.requests += 1
            if waiting is self._queue:
                self._busy_since = time.monotonic()
            try:
                parcel.answer = parcel.ask()
            except StoreError as error:
                parcel.error = error
            except Exception as error:  # noqa: BLE001  # a bug in a store must not end its thread
                parcel.error = StoreError(repr(error))
            if waiting is self._queue:
                self._busy_since = None
            if parcel.then is not None:
                self._arrived.append(parcel)
            parcel.done.set()
            if waiting is not self._queue:
                return  # this thread was given up, and its queue with it
            with contextlib.suppress(OSError):
                self._loop.wake()

    def _deliver(self) -> None:
        while self._arrived:
            parcel = self._arrived.popleft()
            if parcel.then is not None:
                parcel.then(parcel)
