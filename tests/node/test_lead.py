"""The early signal: SIGUSR1 to rank 0's agent gives the driver the lead to save, not the grace."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from .gangs import IDLE_STAGE, Gang, Member

MakeGang = Callable[[int], Gang]
pytestmark = pytest.mark.e2e

SAVER = """
import signal, sys, time
import ray
ray.init(logging_level="ERROR")
def save(*_):
    print("saving", flush=True)
    time.sleep(6)
    alive = len([node for node in ray.nodes() if node["Alive"]])
    open(sys.argv[1], "w").write(str(alive))
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(600)
"""
DEAF = """
import signal, time
signal.signal(signal.SIGTERM, lambda *_: print("no", flush=True))
print("up", flush=True)
end = time.monotonic() + 600
while time.monotonic() < end:
    time.sleep(1)
"""
GRACE = 4


def start(gang: Gang, lead: float, driver: str, *words: str) -> list[Member]:
    """Start a gang with a lead, and wait until its driver runs."""
    members = [
        gang.start(
            rank, "--lead", str(lead), driver=(sys.executable, "-c", driver, *words), grace=GRACE
        )
        for rank in range(gang.nodes)
    ]
    gang.wait_for(lambda: " up\n" in gang.log(0), 90)
    return members


def test_a_driver_may_save_for_longer_than_the_grace(make_gang: MakeGang, tmp_path: Path) -> None:
    """It has all nodes' Ray while it saves, its work is kept, and its end ends the gang at once."""
    gang = make_gang(2)
    head, worker = start(gang, 40, SAVER, str(tmp_path / "saved"))
    worker.signal(signal.SIGUSR1)  # a scheduler may signal every rank: rank 0 decides
    began = time.monotonic()
    head.signal(signal.SIGUSR1)
    gang.wait_logged(0, "saving", 5)
    assert not gang.done, "an outcome would end the ranks that watch the store"
    assert gang.rank(1)["phase"] == "running"
    assert [head.wait(30), worker.wait(30)] == [138, 138]
    assert 6 < time.monotonic() - began < 6 + GRACE
    assert (tmp_path / "saved").read_text() == "2"
    done = gang.done
    assert (done["outcome"], done["reason"], done["signal"]) == ("failed", "terminated", 10)
    assert gang.read("term/1/0.json")["reason"] == "terminated"
    gang.wait_for(lambda: gang.left() == [], 5)


def test_a_driver_that_does_not_end_is_killed_within_the_lead(make_gang: MakeGang) -> None:
    """The time that teardown needs is kept free of a driver that ignores SIGTERM."""
    gang = make_gang(1)
    [head] = start(gang, 12, DEAF)
    began = time.monotonic()
    head.signal(signal.SIGUSR1)
    assert head.wait(20) == 138
    assert 12 - GRACE - 0.5 < time.monotonic() - began < 12
    assert gang.left() == []


def test_a_sigterm_shortens_the_lead_to_the_grace(make_gang: MakeGang) -> None:
    """Who stops the run while it saves need not wait for the lead."""
    gang = make_gang(1)
    [head] = start(gang, 60, DEAF)
    head.signal(signal.SIGUSR1)
    gang.wait_logged(0, " no\n", 5)
    time.sleep(GRACE)
    assert head.process.poll() is None
    began = time.monotonic()
    head.signal(signal.SIGTERM)
    assert head.wait(20) == 138
    assert time.monotonic() - began < GRACE + 0.5


def test_an_early_signal_after_sigterm_lengthens_nothing(make_gang: MakeGang) -> None:
    """The first signal is the reason, and its time holds."""
    gang = make_gang(1)
    [head] = start(gang, 60, DEAF)
    began = time.monotonic()
    head.signal(signal.SIGTERM)
    gang.wait_logged(0, " no\n", 5)
    head.signal(signal.SIGUSR1)
    assert head.wait(20) == 143
    assert time.monotonic() - began < GRACE + 0.5


def test_before_the_driver_runs_there_is_nothing_to_save(make_gang: MakeGang) -> None:
    """An early signal during staging ends the attempt as SIGTERM does."""
    gang = make_gang(1)
    head = gang.start(0, "--lead", "60", "--stage", IDLE_STAGE, grace=GRACE)
    gang.wait_for(lambda: gang.rank(0).get("phase") == "staging")
    began = time.monotonic()
    head.signal(signal.SIGUSR1)
    assert head.wait(20) == 138
    assert time.monotonic() - began < GRACE
    assert gang.done["reason"] == "terminated"
