"""A run record that is corrupt, locked or cannot be made costs a warning and never a launch."""

import multiprocessing
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rlaunch import runs
from rlaunch.runs import Runs

from .test_runs import NOW, make_document


def _meet(path: str, number: int, barrier: Any, answers: Any) -> None:
    """One of several processes that find the record corrupt."""
    record = Runs(path)
    barrier.wait()
    record.intend(make_document(f"own-{number}", f"own-{number}"), NOW)
    answers.put([finding.code for finding in record.findings])


def test_several_processes_that_find_it_corrupt_move_it_once(tmp_path: Path):
    """One moves the file and says so; nobody moves the new one, and every run is in it."""
    path = tmp_path / "runs.sqlite"
    path.write_bytes(b"not a database " * 100)
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(4), context.Queue()
    processes = [
        context.Process(target=_meet, args=(str(path), n, barrier, answers)) for n in range(4)
    ]
    for process in processes:
        process.start()
    said = [answers.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
    assert sorted(said) == [[], [], [], ["core.run-record-corrupt"]]
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 1
    assert len(Runs(str(path)).list()) == 4


def test_a_second_corrupt_record_does_not_replace_the_first(tmp_path: Path):
    """Every file that was moved aside is kept."""
    path = tmp_path / "runs.sqlite"
    for _ in range(2):
        path.write_bytes(b"not a database " * 100)
        Runs(str(path)).list()
    assert len(list(tmp_path.glob("*.corrupt-*"))) == 2


def test_a_process_that_is_killed_leaves_a_sound_record(tmp_path: Path):
    """SIGKILL in the middle of a transaction loses that transaction and nothing else."""
    path = tmp_path / "runs.sqlite"
    Runs(str(path)).intend(make_document(), NOW)
    code = (
        "import os, sqlite3, sys; b = sqlite3.connect(sys.argv[1], isolation_level=None); "
        "b.execute('BEGIN IMMEDIATE'); b.execute('DELETE FROM runs'); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert done.returncode == -9
    record = Runs(str(path))
    assert record.find("r-1") is not None
    record.intend(make_document("r-3", "other"), NOW)
    assert record.findings == []


def test_a_corrupt_record_is_moved_aside(tmp_path: Path):
    """The launch is recorded in a new file, the old bytes are kept, and a warning says where."""
    path = tmp_path / "runs.sqlite"
    path.write_bytes(b"this is no database, and it is long enough to be noticed " * 40)
    record = Runs(str(path))
    record.intend(make_document(), NOW)
    assert record.find("r-1") is not None
    (finding,) = record.findings
    assert (finding.level, finding.code) == ("warning", "core.run-record-corrupt")
    assert Path(finding.place).read_bytes().startswith(b"this is no database")


def test_a_record_with_damaged_pages_is_moved_aside(tmp_path: Path):
    """Damage inside a file that begins like a database is noticed when it is met."""
    path = tmp_path / "runs.sqlite"
    record = Runs(str(path))
    for number in range(50):
        record.intend(make_document(f"r-{number}", f"r-{number}"), NOW)
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(bytes(data))
    assert record.list() == ()
    assert record.findings[0].code == "core.run-record-corrupt"
    record.intend(make_document("r-new", "new"), NOW)
    assert [row.run_id for row in record.list()] == ["r-new"]


def test_a_locked_record_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Another process that holds the file costs a few seconds and a warning, not the launch."""
    monkeypatch.setattr(runs, "BUSY_S", 0.2)
    record = Runs(str(tmp_path / "runs.sqlite"))
    record.intend(make_document(), NOW)
    other = sqlite3.connect(record.path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    record.intend(make_document("r-2", "r2"), NOW)
    assert record.find("r-2") is None
    other.close()
    assert {f.code for f in record.findings} == {"core.run-record-locked"}
    assert record.find("r-1") is not None


def test_a_record_that_cannot_be_made_is_skipped(tmp_path: Path):
    """A state directory that is a file, for instance, gives a warning."""
    (tmp_path / "state").write_text("")
    record = Runs(str(tmp_path / "state" / "runs.sqlite"))
    record.intend(make_document(), NOW)
    (finding,) = record.findings
    assert (finding.level, finding.code) == ("warning", "core.run-record-unusable")
    assert "cannot be written, so this is not recorded" in finding.message
