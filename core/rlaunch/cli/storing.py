"""Writing a run's lines to a directory, so that a second call goes on where the first one stopped.

The files are the cursor: each holds the lines of one rank of one attempt, in their order. A later call
gets the lines from the beginning again and passes over those that stand there, so nothing has to be
kept in step, and a kill in between costs at most a half-written line, which is written anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from rlaunch.codes import Code
from rlaunch.errors import RlaunchError

if TYPE_CHECKING:
    from rlaunch.model import LogLine

MARK = ".rlaunch-logs.json"
"""In the directory: whose lines these are, and from when on."""
_LOOKS = 100
"""Lines of one file that are looked for further on, where the cluster has lost or moved some."""


@contextmanager
def opened(folder: str, job: str, since: str | None) -> Iterator[str | None]:
    """Claim a directory for a job's lines; gives the moment that they begin at.

    That is the first call's `since`, for ever: later lines must follow those that stand there. Raises
    RlaunchError `logs.directory` where another run's lines are in it, or another rlaunch writes there.
    """
    import fcntl

    Path(folder).mkdir(parents=True, exist_ok=True)
    with Path(folder, MARK).open("a+", encoding="utf-8") as mark:
        try:
            fcntl.flock(mark, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise _refused(folder, "another rlaunch writes there") from None
        mark.seek(0)
        try:
            told = json.loads(mark.read() or "null")
        except ValueError:  # killed while it was written: there were no lines yet
            told = None
        if told is None:
            told = {"job": job, "since": since}
            mark.truncate(0)
            mark.write(json.dumps(told) + "\n")
            mark.flush()
        if told["job"] != job:
            raise _refused(folder, f"the lines of `{told['job']}` are there")
        yield told["since"]


def _refused(folder: str, why: str) -> RlaunchError:
    return RlaunchError.of(
        "logs.directory", f"lines of this run cannot be written to `{folder}`: {why}",
        place=f"--to {folder}", hint="name another directory",
    )  # fmt: skip


def store(lines: Iterable[LogLine], folder: str, *, at_once: bool = False) -> dict[str, int]:
    """Write `attempt-A/rank-N.log` for each attempt and rank; return the new lines of each file.

    A line's time comes first. Lines of no rank go to `job.log`, lines of no attempt to the directory
    itself. With `at_once` every line is on disk when the next one is asked for.
    """
    files: dict[str, _File] = {}
    with ExitStack() as stack:
        for line in lines:
            name = "job.log" if line.rank is None else f"rank-{line.rank}.log"
            if line.attempt is not None:
                name = f"attempt-{line.attempt}/{name}"
            if name not in files:
                files[name] = stack.enter_context(_File(Path(folder, name)))
            for text in line.text.split("\n"):
                files[name].take(f"{line.at} {text}" if line.at else text)
            if at_once:
                files[name].flush()
    return {name: file.new for name, file in sorted(files.items())}


class _File:
    """One file, read in step with the lines that come, and written where it ends."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._read: IO[bytes] | None = path.open("rb") if path.exists() else None
        self._write: IO[bytes] | None = None
        self._end = self._whole()
        self._place = self._at = 0
        self._passed: list[tuple[int, int]] = []
        """Parts further on whose lines have come already, in their order; none before `_place`."""
        self._looks = _LOOKS
        self.new = 0

    def __enter__(self) -> _File:
        return self

    def __exit__(self, *error: object) -> None:
        for file in (self._read, self._write):
            if file is not None:
                file.close()

    def _whole(self) -> int:
        """Return where the last whole line ends; a kill may have left half of one behind it."""
        if self._read is None:
            return 0
        place = self._read.seek(0, 2)
        while place:
            start = max(0, place - 65536)
            self._read.seek(start)
            found = self._read.read(place - start).rfind(b"\n")
            if found >= 0:
                place = start + found + 1
                break
            place = start
        self._read.seek(0)
        return place

    def take(self, text: str) -> None:
        """Write a line, unless it stands there."""
        line = text.encode("utf-8", "surrogateescape") + b"\n"
        if self._place < self._end and self._stands(line):
            return
        if self._write is None:
            self._write = self._path.open("ab")
            self._write.truncate(self._end)
        self._write.write(line)
        self.new += 1

    def flush(self) -> None:
        """Put all that was written on disk."""
        if self._write is not None:
            self._write.flush()

    def _stands(self, line: bytes) -> bool:
        """Tell whether a line stands there, and step over it.

        Usually it is the next one. Where the cluster has lost or moved lines it is looked for further
        on, and the lines after it are expected there, while those that were passed stay expected.
        """
        while self._passed and self._passed[0][0] == self._place:
            self._place = self._passed.pop(0)[1]
        told = self._line(self._place)
        if told == line:
            self._place += len(told)
            return True
        last = self._passed[-1] if self._passed else (self._place, self._place)
        ahead = self._line(last[1])
        if ahead == line and self._passed:
            self._passed[-1] = (last[0], last[1] + len(ahead))
            return True
        for place, half in ((self._place, told), (last[1], ahead)):
            whole = place + len(half) < self._end or not half or self._write is not None
            if not whole and line.startswith(half[:-1]):
                self._end = place  # it was read before its writer had finished it
                return False
        return self._looked_for(line, max(last[1], self._place + len(told)))

    def _looked_for(self, line: bytes, place: int) -> bool:
        if not self._looks or place >= self._end:
            return False
        self._looks -= 1
        while told := self._line(place):
            if told == line:
                self._passed.append((place, place + len(told)))
                return True
            place += len(told)
        return False

    def _line(self, place: int) -> bytes:
        """Return the line that stands at a place; nothing at the end."""
        if self._read is None or place >= self._end:
            return b""
        if self._at != place:
            self._read.seek(place)
        told = self._read.readline()
        self._at = place + len(told)
        return told


CODES = (
    Code(
        "logs.directory",
        "A directory that was given to `rlaunch logs --to` is not this run's.\n\n"
        "It keeps whose lines it has, so that a later call can go on with them, and one rlaunch writes\n"
        "there at a time.",
    ),
)
