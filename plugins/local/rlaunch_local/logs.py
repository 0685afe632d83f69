"""The lines of a run: every attempt and rank, in the order of time, none lost at the end.

A log file's lines begin with their time (the agent writes it there). Files are read in pieces; a line
longer than `LONGEST` is given in several, so memory stays bounded whatever a job prints.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from rlaunch.cluster import LogQuery
from rlaunch.model import LogLine

CHUNK = 256 * 1024
LONGEST = 1024 * 1024
"""Bytes of one line."""
POLL_S = 0.5
_STAMP = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z) ?")


class Source(NamedTuple):
    """One log file: of a rank of an attempt, or the supervisor's (both None)."""

    path: Path
    attempt: int | None
    rank: int | None


class Key(NamedTuple):
    """What lines are sorted by; the file's own order decides last."""

    at: str
    attempt: int
    rank: int


class Tail:
    """A file that is read on from where the last reading ended."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.offset = 0
        self.rest = b""
        self.last = ""
        """The time of the line before: one without a time belongs to it."""

    def lines(self, *, final: bool, limit: int | None = None) -> Iterator[tuple[Key, LogLine]]:
        """Yield the complete lines that are new; with `final` also the last one without a newline.

        At most `limit` bytes are read, where given.
        """
        left = limit
        with self.source.path.open("rb") as file:
            file.seek(self.offset)
            while piece := file.read(CHUNK if left is None else min(CHUNK, left)):
                self.offset += len(piece)
                left = None if left is None else left - len(piece)
                *whole, self.rest = (self.rest + piece).split(b"\n")
                for line in whole:
                    yield from self._line(line)
                while len(self.rest) >= LONGEST:
                    head, self.rest = self.rest[:LONGEST], self.rest[LONGEST:]
                    yield from self._line(head)
        if final and self.rest:
            rest, self.rest = self.rest, b""
            yield from self._line(rest)

    def _line(self, raw: bytes) -> Iterator[tuple[Key, LogLine]]:
        match = _STAMP.match(raw)
        at = match[1].decode() if match else ""
        self.last = normal(at) if at else self.last or self._written()
        text = raw[match.end() :] if match else raw
        source = self.source
        line = LogLine(
            text.decode("utf-8", "replace").rstrip("\r"), source.rank, source.attempt, at
        )
        rank = -1 if source.rank is None else source.rank
        yield Key(self.last, source.attempt or 0, rank), line

    def _written(self) -> str:
        """The time of the file's last change stands in for a first line without a time."""
        stamp = datetime.fromtimestamp(self.source.path.stat().st_mtime, UTC)
        return normal(stamp.isoformat())


def normal(at: str) -> str:
    """Return a time in one spelling, to the microsecond, so that text sorts as time does.

    Raises ValueError for anything but RFC 3339.
    """
    moment = datetime.fromisoformat(at)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def sources(run_dir: Path, query: LogQuery) -> list[Source]:
    """Return the files that hold what the query asks for."""
    found = []
    for path in sorted((run_dir / "logs").glob("*/*.log")):
        if not (path.parent.name.isdigit() and path.stem.isdigit()):
            continue
        attempt, rank = int(path.parent.name), int(path.stem)
        if query.attempt in {None, attempt} and query.rank in {None, rank}:
            found.append(Source(path, attempt, rank))
    own = run_dir / "supervisor.log"
    if query.attempt is None and query.rank is None and own.exists():
        found.append(Source(own, None, None))
    return found


def read(
    run_dir: Path, query: LogQuery, ended: Callable[[], bool], sleep: Callable[[float], None]
) -> Iterator[LogLine]:
    """Yield the lines of a run; with `follow` until `ended()`, and then what was written meanwhile."""
    since = normal(query.since) if query.since else ""
    tails: dict[Source, Tail] = {}
    while True:
        final = not query.follow or ended()  # asked first: what is written before the end is read
        for source in sources(run_dir, query):
            tails.setdefault(source, Tail(source))
        yield from _merged(list(tails.values()), since, final=final)
        if final:
            return
        sleep(POLL_S)


def _merged(tails: list[Tail], since: str, *, final: bool) -> Iterator[LogLine]:
    """Merge what is new in all files by time, file order kept within each."""
    streams = (tail.lines(final=final) for tail in tails)
    for key, line in heapq.merge(*streams, key=lambda pair: pair[0]):
        if key.at >= since:
            yield line
