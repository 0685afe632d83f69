"""Logs by cursor: all of them, once each, to the last line."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from rlaunch.cluster import LogQuery
from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, LogLine
from rlaunch.testing.fakes import FakeClock
from rlaunch_iris import logs, troubles
from rlaunch_iris.views import LogEntry, LogPage

REF = JobRef("iris", "/ada/rl")


class Store:
    """A log that grows: line `i` arrives at second `arrivals[i]` of the clock."""

    def __init__(self, clock: FakeClock, arrivals: list[float], ended_at: float) -> None:
        self.clock, self.arrivals, self.ended_at = clock, arrivals, ended_at
        self.asked: list[tuple[str, bool, int, int]] = []
        self.failing: tuple[float, float] = (0.0, 0.0)
        self.transient = True

    def log_page(
        self, source: str, *, exact: bool, cursor: int, since_ms: int, limit: int
    ) -> LogPage:
        """Return at most `limit` lines after the cursor."""
        now = self.clock.monotonic()
        if self.failing[0] <= now < self.failing[1]:
            raise (
                troubles.unreachable("http://c", "down")
                if self.transient
                else troubles.refused("no")
            )
        self.asked.append((source, exact, cursor, since_ms))
        there = [i for i, at in enumerate(self.arrivals) if at <= now]
        page = there[cursor : cursor + limit]
        entries = tuple(LogEntry(i % 2, i % 3, 1000 + i, f"line {i}") for i in page)
        return LogPage(entries, cursor + len(page))

    def read(self, **wanted: object) -> Iterator[LogLine]:
        """Read it as the cluster does."""
        query = LogQuery(REF, **wanted)  # type: ignore[arg-type]  # fields by name
        return logs.read(
            lambda: self, query, lambda: self.clock.monotonic() >= self.ended_at, self.clock.sleep,
            self.clock.monotonic,
        )  # fmt: skip


def test_every_page_is_read(fake_clock: FakeClock) -> None:
    """A log of several pages comes whole, in order, and no page holds more than its limit."""
    count = logs.PAGE * 2 + 17
    store = Store(fake_clock, [0.0] * count, 0)
    lines = list(store.read())
    assert [line.text for line in lines] == [f"line {i}" for i in range(count)]
    assert lines[0] == LogLine("line 0", 0, 0, "1970-01-01T00:00:01.000Z")
    assert [asked[2] for asked in store.asked] == [0, 2000, 4000, 4017]


def test_following_gets_late_lines(fake_clock: FakeClock) -> None:
    """Lines that arrive after the job's end are still told, and then following ends."""
    store = Store(fake_clock, [0, 3, 10, 11.5, 12.4], ended_at=10)
    assert len(list(store.read(follow=True))) == 5
    assert fake_clock.monotonic() < 18


def test_not_following_does_not_wait(fake_clock: FakeClock) -> None:
    """Without `follow` only what is there now is told."""
    store = Store(fake_clock, [0, 3, 10], ended_at=99)
    assert len(list(store.read())) == 1
    assert fake_clock.monotonic() == 0


def test_a_fresh_end_is_waited_for(fake_clock: FakeClock) -> None:
    """Of a job that has just ended the last lines are waited for without following too."""
    store = Store(fake_clock, [0, 1.5, 2.4], ended_at=0)
    query = LogQuery(REF)
    lines = logs.read(
        lambda: store, query, lambda: True, fake_clock.sleep, fake_clock.monotonic, fresh=True
    )
    assert len(list(lines)) == 3


def test_a_controller_that_comes_back(fake_clock: FakeClock) -> None:
    """While following, an unreachable controller is waited for, and no line is lost or told twice."""
    store = Store(fake_clock, [float(i) for i in range(60)], ended_at=60)
    store.failing = (10, 50)
    lines = [line.text for line in store.read(follow=True)]
    assert lines == [f"line {i}" for i in range(60)]


def test_a_controller_that_stays_away(fake_clock: FakeClock) -> None:
    """After two minutes the error comes through, as it does at once for one that will not pass."""
    store = Store(fake_clock, [0.0], ended_at=9999)
    store.failing = (5, 9999)
    with pytest.raises(ClusterError, match="controller-unreachable"):
        list(store.read(follow=True))
    assert 120 < fake_clock.monotonic() < 135
    store.transient = False
    with pytest.raises(ClusterError, match="refused"):
        list(store.read(follow=True))


@pytest.mark.parametrize(
    ("wanted", "stream"),
    [
        ({}, ("/ada/rl/", False)),
        ({"rank": 3}, ("/ada/rl/3:", False)),
        ({"rank": 3, "attempt": 1}, ("/ada/rl/3:1", True)),
        ({"attempt": 1}, ("/ada/rl/", False)),
    ],
)
def test_streams(wanted: dict[str, int], stream: tuple[str, bool]) -> None:
    """A rank and an attempt are asked for by the stream's name, so that nothing else is sent."""
    assert (
        logs.stream(LogQuery(REF, rank=wanted.get("rank"), attempt=wanted.get("attempt"))) == stream
    )


def test_one_attempt_of_all_ranks(fake_clock: FakeClock) -> None:
    """An attempt over all ranks is picked out of the job's lines."""
    store = Store(fake_clock, [0.0] * 9, 0)
    assert {line.attempt for line in store.read(attempt=2)} == {2}


@pytest.mark.parametrize(
    ("moment", "ms"),
    [
        (None, 0), ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:01.5+01:00", 1500),
        ("1970-01-01T00:00:02", 2000),
    ],
)  # fmt: skip
def test_since(moment: str | None, ms: int) -> None:
    """A time is RFC 3339; without a zone it is UTC."""
    assert logs.milliseconds(moment) == ms


def test_bad_since() -> None:
    """What is no time is an error that says how one is written."""
    with pytest.raises(ClusterError, match="`yesterday` is no time"):
        logs.milliseconds("yesterday")


def test_a_line_is_one_line(fake_clock: FakeClock) -> None:
    """An entry with line ends inside becomes several lines."""

    class Odd(Store):
        def log_page(
            self, source: str, *, exact: bool, cursor: int, since_ms: int, limit: int
        ) -> LogPage:
            return LogPage((LogEntry(0, 0, 0, "a\nb\n"),), 1) if cursor == 0 else LogPage((), 1)

    assert [line.text for line in Odd(fake_clock, [], 0).read()] == ["a", "b"]
