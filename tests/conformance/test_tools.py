"""The kit's own tools: fakes, golden files, the probe."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from rlaunch.shell import Done, Shell
from rlaunch.testing import probe
from rlaunch.testing.fakes import FakeClock, FakeQueue, FakeShell
from rlaunch.testing.golden import Golden

pytest_plugins = ["pytester"]


def test_clock_moves_by_sleep_alone() -> None:
    """A fake clock stands still until it sleeps, and a wrong one is wrong in `now` only."""
    clock = FakeClock("2026-01-02T03:04:05Z", skew=3600)
    assert clock.now() == clock.now() == "2026-01-02T04:04:05.000Z"
    clock.sleep(1.5)
    assert (clock.now(), clock.monotonic()) == ("2026-01-02T04:04:06.500Z", 1.5)


def test_shell_without_an_answer_fails() -> None:
    """A command that nobody taught the fake shell is a fault of the test, and every call is kept."""
    shell = FakeShell(lambda argv, stdin: Done(argv, 0, "yes", "") if argv == ("a",) else None)
    assert shell.run(["a"]).out == "yes"
    with pytest.raises(AssertionError, match="nobody answers `b c`"):
        shell.run(["b", "c"])
    assert shell.calls == [("a",), ("b", "c")]


def test_spoiled_shell_answers_rubbish_only() -> None:
    """Once spoiled, the shell gives every command the same rubbish."""
    shell = FakeShell(lambda argv, stdin: Done(argv, 0, "yes", ""))
    shell.spoiled = Done((), 124, "", "")
    assert shell.run(["a"]) == Done(("a",), 124, "", "")


def test_queue_does_not_know_strangers() -> None:
    """The fake queue has no line for a job that it does not know, and code 4 for its log."""
    queue = FakeQueue()
    known = queue.put("RUN")
    shown = queue.answer(("queue", "show", known, "7"), None)
    assert shown is not None
    assert shown.out == f"{known} RUN -\n"
    log = queue.answer(("queue", "log", "7"), None)
    assert log is not None
    assert log.code == 4


def test_probe_tells_what_it_got() -> None:
    """The probe tells argument and variable by hash, says nothing of others, and exits as told."""
    argv = probe.command(sys.executable, "5", ["A", "B"], ["x y", ""])
    done = Shell().run(argv, env={"A": "1", "C": "hidden"})
    (told,) = probe.read(done.out.splitlines())
    assert done.code == 5
    assert told.argv == (probe.digest("x y"), probe.digest(""))
    assert told.env == {"A": (probe.digest("1"),), "B": ()}
    assert "hidden" not in done.out


def test_probe_is_not_its_own_command_line() -> None:
    """A log that shows the probe's command has no line of the probe in it."""
    assert probe.read(probe.command("python", "0", [], [])[2].splitlines()) == []


def test_golden_file_must_exist(tmp_path: Path) -> None:
    """A golden file that is missing is a failure, not a first version."""
    with pytest.raises(AssertionError, match=r"no golden file `a\.txt`"):
        Golden(update=False).check(tmp_path, "a.txt", "text")


def test_golden_file_is_compared_whole(tmp_path: Path) -> None:
    """A change is shown as a difference; the same text passes; updating writes."""
    Golden(update=True).check(tmp_path, "a.txt", "one\ntwo\n")
    Golden(update=False).check(tmp_path, "a.txt", "one\ntwo\n")
    with pytest.raises(AssertionError, match=r"(?s)-two.*\+three"):
        Golden(update=False).check(tmp_path, "a.txt", "one\nthree\n")


ORPHAN = """\
def test_one(golden):
    golden("one.txt", "1")
"""


@pytest.mark.parametrize("extra", ["", "two.txt"])
def test_unused_golden_file_fails_the_run(pytester: pytest.Pytester, extra: str) -> None:
    """A whole, green run that leaves a golden file unused fails, and names it."""
    pytester.makeconftest('pytest_plugins = ["rlaunch.testing.plugin"]')
    pytester.makepyfile(test_one=ORPHAN)
    folder = pytester.mkdir("golden")
    (folder / "one.txt").write_text("1")
    if extra:
        (folder / extra).write_text("2")
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    assert done.ret == (1 if extra else 0)
    assert ("no test asks for" in done.stdout.str()) is bool(extra)
