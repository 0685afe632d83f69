"""Looks into one folder of the store now and then, and reads only what is new."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from .courier import PATIENCE, Courier, Parcel
from .loop import Loop
from .reasons import STORE_FAILED, fail
from .records import decode

ENOUGH = 120.0
"""Seconds of nothing but errors after which the store has failed."""


class Lookout:
    """`take(name, body)` gets each new object; `pause()` says when to look next, None to stop."""

    def __init__(
        self,
        loop: Loop,
        courier: Courier,
        *,
        folder: str,
        wanted: Callable[[str], bool],
        take: Callable[[str, dict[str, Any]], None],
        pause: Callable[[], float | None],
    ) -> None:
        self.looked = False
        """True once the folder was seen and everything new in it was read."""
        self.trouble = ""
        self.changed_at: dict[str, float] = {}
        """Name -> monotonic time at which its tag was last seen to change."""
        self._loop = loop
        self._courier = courier
        self._folder = folder
        self._wanted = wanted
        self._take = take
        self._pause = pause
        self._tags: dict[str, str] = {}
        self._unread = 0
        self._well_at = time.monotonic()
        self._busy = False

    def look(self) -> None:
        """Look now, and from then on as `pause` says. Harmless while it is looking."""
        if self._busy:
            return
        self._busy = True
        parcel = self._courier.ask(lambda store: store.list(self._folder), self._on_list)
        self._loop.later(PATIENCE, lambda: self._give_up(parcel))

    def _give_up(self, parcel: Parcel[dict[str, str]]) -> None:
        if not parcel.done.is_set():
            self._courier.restart()
            self._suffer("no answer")
            self._rest()

    def _on_list(self, parcel: Parcel[dict[str, str]]) -> None:
        if parcel.answer is None:
            self._suffer(str(parcel.error))
            self._rest()
            return
        self._well_at = time.monotonic()
        self.trouble = ""
        new = [name for name, tag in parcel.answer.items() if self._is_new(name, tag)]
        self._read(new)
        if not new:
            self._rest()

    def _is_new(self, name: str, tag: str) -> bool:
        if not self._wanted(name) or self._tags.get(name) == tag:
            return False
        self._tags[name] = tag
        self.changed_at[name] = time.monotonic()
        return True

    def _read(self, names: Iterable[str]) -> None:
        for name in names:
            self._unread += 1
            key = f"{self._folder}/{name}" if self._folder else name
            self._courier.ask(
                lambda store, key=key: store.read(key),  # type: ignore[misc]  # binds the name now
                lambda parcel, name=name: self._on_read(name, parcel),  # type: ignore[misc]
            )

    def _on_read(self, name: str, parcel: Parcel[bytes | None]) -> None:
        self._unread -= 1
        if parcel.error is not None:
            self._tags.pop(name, None)  # look again
            self._suffer(str(parcel.error))
        else:
            self._take(name, decode(parcel.answer))
        if self._unread == 0:
            self._rest()

    def _rest(self) -> None:
        self._busy = False
        self.looked = self.looked or not self.trouble
        seconds = self._pause()
        if seconds is not None:
            self._loop.later(seconds, self.look)

    def _suffer(self, trouble: str) -> None:
        self.trouble = trouble
        if time.monotonic() - self._well_at > ENOUGH:
            self._loop.end(fail(STORE_FAILED, f"the rendezvous store failed: {trouble}"))
