"""The one place that runs commands."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from rlaunch.shell import Shell


def run(code: str, *words: str, **wanted: object) -> tuple[int, str, str]:
    """Run a line of Python."""
    done = Shell().run((sys.executable, "-c", code, *words), **wanted)  # type: ignore[arg-type]
    assert done.argv[-1] == (words[-1] if words else code)
    return done.code, done.out, done.err


def test_both_streams_and_the_code_come_back():
    """What a command printed and how it ended is given back; nothing is raised for it."""
    code = "import sys; print('a'); sys.stderr.write('b'); sys.exit(7)"
    assert run(code) == (7, "a\n", "b")


def test_input_reaches_the_command_and_none_is_an_empty_one():
    """Standard input is the text that was given; without it the command reads nothing, and does not wait."""
    code = "import sys; print(repr(sys.stdin.read()))"
    assert run(code, stdin="é\n" * 100_000)[1] == repr("é\n" * 100_000) + "\n"
    assert run(code)[1] == "''\n"


def test_a_signal_is_a_negative_code():
    """A command that a signal ended has minus its number as code."""
    assert run("import os; os.kill(os.getpid(), 9)") == (-9, "", "")


def test_bytes_that_are_no_text_are_replaced():
    """Output that is not UTF-8 is no fault of the command."""
    assert run("import os; os.write(1, b'a\\xffb')") == (0, "a\ufffdb", "")


def test_a_command_that_hangs_is_ended():
    """After the time-out the code is 124, with what was printed so far."""
    begin = time.monotonic()
    code = "import time; print('so far', flush=True); time.sleep(60)"
    assert run(code, timeout=2) == (124, "so far\n", "")
    assert time.monotonic() - begin < 30


def test_a_command_that_hangs_behind_closed_outputs_is_ended():
    """A command that closed its outputs, and goes on, is ended at the time-out as well."""
    begin = time.monotonic()
    assert run("import os, time; os.close(1); os.close(2); time.sleep(60)", timeout=2)[0] == 124
    assert time.monotonic() - begin < 30


def test_a_child_of_the_command_does_not_keep_us(tmp_path: Path):
    """A grandchild that holds the output open past the time-out is not waited for."""
    code = (
        "import subprocess, sys; c = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(20)']);"
        f"open({str(tmp_path / 'pid')!r}, 'w').write(str(c.pid)); c.wait()"
    )
    begin = time.monotonic()
    assert run(code, timeout=2)[0] == 124
    assert time.monotonic() - begin < 15
    os.kill(int((tmp_path / "pid").read_text()), 9)


def test_what_cannot_be_started_has_a_code(tmp_path: Path):
    """A missing program is 127 and one that is not executable 126, as in a shell."""
    assert Shell().run(("there-is-no-such-program",)).code == 127
    (tmp_path / "text").write_text("")
    assert Shell().run((str(tmp_path / "text"),)).code == 126


def test_no_handle_is_left_open():
    """Commands, ended or cut off, leave no handle of ours open."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        Shell().run(("true",))
        Shell().run(("sleep", "9"), timeout=0.01)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize(
    "error", [OSError(38, "Function not implemented"), AttributeError("pidfd_open")]
)
def test_an_old_kernel_waits_as_well(error: Exception, monkeypatch: pytest.MonkeyPatch):
    """Where no handle of a process can be had, commands end and are cut off as everywhere."""

    def refuse(pid: int) -> int:
        raise error

    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert run("print(1)") == (0, "1\n", "")
    assert run("import time; time.sleep(60)", timeout=1)[0] == 124


def test_a_parent_that_ignores_its_children_does_no_harm():
    """With SIGCHLD ignored, as some parents leave it, the system reaps children: the command still ends."""
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run("print(1)")[1] == "1\n"
    finally:
        signal.signal(signal.SIGCHLD, before)
