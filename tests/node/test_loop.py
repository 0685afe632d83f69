"""The loop, connections, and the numbers of a termination record."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from rlaunch.node.loop import Loop
from rlaunch.node.reasons import Ending, fail
from rlaunch.node.samples import list_largest, read_kernel_lines, read_room, take_sample
from rlaunch.node.wire import LONGEST, Wire


def test_until_returns_when_it_is_true_or_late() -> None:
    """Waiting ends at once with True, or with False after the time-out."""
    loop = Loop()
    assert loop.until(lambda: True, 0)
    began = time.monotonic()
    assert not loop.until(lambda: False, 0.2)
    assert 0.15 < time.monotonic() - began < 2


def test_timers_are_called_in_time_and_again() -> None:
    """A one-shot timer fires once, a repeated one goes on."""
    loop, once, often = Loop(), [], []
    loop.later(0.05, lambda: once.append(1))
    loop.every(0.03, lambda: often.append(1), first=0)
    loop.until(lambda: len(often) >= 5, 5)
    assert len(once) == 1


def test_first_ending_wins_and_is_raised() -> None:
    """Whatever ends the attempt first is its reason; later ones change nothing."""
    loop = Loop()
    loop.later(0.02, lambda: loop.end(fail("worker-lost")))
    loop.later(0.03, lambda: loop.end(fail("ray-failed")))
    with pytest.raises(Ending) as caught:
        loop.until(lambda: False, 5)
    assert caught.value.outcome.reason == "worker-lost"
    loop.shielded = True
    assert not loop.until(lambda: False, 0.05)
    assert loop.ending == fail("worker-lost")


class Peers:
    """Two ends of one connection, both in one loop."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.heard: list[dict[str, Any]] = []
        self.lost: list[Wire] = []
        mine, self.raw = socket.socketpair()
        self.wire = Wire(
            self.loop, mine, lambda wire, body: self.heard.append(body), self.lost.append
        )


def test_messages_arrive_whole_however_they_are_cut() -> None:
    """A message may come in pieces, several at once, and a beat is not a message."""
    peers = Peers()
    for piece in (b'{"a"', b': 1}\n\n{"b": 2}\n', b"rubbish\n"):
        peers.raw.sendall(piece)
        peers.loop.turn(0.2)
    assert peers.heard == [{"a": 1}, {"b": 2}, {}]
    assert peers.wire.silence < 1
    peers.raw.close()
    peers.loop.until(lambda: peers.lost, 5)
    assert peers.lost == [peers.wire]


def test_large_messages_leave_as_the_peer_reads() -> None:
    """What the kernel does not take at once is sent when it does."""
    peers = Peers()
    peers.wire.say(text="x" * (1 << 22))
    assert not peers.wire.flushed
    peers.raw.setblocking(False)
    got = 0
    deadline = time.monotonic() + 10
    while not peers.wire.flushed and time.monotonic() < deadline:
        peers.loop.turn(0.01)
        try:
            got += len(peers.raw.recv(1 << 20))
        except BlockingIOError:
            continue
    assert peers.wire.flushed
    peers.wire.close()
    peers.raw.close()
    assert got > 1 << 21


def test_endless_message_is_hung_up_on() -> None:
    """A peer that sends no line end is not one of ours."""
    peers = Peers()
    peers.raw.setblocking(False)
    for _ in range(10):
        if peers.lost:
            break
        with contextlib.suppress(OSError):
            peers.raw.send(b"x" * LONGEST)
        peers.loop.turn(0.1)
    assert peers.lost == [peers.wire]
    peers.raw.close()


def test_lost_peer_is_told_once() -> None:
    """Sending to a peer that is gone ends the connection, and only once."""
    peers = Peers()
    peers.raw.close()
    for _ in range(3):
        peers.wire.say(x=1)
        peers.loop.turn(0.05)
    assert peers.lost == [peers.wire]
    assert peers.wire.flushed


def test_sample_has_disk_memory_and_the_largest_processes(tmp_path: Path) -> None:
    """The numbers are there, in bytes, and no process shows its arguments."""
    sample = take_sample([str(tmp_path), "/nowhere"])
    assert list(sample["disk"]) == [str(tmp_path)]
    assert sample["disk"][str(tmp_path)]["free"] > 0
    assert sample["memory"]["host_available"] > 0
    largest = list_largest(3)
    assert len(largest) == 3
    assert [set(entry) for entry in largest] == [{"pid", "name", "resident"}] * 3
    assert largest[0]["resident"] >= largest[2]["resident"] > 0
    assert read_room("/nowhere") == {}


def test_kernel_lines_are_those_about_memory_and_gpus(tmp_path: Path) -> None:
    """Only what explains an end is kept; a log that may not be read is no error."""
    log = tmp_path / "kmsg"
    os.mkfifo(log)
    reader = os.open(log, os.O_RDWR | os.O_NONBLOCK)
    os.write(reader, b"6,1,1,-;Out of memory: Killed process 7 (python)\n")
    assert "Killed process 7" in read_kernel_lines(str(log))[0]
    os.close(reader)
    assert read_kernel_lines(str(tmp_path / "none")) == []
