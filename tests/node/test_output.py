"""Lines on their way from a child's pipe to the log."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch.node.loop import Loop, back_off
from rlaunch.node.output import LONGEST_LINE, Log, Pump


def pump(chunks: list[bytes]) -> list[bytes]:
    """Send chunks through a pipe and return the lines that come out."""
    loop, lines = Loop(), []
    read_end, write_end = os.pipe()
    pumped = Pump(loop, read_end, lines.append)
    for chunk in chunks:
        os.write(write_end, chunk)
        loop.turn(0.1)
    os.close(write_end)
    assert loop.until(lambda: pumped.closed, 5)
    return lines


def test_lines_come_out_as_they_went_in() -> None:
    """Blank lines stay, an unfinished last line is not lost, a half one waits for its rest."""
    assert pump([b"a\n\nb", b"c\nlast"]) == [b"a", b"", b"bc", b"last"]


def test_progress_bars_are_lines() -> None:
    """A bar that rewrites its line with `\\r` is seen while it runs; `\\r\\n` is one end, not two."""
    assert pump([b"1%\r2%\r", b"\nx\r\ny\r", b"z\n"]) == [b"1%", b"2%", b"x", b"y", b"z"]


@settings(deadline=None)  # pipes on a busy machine
@given(st.lists(st.binary(max_size=40), max_size=8))
def test_nothing_is_lost_or_invented(chunks: list[bytes]) -> None:
    """However the bytes are cut, the lines hold all of them but the line ends."""
    ends = re.compile(rb"[\r\n]")
    assert ends.sub(b"", b"".join(pump(chunks))) == ends.sub(b"", b"".join(chunks))


def test_endless_line_is_cut() -> None:
    """A child that never ends its line cannot eat the agent's memory."""
    loop, lines = Loop(), []
    read_end, write_end = os.pipe()
    pumped = Pump(loop, read_end, lines.append)
    os.set_blocking(write_end, False)
    sent = 0
    while sent < LONGEST_LINE * 2:
        try:
            sent += os.write(write_end, b"x" * 65536)
        except BlockingIOError:
            loop.turn(0)
    os.close(write_end)
    assert loop.until(lambda: pumped.closed, 5)
    assert len(lines) >= 2
    assert sum(map(len, lines)) == sent


def test_log_file_has_a_time_before_each_line(tmp_path: Path) -> None:
    """Everything in the file starts with RFC 3339 in UTC; the agent's lines say who speaks."""
    path = tmp_path / "new" / "0.log"
    log = Log(str(path), "rank=0/2 attempt=1")
    log.say("ROLE=head")
    log.put("driver 李".encode())
    log.put(b"\xff broken")
    log.drain(5)
    stamp = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z "
    lines = path.read_bytes().splitlines()
    assert all(re.match(stamp, line) for line in lines)
    assert [re.sub(stamp, b"", line) for line in lines] == [
        b"[rlaunch-node] rank=0/2 attempt=1 ROLE=head",
        "driver 李".encode(),
        b"\xff broken",
    ]


def test_log_without_a_file_is_plain_output(capfdbinary: object) -> None:
    """Where the scheduler keeps the log, lines go to standard output as they are."""
    log = Log("", "rank=0/1 attempt=1")
    log.put(b"a line")
    log.drain(5)
    assert capfdbinary.readouterr().out == b"a line\n"  # type: ignore[attr-defined]


def test_full_disk_loses_lines_and_says_so(tmp_path: Path) -> None:
    """A log that cannot be written neither raises nor blocks, and the loss is counted later."""
    log = Log("/dev/full", "rank=0/1 attempt=1")
    began = time.monotonic()
    for _ in range(100):
        log.put(b"x")
    assert time.monotonic() - began < 1
    log.drain(8)
    good = os.open(tmp_path / "good", os.O_WRONLY | os.O_CREAT)
    log._descriptor = good
    log.put(b"again")
    log.drain(5)
    text = (tmp_path / "good").read_text()
    assert "again" in text
    assert "lost 100 lines" in text


def test_noteworthy_lines_are_remembered(tmp_path: Path) -> None:
    """What a termination record repeats: the lines about memory, disks and dead engines."""
    log = Log(str(tmp_path / "log"), "")
    for line in (b"fine", b"CUDA out of memory. Tried", b"OSError: No space left on device"):
        log.put(line)
    assert len(log.noteworthy) == 2
    assert next(iter(log.last)) == b"fine"


def test_back_off_grows_and_stays_bounded() -> None:
    """Waits start at a fifth of a second and never exceed five."""
    waits = back_off()
    first = [next(waits) for _ in range(40)]
    assert 0.15 < first[0] <= 0.2
    assert first[5] > first[0]
    assert all(wait <= 5.0 for wait in first)
    assert min(first[20:]) >= 4.0
