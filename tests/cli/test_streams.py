"""stdout, stderr, pipes that close, and terminals."""

import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHILD = "import sys; from rlaunch.cli import main; sys.argv[0] = 'rlaunch'; sys.exit(main())"


def environment(home: Path, folder: Path) -> dict[str, str]:
    """The environment of a child that finds the scripted cluster."""
    path = os.pathsep.join((str(ROOT / "core"), str(HERE / "scripted")))
    return {
        **os.environ,
        "HOME": str(home),
        "PYTHONPATH": path,
        "SCRIPTED_DIR": str(folder),
        "TERM": "xterm",
    }


def on_terminal(argv: list[str], env: dict[str, str], answer: bytes = b"") -> tuple[int, str]:
    """Run a command with a terminal as stdin, stdout and stderr; returns exit code and all it showed."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        argv, stdin=follower, stdout=follower, stderr=follower, env=env, cwd=ROOT
    )
    os.close(follower)
    shown = b""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        ready, _, _ = select.select([leader], [], [], 0.2)
        if ready:
            try:
                shown += os.read(leader, 65536)
            except OSError:  # the other side is closed
                break
        if answer and b"[y/N]" in shown:
            os.write(leader, answer)
            answer = b""
    code = process.wait(10)
    os.close(leader)
    return code, shown.decode()


def test_a_reader_that_goes_away_is_no_error(
    home: Path, scripted: Any, rl: Callable[..., Any], launch: Any
):
    """`rlaunch logs … | head -1` ends quietly."""
    run = rl(*launch, "--no-wait", "--json").document["run"]
    scripted.lines(*([f"line {number} {'x' * 200}", 0, 1] for number in range(20_000)))
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, "logs", run],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(home, scripted.folder), cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline().startswith(b"0 | line 0")
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(30) == 141


def test_what_is_piped_has_no_colour_and_is_not_wrapped(
    rl: Callable[..., Any], scripted: Any, launch: Any
):
    """A long line stays a line, an escape never appears; text that is shown is text that is sent."""
    said = rl(*launch, "--dry-run", "--set", f"env.LONG={'x' * 500}")
    assert "x" * 500 in said.out
    assert "\x1b" not in said.out + said.err
    assert "\r" not in said.out + said.err


def test_progress_is_printed_in_lines_where_it_is_piped(
    rl: Callable[..., Any], scripted: Any, launch: Any
):
    """Each step of a submit is a line on stderr."""
    said = rl(*launch, "--no-wait")
    assert "preflight\n" in said.err
    assert "sending\n" in said.err


def test_a_terminal_shows_progress_in_place(home: Path, scripted: Any, launch: Any):
    """Progress is overwritten, and is gone before a line that stays."""
    scripted.states(*[["RUNNING", "", 1, None]] * 6, ["SUCCEEDED", "", 1, 0])
    scripted.lines(["the last line", 0, 1])
    argv = [sys.executable, "-c", CHILD, *launch, "--interval", "0.5"]
    code, shown = on_terminal(argv, environment(home, scripted.folder))
    assert code == 0, shown
    assert "\r\x1b[2KRUNNING 0:01  the last line" in shown
    assert "\r\x1b[2K20" in shown  # cleared before the line of the end
    assert "SUCCEEDED attempt=1 exit=0" in shown


def test_a_level_is_coloured_on_a_terminal_unless_told_otherwise(home: Path, scripted: Any):
    """`NO_COLOR` is honoured."""
    argv = [sys.executable, "-c", CHILD, "status", "nobody"]
    env = environment(home, scripted.folder)
    code, shown = on_terminal(argv, env)
    assert code == 3
    assert "\x1b[31merror\x1b[0m[run.unknown]" in shown
    assert "\x1b" not in on_terminal(argv, {**env, "NO_COLOR": "1"})[1]


HEARS = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
"""A shell that runs the tests in its background has told them, and their children, to ignore Ctrl-C."""


@pytest.mark.parametrize(
    ("flags", "state"),
    [([], "RUNNING"), (["--kill-on-interrupt"], "KILLED")],
    ids=["detach", "kill"],
)
def test_a_real_interrupt_detaches_or_stops(
    home: Path, scripted: Any, launch: Any, flags: list[str], state: str
):
    """SIGINT of the waiting process: 130 and the job goes on, or 1 where it was to be killed."""
    scripted.states(["RUNNING", "", 1, None])
    process = subprocess.Popen(
        [sys.executable, "-c", HEARS + CHILD, *launch, "--interval", "0.1", *flags],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(home, scripted.folder), cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    while "RUNNING" not in (line := process.stdout.readline()):
        assert line, "it ended before it ran"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == (130 if state == "RUNNING" else 1), err
    assert "Traceback" not in err
    assert ("detached" in err) is (state == "RUNNING")
    assert ("KILLED" in out) is (state == "KILLED")
    assert ("stop" in scripted.asked[-1]) is (state == "KILLED")


@pytest.mark.parametrize(("answer", "code", "asked"), [(b"y\n", 0, 2), (b"\n", 3, 1)])
def test_stop_asks_on_a_terminal(
    home: Path,
    scripted: Any,
    rl: Callable[..., Any],
    launch: Any,
    *,
    answer: bytes,
    code: int,
    asked: int,
):
    """`y` stops the job; anything else leaves it."""
    run = rl(*launch, "--no-wait", "--json").document["run"]
    scripted.states(["RUNNING", "", 1, None])
    argv = [sys.executable, "-c", CHILD, "stop", run]
    ended, shown = on_terminal(argv, environment(home, scripted.folder), answer)
    assert ended == code, shown
    assert f"scripted:{run} is RUNNING; stop it? [y/N]" in shown
    assert len(scripted.asked) == asked


def test_a_path_that_is_no_text_does_not_end_a_command(
    home: Path, scripted: Any, rl: Callable[..., Any], launch: Any
):
    """In a locale that lacks a character it is shown as an escape."""
    run = rl(*launch, "--no-wait", "--json").document["run"]
    scripted.lines(["reward → 李", 0, 1])
    env = {
        **environment(home, scripted.folder),
        "LC_ALL": "C",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD, "logs", run],
        capture_output=True,
        env=env,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(b"0 | reward ")


@pytest.mark.parametrize(
    "words", ["runs --json", "explain", "--help", "stop --help", "status x --json"]
)
def test_a_full_disk_is_told_on_stderr(home: Path, scripted: Any, words: str):
    """What cannot be written to stdout is no success and no traceback: exit 3."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, *words.split()],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
            env=environment(home, scripted.folder), cwd=ROOT,
        )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "error[core.output]: stdout cannot be written: No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"), [("clusters", 0), ("status nobody --json", 3), ("--bogus", 64), ("runs", 0)]
)
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_a_closed_stream_changes_nothing_else(
    home: Path, scripted: Any, words: str, code: int, closed: str
):
    """Without stdout or stderr a command does what it does, and opens no file in their place."""
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" -c "$1" {words} {closed}', sys.executable, CHILD],
        capture_output=True, text=True, check=False, env=environment(home, scripted.folder), cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [(["runs"], 0), (["status"], 0), (["status", "scripted:1"], 2), (["--dry-run"], 3)],
)
def test_a_directory_that_was_deleted_is_no_bug(
    home: Path, scripted: Any, launch: Any, tmp_path: Path, *, words: list[str], code: int
):
    """Runs are looked at from anywhere; a launch says that there is no workspace."""
    gone = tmp_path / "gone"
    gone.mkdir()
    typed = [*launch, *words] if words == ["--dry-run"] else words
    script = 'cd "$2" && rmdir "$2" && shift 2 && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", "", str(gone), sys.executable, "-c", CHILD, *typed],
        capture_output=True, text=True, check=False, env=environment(home, scripted.folder), cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert ("error[core.workspace]" in done.stderr) is (code == 3)
