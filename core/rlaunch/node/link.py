"""A worker's connection to rank 0: connects, proves itself, beats, and notices when rank 0 is gone."""

from __future__ import annotations

import selectors
import socket
import time
from typing import Any

from .agent import Agent
from .courier import Parcel
from .loop import back_off
from .reasons import HEAD_LOST, fail, read_outcome
from .records import DONE_KEY, Head, RankRecord, decode, find_outcome
from .wire import BEAT, DEAD, RETURN, Wire

PATIENCE = 20.0
"""Seconds without a first welcome after which the store has to do."""


class Link:
    """Open from the moment that rank 0 is found until this agent ends."""

    def __init__(self, agent: Agent, head: Head) -> None:
        self.welcomed = False
        """True once rank 0 has answered; from then on its silence is its death."""
        self.news: dict[str, Any] = {}
        """The last value of everything that rank 0 has said."""
        self._agent = agent
        self._head = head
        self._wire: Wire | None = None
        self._began = time.monotonic()
        self._lost_at: float | None = None
        self._asking = False
        self._pauses = back_off(0.2, 2.0)
        agent.tell = self._tell
        agent.loop.every(BEAT, self._beat)
        agent.loop.every(1.0, self._check)
        self._connect()

    @property
    def connected(self) -> bool:
        """True while rank 0 can be told something."""
        return self._wire is not None and self.welcomed

    @property
    def hopeless(self) -> bool:
        """True where no connection ever came about, so that the store has to do."""
        return not self.welcomed and time.monotonic() - self._began > PATIENCE

    def flush(self, timeout: float) -> None:
        """Wait until all that was said has left."""
        wire = self._wire
        if wire is not None:
            self._agent.loop.until(lambda: wire.flushed, timeout)

    def _connect(self) -> None:
        if self._wire is not None:
            return
        ip = self._head.head_ip
        family = socket.AF_INET6 if ":" in ip else socket.AF_INET
        attempt = socket.socket(family, socket.SOCK_STREAM)
        attempt.setblocking(False)
        attempt.connect_ex((ip, self._head.agent_port))

        def ready(mask: int) -> None:
            self._agent.loop.drop(attempt)
            if attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                attempt.close()
                self._retry()
            else:
                self._greet(attempt)

        self._agent.loop.watch(attempt, selectors.EVENT_WRITE, ready)

    def _retry(self) -> None:
        self._agent.loop.later(next(self._pauses), self._connect)

    def _greet(self, connection: socket.socket) -> None:
        self._wire = Wire(self._agent.loop, connection, self._take, self._lose)
        self._tell(self._agent.record, token=self._head.token)

    def _tell(self, record: RankRecord, **more: Any) -> None:
        if self._wire is not None:
            self._wire.say(**self._agent.fence.mark(**record._asdict()), **more)

    def _take(self, wire: Wire, message: dict[str, Any]) -> None:
        if "welcome" in message:
            if not self.welcomed:
                self._agent.log.say(f"Connected to the agent of rank 0 at {self._head.head_ip}")
            self.welcomed = True
            self._lost_at = None
            self._pauses = back_off(0.2, 2.0)
        self.news.update(message)
        outcome = message.get("outcome")
        if isinstance(outcome, dict):
            self._agent.loop.end(read_outcome(outcome))

    def _lose(self, wire: Wire) -> None:
        if wire is self._wire:
            self._wire = None
            if self.welcomed and self._lost_at is None:
                self._lost_at = time.monotonic()
                if not self._agent.loop.shielded:
                    self._agent.log.say("The connection to rank 0 closed")
            self._retry()

    def _beat(self) -> None:
        if self._wire is not None:
            self._wire.say()

    def _check(self) -> None:
        wire = self._wire
        if wire is not None and wire.silence > DEAD and self.welcomed:
            wire.close()
            self._wire = None
            self._judge(f"rank 0 was silent for {DEAD:g} s")
        elif self._lost_at is not None and time.monotonic() - self._lost_at > RETURN:
            self._judge(f"rank 0 closed its connection and did not come back in {RETURN:g} s")

    def _judge(self, what: str) -> None:
        """Rank 0 is gone: end with the outcome that it left, or without one."""
        if self._asking or self._agent.loop.ending is not None:
            return
        self._asking = True

        def then(parcel: Parcel[bytes | None]) -> None:
            outcome = find_outcome(self._agent.fence, decode(parcel.answer))
            self._agent.loop.end(outcome or fail(HEAD_LOST, what))

        self._agent.courier.ask(lambda store: store.read(DONE_KEY), then)
        self._agent.loop.later(10.0, lambda: self._agent.loop.end(fail(HEAD_LOST, what)))
