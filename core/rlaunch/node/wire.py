"""Messages between agents: lines of JSON over TCP, with an empty line as a heartbeat.

A beat every 5 s each way; a peer that is silent for 20 s is dead. A connection that closes may come back
within 5 s: a process that was killed will not, a network that hiccuped will.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from .loop import Loop
from .records import decode, encode

BEAT = 5.0
DEAD = 20.0
RETURN = 5.0
LONGEST = 1 << 16


class Wire:
    """One connection; `take` gets each message, `lost` is called once when it is over."""

    def __init__(
        self,
        loop: Loop,
        connection: socket.socket,
        take: Callable[[Wire, dict[str, Any]], None],
        lost: Callable[[Wire], None],
    ) -> None:
        self.heard_at = time.monotonic()
        self.closed = False
        self.rank: int | None = None
        """Of the peer, once it has said so and proved it."""
        self._loop = loop
        self._connection = connection
        self._take = take
        self._lost = lost
        self._in = b""
        self._out = b""
        connection.setblocking(False)
        with contextlib.suppress(OSError):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        loop.watch(connection, selectors.EVENT_READ, self._on_ready)

    @property
    def silence(self) -> float:
        """Seconds since the peer was last heard."""
        return time.monotonic() - self.heard_at

    @property
    def flushed(self) -> bool:
        """True when all that was said is with the kernel."""
        return self.closed or not self._out

    def say(self, **message: Any) -> None:
        """Send a message; without fields, a heartbeat."""
        self._out += encode(message) if message else b"\n"
        self._send()

    def close(self) -> None:
        """Close it without calling `lost`."""
        if not self.closed:
            self.closed = True
            self._loop.drop(self._connection)
            self._connection.close()

    def _on_ready(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self._send()
        if mask & selectors.EVENT_READ and not self.closed:
            self._receive()

    def _send(self) -> None:
        if self.closed:
            return
        try:
            while self._out:
                self._out = self._out[self._connection.send(self._out) :]
        except BlockingIOError:
            pass
        except OSError:
            self._lose()
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)
        self._loop.watch(self._connection, wanted, self._on_ready)

    def _receive(self) -> None:
        try:
            data = self._connection.recv(LONGEST)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._lose()
            return
        self.heard_at = time.monotonic()
        *lines, self._in = (self._in + data).split(b"\n")
        for line in lines:
            if line and not self.closed:
                self._take(self, decode(line))
        if len(self._in) > LONGEST:
            self._lose()  # nobody of ours talks like that

    def _lose(self) -> None:
        if not self.closed:
            self.close()
            self._lost(self)
