"""The lines of a run: one log for each rank and attempt, and the batch script's own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from rlaunch.cluster import LogQuery
from rlaunch.model import LogLine
from rlaunch_slurm_jupiter.site import Site

_STAMP = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) ")
_RANK_LOG = re.compile(r"logs/(\d+)/(\d+)\.log\Z")
_LABEL = re.compile(r"\s*(\d+): ")
POLL_S = 1.0


class Reader:
    """Reads what has come since the last look; a line is given out when it is whole."""

    def __init__(self, site: Site, folder: str) -> None:
        self._site, self._folder = site, folder
        self._offsets: dict[str, int] = {}
        self._rest: dict[str, bytes] = {}

    def look(self) -> list[LogLine]:
        """Return the new whole lines of all files, by time where the lines have one."""
        found: list[tuple[str, LogLine]] = []
        while data := self._site.tails(self._offsets, self._folder):
            for name, piece in data.items():
                self._offsets[name] = self._offsets.get(name, 0) + len(piece)
                *whole, self._rest[name] = (self._rest.get(name, b"") + piece).split(b"\n")
                found += [(name, read_line(name, raw)) for raw in whole]
        return _sorted(found)

    def rest(self) -> list[LogLine]:
        """Return the last lines of files that do not end with a newline."""
        left = [(name, read_line(name, raw)) for name, raw in self._rest.items() if raw]
        self._rest = {}
        return _sorted(left)


def read_line(name: str, raw: bytes) -> LogLine:
    """Read one line of a file: rank and attempt by the file's name, the time by its stamp. The batch
    script's lines are rank 0's, unless srun labelled them."""
    text = raw.decode("utf-8", "replace").rstrip("\r")
    match = _RANK_LOG.search(name)
    if match:
        stamp = _STAMP.match(text)
        at = stamp[1] if stamp else ""
        return LogLine(text[stamp.end() :] if stamp else text, int(match[2]), int(match[1]), at)
    label = _LABEL.match(text)
    return LogLine(text[label.end() :] if label else text, int(label[1]) if label else 0)


def _sorted(found: list[tuple[str, LogLine]]) -> list[LogLine]:
    """Merge files by time; a line without one follows the line before it in its file."""
    keyed = []
    last: dict[str, str] = {}
    for position, (name, line) in enumerate(found):
        last[name] = line.at or last.get(name, "")
        keyed.append((last[name], position, line))
    return [line for _, _, line in sorted(keyed, key=lambda entry: entry[:2])]


def read(
    site: Site,
    folder: str,
    query: LogQuery,
    ended: Callable[[], bool],
    sleep: Callable[[float], None],
) -> Iterator[LogLine]:
    """Yield the lines that are wanted; with `follow` until the run has ended and its files are drained."""
    reader = Reader(site, folder)
    over = not query.follow
    while True:
        for line in reader.look():
            if wanted(line, query):
                yield line
        if over:
            break
        over = ended()
        if not over:
            sleep(POLL_S)
    for line in reader.rest():
        if wanted(line, query):
            yield line


def wanted(line: LogLine, query: LogQuery) -> bool:
    """Tell whether a line is asked for. Lines without attempt or time are left out where that is asked."""
    if query.rank is not None and line.rank != query.rank:
        return False
    if query.attempt is not None and line.attempt != query.attempt:
        return False
    return query.since is None or (bool(line.at) and line.at >= query.since)
