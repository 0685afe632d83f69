"""Rank 0's view of the others: who has come, what they say, and who is lost."""

from __future__ import annotations

import hmac
import selectors
import socket
import time
from collections.abc import Callable
from typing import Any

from .agent import Agent
from .lookout import Lookout
from .loop import back_off
from .reasons import STAGING_FAILED, TERMINATED, WORKER_LOST, Outcome, fail
from .records import RankRecord, ranks_prefix, read_rank
from .staging import compare
from .wire import BEAT, DEAD, RETURN, Wire

STALE = 200.0
"""A rank that only the store knows is lost after so many seconds without a new record (three missed)."""
SLOW_LOOK = 20.0


class Desk:
    """Listens for the workers' agents, and looks into the store for those that cannot connect."""

    def __init__(self, agent: Agent, listener: socket.socket, token: str) -> None:
        self.records: dict[int, RankRecord] = {}
        self.running = False
        self.on_change: Callable[[], None] = lambda: None
        """Called when a rank has entered another phase."""
        self._agent = agent
        self._listener = listener
        self._token = token
        self._wires: dict[int, Wire] = {}
        self._lost_at: dict[int, float] = {}
        self._greeting: dict[str, Any] = {}
        self._pauses = back_off(2.0)
        self._others = range(1, agent.flags.nodes)
        agent.loop.watch(listener, selectors.EVENT_READ, self._accept)
        agent.loop.every(BEAT, self._beat)
        agent.loop.every(1.0, self._check)
        self._lookout = Lookout(
            agent.loop,
            agent.courier,
            folder=ranks_prefix(agent.flags.attempt),
            wanted=lambda name: name != "0.json",
            take=lambda name, body: self._take_record(body),
            pause=self._pause,
        )
        if agent.flags.nodes > 1:
            agent.loop.later(2.0, self._look)

    def say(self, **message: Any) -> None:
        """Tell every worker, and those that come later."""
        self._greeting.update(message)
        for wire in list(self._wires.values()):
            wire.say(**message)

    def missing(self) -> list[int]:
        """Return the ranks that have not been heard of in this attempt."""
        return [rank for rank in self._others if rank not in self.records]

    def describe(self, ranks: list[int]) -> str:
        """Name ranks with all that is known of them."""
        words = []
        for rank in ranks:
            record = self.records.get(rank)
            known = f"node {record.node}, phase `{record.phase}`" if record else "never heard of"
            words.append(f"rank {rank} ({known})")
        return ", ".join(words)

    def flush(self, timeout: float) -> None:
        """Wait until all that was said has left."""
        wires = list(self._wires.values())
        self._agent.loop.until(lambda: all(wire.flushed for wire in wires), timeout)

    def find_silent(self, seconds: float) -> list[int]:
        """Return the ranks whose connection is gone or has missed a beat."""
        return [
            rank
            for rank in self._others
            if rank in self._lost_at
            or (rank in self._wires and self._wires[rank].silence > seconds)
        ]

    def _look(self) -> None:
        if not self._all_wired:
            self._lookout.look()

    @property
    def _all_wired(self) -> bool:
        return all(rank in self._wires for rank in self._others)

    def _pause(self) -> float | None:
        if self._all_wired:
            return None
        return SLOW_LOOK if self.running else next(self._pauses)

    def _accept(self, mask: int) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return
        wire = Wire(self._agent.loop, connection, self._take, self._lose)
        self._agent.loop.later(10.0, lambda: wire.close() if wire.rank is None else None)

    def _take(self, wire: Wire, message: dict[str, Any]) -> None:
        if wire.rank is None:
            self._greet(wire, message)
        elif message.get("run"):
            self._take_record(message)

    def _greet(self, wire: Wire, message: dict[str, Any]) -> None:
        """Admit an agent of this attempt that knows the token; hang up on anybody else."""
        token = str(message.get("token") or "")
        record = read_rank(message)
        known = hmac.compare_digest(token.encode(), self._token.encode())
        if not known or record is None or record.rank not in self._others:
            wire.close()
            return
        if not self._agent.fence.admits(message):
            wire.close()
            return
        before = self._wires.pop(record.rank, None)
        if before is not None:
            before.close()
        wire.rank = record.rank
        self._wires[record.rank] = wire
        self._lost_at.pop(record.rank, None)
        wire.say(welcome=True, **self._greeting)
        self._take_record(message)

    def _take_record(self, body: dict[str, Any]) -> None:
        record = read_rank(body)
        if record is None or not self._agent.fence.admits(body) or record.rank not in self._others:
            return
        if record.rank not in self.records:
            self._agent.log.say(f"Rank {record.rank} is here: node {record.node}")
        before = self.records.get(record.rank)
        self.records[record.rank] = record
        if before is None or before.phase != record.phase:
            self.on_change()
        if record.reason and record.phase in ("stopping", "ended"):
            self._agent.loop.end(blame(record))
            return
        mine = self._agent.record.staged
        if record.staged is not None and mine is not None:
            self._compare(record.rank, record.staged, mine)

    def compare_all(self) -> None:
        """Compare everybody's counts with rank 0's, once it has staged itself."""
        for rank, record in self.records.items():
            if record.staged is not None and self._agent.record.staged is not None:
                self._compare(rank, record.staged, self._agent.record.staged)

    def _compare(self, rank: int, staged: dict[str, int], mine: dict[str, int]) -> None:
        difference = compare(rank, staged, mine)
        if difference:
            self._agent.loop.end(fail(STAGING_FAILED, difference))

    def _lose(self, wire: Wire) -> None:
        if wire.rank is not None and self._wires.get(wire.rank) is wire:
            del self._wires[wire.rank]
            self._lost_at[wire.rank] = time.monotonic()
            if self._agent.loop.ending is None and not self._agent.loop.shielded:
                self._agent.log.say(f"The connection of rank {wire.rank} closed")

    def _beat(self) -> None:
        for wire in list(self._wires.values()):
            wire.say()

    def _check(self) -> None:
        now = time.monotonic()
        for rank, wire in list(self._wires.items()):
            if wire.silence > DEAD:
                self._end(rank, f"was silent for {wire.silence:.0f} s")
        for rank, lost_at in self._lost_at.items():
            if now - lost_at > RETURN:
                self._end(rank, f"closed its connection and did not come back in {RETURN:g} s")
        for rank in self.records:
            seen = self._lookout.changed_at.get(f"{rank}.json", now)
            if rank not in self._wires and rank not in self._lost_at and now - seen > STALE:
                self._end(rank, f"wrote no record for {now - seen:.0f} s")

    def _end(self, rank: int, what: str) -> None:
        self._agent.loop.end(fail(WORKER_LOST, f"{self.describe([rank])} {what}"))


def blame(record: RankRecord) -> Outcome:
    """Return the gang's outcome when one rank has ended by itself."""
    if record.reason == TERMINATED:
        return fail(WORKER_LOST, f"rank {record.rank} (node {record.node}): {record.detail}")
    detail = record.detail or record.reason
    outcome = fail(record.reason, f"rank {record.rank} (node {record.node}): {detail}")
    return outcome._replace(oom_kills=record.oom_kills)
