"""`logs --to DIR`: a file per attempt and rank, and a second call that goes on."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlaunch.cli import storing
from rlaunch.model import LogLine

Rl = Callable[..., Any]
AT = "2026-01-01T00:00:01Z"
LINES = (("head up", 0, 1), ("worker up", 1, 1), ("no rank", None, 2), ("again", 0, 2))


@pytest.fixture
def job(rl: Rl, scripted: Any, launch: tuple[str, ...]) -> str:
    """A submitted run's id."""
    run: str = json.loads(rl(*launch, "--no-wait", "--json").out)["run"]
    return run


def files(folder: Path) -> dict[str, list[str]]:
    """Return the lines of every log file below a folder."""
    paths = sorted(folder.rglob("*.log"))
    return {str(path.relative_to(folder)): path.read_text().splitlines() for path in paths}


def rank0(count: int, start: int = 0) -> list[LogLine]:
    """Lines of one rank's first attempt, all of the same text but for a number now and then."""
    return [LogLine(f"step {n // 3}", 0, 1) for n in range(start, count)]


def texts(folder: Path) -> list[str]:
    """Return what that rank's file has."""
    return (folder / "attempt-1" / "rank-0.log").read_text().splitlines()


def test_each_attempt_and_rank_has_its_file(rl: Rl, scripted: Any, job: str, tmp_path: Path):
    """The directory is made; each line has its time first; what was written is said."""
    scripted.lines(*LINES)
    said = rl("logs", job, "--to", str(tmp_path / "a" / "b"))
    assert files(tmp_path / "a" / "b") == {
        "attempt-1/rank-0.log": [f"{AT} head up"],
        "attempt-1/rank-1.log": [f"{AT} worker up"],
        "attempt-2/job.log": [f"{AT} no rank"],
        "attempt-2/rank-0.log": [f"{AT} again"],
    }
    assert "attempt-1/rank-0.log 1 new lines" in said.out


def test_a_second_call_goes_on(rl: Rl, scripted: Any, job: str, tmp_path: Path):
    """What stands there stays and is not written twice; new lines and new attempts are added."""
    scripted.lines(*LINES[:2])
    rl("logs", job, "--to", str(tmp_path / "x"))
    scripted.lines(*LINES[:2], ("head up", 0, 1), *LINES[2:])
    said = rl("logs", job, "--to", str(tmp_path / "x"))
    found = files(tmp_path / "x")
    assert found["attempt-1/rank-0.log"] == [f"{AT} head up"] * 2
    assert found["attempt-1/rank-1.log"] == [f"{AT} worker up"]
    assert found["attempt-2/rank-0.log"] == [f"{AT} again"]
    assert "attempt-1/rank-1.log 0 new lines" in said.out


def test_another_runs_directory_is_refused(rl: Rl, scripted: Any, job: str, tmp_path: Path):
    """Lines of two runs never meet in one file."""
    scripted.lines(*LINES)
    with storing.opened(str(tmp_path / "x"), "scripted:other", None):
        pass
    said = rl("logs", job, "--to", str(tmp_path / "x"))
    assert said.code == 3
    assert "error[logs.directory]" in said.err
    assert "`scripted:other`" in said.err
    assert files(tmp_path / "x") == {}


def test_one_rlaunch_writes_at_a_time(rl: Rl, scripted: Any, job: str, tmp_path: Path):
    """A call that meets another one in the directory leaves it alone."""
    scripted.lines(*LINES)
    with storing.opened(str(tmp_path), f"scripted:{job}", None):
        said = rl("logs", job, "--to", str(tmp_path))
    assert (said.code, files(tmp_path)) == (3, {})
    assert "another rlaunch writes there" in said.err


def test_a_directory_keeps_the_moment_it_began_with(tmp_path: Path):
    """A later `--since` would leave a gap, an earlier one would put old lines behind new ones."""
    for given in (AT, None, "2027-01-01T00:00:00Z"):
        with storing.opened(str(tmp_path), "c:1", given) as begun:
            assert begun == AT


@pytest.mark.parametrize("kept", [0, 1, 17, 18, 400])
def test_any_cut_is_continued(tmp_path: Path, kept: int):
    """Wherever a kill cut the file, in a line or between two, the result is the whole log."""
    storing.store(rank0(60), str(tmp_path))
    path = tmp_path / "attempt-1" / "rank-0.log"
    path.write_bytes(path.read_bytes()[:kept])
    storing.store(rank0(90), str(tmp_path))
    assert texts(tmp_path) == [line.text for line in rank0(90)]


def test_a_line_that_was_not_finished_is_finished(tmp_path: Path):
    """The last line of a running job may be half of one; it is not kept beside the whole one."""
    storing.store([*rank0(3), LogLine("loss 0.", 0, 1)], str(tmp_path))
    storing.store([*rank0(3), LogLine("loss 0.25", 0, 1), LogLine("end", 0, 1)], str(tmp_path))
    assert texts(tmp_path) == [*(line.text for line in rank0(3)), "loss 0.25", "end"]


def test_what_the_cluster_has_lost_stays(tmp_path: Path):
    """Lines that stand there and that the cluster no longer has are kept, and nothing is doubled."""
    whole = [LogLine(f"line {n}", 0, 1) for n in range(40)]
    storing.store(whole[:30], str(tmp_path))
    storing.store(whole[20:], str(tmp_path))
    assert texts(tmp_path) == [line.text for line in whole]


def test_a_line_that_came_late_is_added_once(tmp_path: Path):
    """It stands behind those that were there before it."""
    whole = [LogLine(f"line {n}", 0, 1) for n in range(10)]
    storing.store([*whole[:4], *whole[5:]], str(tmp_path))
    storing.store(whole, str(tmp_path))
    storing.store(whole, str(tmp_path))
    assert texts(tmp_path) == [f"line {n}" for n in (0, 1, 2, 3, 5, 6, 7, 8, 9, 4)]


KILLED = """
import os, signal, sys
from rlaunch.cli import storing
from rlaunch.model import LogLine
def lines():
    for n in range(50000):
        if n == 30011:
            os.kill(os.getpid(), signal.SIGKILL)
        yield LogLine(f"line {n}", n % 2, 1)
storing.store(lines(), sys.argv[1])
"""


def test_a_killed_call_is_continued(tmp_path: Path):
    """SIGKILL in the middle loses and doubles nothing."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL
    before = files(tmp_path)
    assert 0 < len(before["attempt-1/rank-0.log"]) < 15006
    storing.store((LogLine(f"line {n}", n % 2, 1) for n in range(50000)), str(tmp_path))
    for rank in (0, 1):
        wanted = [f"line {n}" for n in range(rank, 50000, 2)]
        assert files(tmp_path)[f"attempt-1/rank-{rank}.log"] == wanted
