"""Logs: all of it, in order, to the last byte."""

from __future__ import annotations

import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch.cluster import LogQuery
from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, LogLine
from rlaunch_local import logs

REF = JobRef("local", "x-00000000")


def put(run_dir: Path, name: str, data: str | bytes) -> None:
    """Write a log file."""
    path = run_dir / "logs" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode())


def lines(run_dir: Path, **query: Any) -> list[LogLine]:
    """Read the lines of a run that has ended."""
    return list(logs.read(run_dir, LogQuery(REF, **query), lambda: True, lambda s: None))


def texts(run_dir: Path, **query: Any) -> list[str]:
    """Read the texts of the lines of a run that has ended."""
    return [line.text for line in lines(run_dir, **query)]


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    """A run of two attempts and two ranks."""
    put(tmp_path, "1/0.log", "2026-12-01T10:00:00.000Z a\n2026-12-01T10:00:02.000Z c\n")
    put(tmp_path, "1/1.log", "2026-12-01T10:00:01.000Z b\n2026-12-01T10:00:03.000Z d\n")
    put(tmp_path, "2/0.log", "2026-12-01T10:01:00.500Z e\n")
    put(tmp_path, "2/1.log", "2026-12-01T10:01:00.250Z f")
    (tmp_path / "supervisor.log").write_text("2026-12-01T09:59:59.000Z [rlaunch-local] up\n")
    return tmp_path


def test_all_files_by_time(run_dir: Path) -> None:
    """Attempts, ranks and the supervisor are one stream in the order of time."""
    assert texts(run_dir) == ["[rlaunch-local] up", "a", "b", "c", "d", "f", "e"]
    assert lines(run_dir)[1] == LogLine("a", 0, 1, "2026-12-01T10:00:00.000Z")
    assert lines(run_dir)[0][1:3] == (None, None)


def test_one_rank_one_attempt(run_dir: Path) -> None:
    """A rank, an attempt or both can be asked for."""
    assert texts(run_dir, rank=1) == ["b", "d", "f"]
    assert texts(run_dir, attempt=2) == ["f", "e"]
    assert texts(run_dir, attempt=1, rank=0) == ["a", "c"]
    assert texts(run_dir, rank=5) == []


@pytest.mark.parametrize(
    ("since", "count"),
    [
        ("2026-12-01T10:00:03Z", 3),
        ("2026-12-01T10:00:03.000Z", 3),
        ("2026-12-01T11:00:03+01:00", 3),
        ("2026-12-01T10:00:03.001Z", 2),
        ("2026-12-01T10:01:00Z", 2),
        ("2027-01-01T00:00:00Z", 0),
    ],
)
def test_since(run_dir: Path, since: str, count: int) -> None:
    """`since` means from then on, however the time is written."""
    assert len(lines(run_dir, since=since)) == count


def test_a_line_without_a_time_stays_where_it_is(tmp_path: Path) -> None:
    """A line without a time belongs to the one before it, and has no time of its own."""
    put(
        tmp_path,
        "1/0.log",
        "2026-12-01T10:00:00.000Z Traceback\n  File x\nError\n2026-12-01T10:00:09.000Z z\n",
    )
    put(tmp_path, "1/1.log", "2026-12-01T10:00:05.000Z other\n")
    assert texts(tmp_path) == ["Traceback", "  File x", "Error", "other", "z"]
    assert lines(tmp_path)[1].at == ""


def test_bytes_that_are_not_text(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are replaced; carriage returns at the end of a line go."""
    put(
        tmp_path,
        "1/0.log",
        b"2026-12-01T10:00:00.000Z \xff\xfe ok\r\n2026-12-01T10:00:00.000Z \xc3",
    )
    assert texts(tmp_path) == ["\ufffd\ufffd ok", "\ufffd"]


def test_strange_files_are_left_alone(tmp_path: Path) -> None:
    """Only `ATTEMPT/RANK.log` is a rank's log."""
    put(tmp_path, "1/0.log.swp", "no\n")
    put(tmp_path, "x/0.log", "no\n")
    put(tmp_path, "1/a.log", "no\n")
    put(tmp_path, "1/0.log", "yes\n")
    assert texts(tmp_path) == ["yes"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=20), max_size=30
    ),
    st.booleans(),
    st.integers(1, 9),
)
def test_pieces_never_cut_a_line(
    tmp_path_factory: pytest.TempPathFactory, written: list[str], newline: bool, size: int
) -> None:
    """However the file is cut into pieces, the lines come out as they were written."""
    run_dir = tmp_path_factory.mktemp("pieces")
    put(
        run_dir, "1/0.log", "\n".join(f"2026-12-01T10:00:00Z {t}" for t in written) + "\n" * newline
    )
    kept = logs.CHUNK
    logs.CHUNK = size
    try:
        seen = texts(run_dir)
    finally:
        logs.CHUNK = kept
    assert seen == (written if written else [""] * newline)


def test_a_line_without_end_takes_bounded_memory(tmp_path: Path) -> None:
    """A line of 24 MiB comes in pieces, and no more than a few MiB are held at once."""
    put(tmp_path, "1/0.log", b"x" * (24 << 20))
    tracemalloc.start()
    try:
        total = sum(
            len(line.text)
            for line in logs.read(tmp_path, LogQuery(REF), lambda: True, lambda s: None)
        )
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == 24 << 20
    assert peak < 10 << 20


def test_following_takes_what_comes_last(tmp_path: Path) -> None:
    """Following yields what was written before the end was seen, the last line without its newline too."""
    put(tmp_path, "1/0.log", "one\n")
    steps = iter([
        lambda: put(tmp_path, "1/0.log", "one\ntwo\nthr"),
        lambda: put(tmp_path, "1/0.log", "one\ntwo\nthree\n"),
        lambda: put(tmp_path, "2/0.log", "four\nfive"),
    ])  # fmt: skip
    ends = iter([False, False, False, True])
    seen = logs.read(
        tmp_path, LogQuery(REF, follow=True), lambda: next(ends), lambda s: next(steps)()
    )
    assert [line.text for line in seen] == ["one", "two", "three", "four", "five"]


def test_following_asks_for_the_end_before_it_reads(tmp_path: Path) -> None:
    """A line that is written while the end is being asked for is not lost."""
    put(tmp_path, "1/0.log", "one\n")

    def ended() -> bool:
        put(tmp_path, "1/0.log", "one\nlast")
        return True

    seen = logs.read(tmp_path, LogQuery(REF, follow=True), ended, lambda s: None)
    assert [line.text for line in seen] == ["one", "last"]


def test_a_run_that_is_not_here(lab: Any) -> None:
    """The logs of an absent run are an error, not an empty answer."""
    with pytest.raises(ClusterError, match=r"local.absent"):
        lab.lines(JobRef("local", "nobody-00000000"))


def test_following_a_real_run_to_its_end(lab: Any) -> None:
    """A follower that begins before the run has output sees every line of it and then ends by itself."""
    head = (
        "phase('running')\n"
        "for i in range(200):\n    print(f'line {i}', flush=True); time.sleep(0.005)\n"
        "done('succeeded', exit_code=0); sys.stdout.write('last words'); sys.stdout.flush()"
    )
    ref = lab.submit(lab.agents(lab.run(), [head]))
    seen: list[LogLine] = []
    query = LogQuery(ref, follow=True, rank=0)
    reader = threading.Thread(target=lambda: seen.extend(lab.cluster().logs(query)))
    reader.start()
    lab.end(ref)
    began = time.monotonic()
    reader.join(10)
    assert not reader.is_alive()
    assert time.monotonic() - began < 3
    assert [line.text for line in seen] == [*(f"line {i}" for i in range(200)), "last words"]
