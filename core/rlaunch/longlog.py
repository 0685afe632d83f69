"""A log of any length, to be read again and again without holding it.

A diagnosis reads all of a run's lines several times over. Up to `WHOLE` characters they are a tuple;
a longer log is packed in blocks (about a tenth of its size), and beyond `HELD` bytes of those in a
temporary file without a name. A diagnosis of 500 MB in 4 million lines was measured at 107 MiB and two
minutes; a tuple of them would take about 1.2 GiB.
"""

from __future__ import annotations

import marshal
import zlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from tempfile import SpooledTemporaryFile
from typing import NamedTuple, overload

from rlaunch.model import LogLine

WHOLE = 32 * 1024 * 1024
"""Characters of text that are held as they are; a line takes about three times its text."""
HELD = 64 * 1024 * 1024
"""Bytes of packed lines in memory."""
_BLOCK = 4096
"""Lines of a block."""
_LONGEST = 4 * 1024 * 1024
"""Characters of a block, where lines are very long."""


class _Block(NamedTuple):
    first: int
    """Which line it begins with."""
    place: int
    size: int


class LongLog(Sequence[LogLine]):
    """Lines in packed blocks: a sequence like a tuple of them, read one block at a time."""

    def __init__(self, lines: Iterable[LogLine]) -> None:
        self._file = SpooledTemporaryFile(max_size=HELD)  # noqa: SIM115  # closed with its owner
        self._blocks: list[_Block] = []
        self._count = 0
        self.attempts: frozenset[int | None] = frozenset()
        """Attempts that the lines carry, so that nobody has to read all of them for it."""
        for block in _blocks(lines):
            self._add(block)

    def _add(self, lines: Sequence[LogLine]) -> None:
        packed = zlib.compress(marshal.dumps(tuple(zip(*lines, strict=True))), 1)
        place = self._file.seek(0, 2)
        self._file.write(packed)
        self._blocks.append(_Block(self._count, place, len(packed)))
        self._count += len(lines)
        self.attempts |= {line.attempt for line in lines}

    def _unpacked(self, block: _Block) -> Iterator[LogLine]:
        self._file.seek(block.place)
        packed = self._file.read(block.size)
        columns = marshal.loads(zlib.decompress(packed))  # noqa: S302  # written above
        return map(LogLine._make, zip(*columns, strict=True))

    def __iter__(self) -> Iterator[LogLine]:
        for block in self._blocks:
            yield from self._unpacked(block)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> LogLine: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LogLine, ...]: ...
    def __getitem__(self, index: int | slice) -> LogLine | tuple[LogLine, ...]:
        """Return a line, or a tuple of lines that stand together; a step is refused (ValueError)."""
        if not isinstance(index, slice):
            return self[slice(index, index + 1 or None)][0]
        start, stop, step = index.indices(self._count)
        if step != 1:
            raise ValueError("a long log is read line by line")
        wanted: list[LogLine] = []
        for number, block in enumerate(self._blocks):
            following = self._blocks[number + 1 : number + 2]
            end = following[0].first if following else self._count
            if end > start and block.first < stop:
                first, last = max(start - block.first, 0), stop - block.first
                wanted += islice(self._unpacked(block), first, last)
        return tuple(wanted)

    def __reversed__(self) -> Iterator[LogLine]:
        for block in reversed(self._blocks):
            yield from reversed(tuple(self._unpacked(block)))

    def __del__(self) -> None:
        self._file.close()

    def only(self, lines: Iterable[LogLine]) -> Sequence[LogLine]:
        """Return some of these lines, packed where they are many."""
        return gather(lines)


def gather(lines: Iterable[LogLine], *, whole: int = WHOLE) -> Sequence[LogLine]:
    """Return all lines of a stream: a tuple up to `whole` characters of text, a `LongLog` beyond."""
    stream = iter(lines)
    held: list[LogLine] = []
    size = 0
    for line in stream:
        held.append(line)
        size += len(line.text)
        if size > whole:
            return LongLog(_joined(held, stream))
    return tuple(held)


def _joined(held: list[LogLine], stream: Iterator[LogLine]) -> Iterator[LogLine]:
    """Yield what was held, and let go of it, then the rest."""
    held.reverse()
    while held:
        yield held.pop()
    yield from stream


def _blocks(lines: Iterable[LogLine]) -> Iterator[list[LogLine]]:
    block: list[LogLine] = []
    size = 0
    for line in lines:
        block.append(line)
        size += len(line.text)
        if len(block) >= _BLOCK or size >= _LONGEST:
            yield block
            block, size = [], 0
    if block:
        yield block
