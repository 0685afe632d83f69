"""Processes: identity, zombies, exact signals, exact sweeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest

from rlaunch_local import proc
from rlaunch_local.status import Pulse


def wait_until_zombie(child: subprocess.Popen[bytes]) -> None:
    """Wait for the end of a child without collecting it."""
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)


def test_this_process_is_alive() -> None:
    """The identity of a live process is found and stays the same."""
    me = proc.identify(os.getpid())
    assert proc.alive(me)
    assert proc.identify(os.getpid()) == me
    assert me is not None
    assert me.boot


def test_nobody() -> None:
    """No process, and a pid that nobody has, are not alive and take no signal."""
    nobody = proc.Process(2**22 - 1, 1, "")
    assert not proc.alive(None)
    assert not proc.alive(nobody)
    assert not proc.signal_process(None, signal.SIGTERM)
    assert not proc.signal_process(nobody, signal.SIGTERM)


def test_a_zombie_is_dead() -> None:
    """A process that has ended and was not collected is not alive, to the pulse neither."""
    child = subprocess.Popen(["/bin/sleep", "300"])
    seen = proc.identify(child.pid)
    pulse = Pulse(seen)
    assert pulse.beats()
    child.kill()
    wait_until_zombie(child)
    assert not pulse.beats()
    assert not proc.alive(seen)
    assert proc.identify(child.pid) is None
    assert not Pulse(seen).beats()
    pulse.close()
    child.wait()


def test_a_signal_hits_only_the_very_process() -> None:
    """A process with the same pid and another start gets no signal."""
    child = subprocess.Popen(["/bin/sleep", "300"])
    seen = proc.identify(child.pid)
    assert seen is not None
    assert not proc.signal_process(seen._replace(started=seen.started - 1), signal.SIGKILL)
    assert child.poll() is None
    assert proc.signal_process(seen, signal.SIGKILL)
    assert child.wait() == -signal.SIGKILL


def test_a_name_with_blanks_and_parentheses(tmp_path: Any) -> None:
    """A program whose name looks like a line of the process table is read right."""
    odd = tmp_path / "a) R 1 (b"
    odd.symlink_to("/bin/sleep")
    child = subprocess.Popen([str(odd), "300"])
    time.sleep(0.2)
    found = proc.row(child.pid)
    child.kill()
    child.wait()
    assert found is not None
    assert (found.pid, found.parent) == (child.pid, os.getpid())


@pytest.mark.parametrize(("run", "attempt"), [("x-1", None), ("x-1", 2)])
def test_a_sweep_is_exact(run: str, attempt: int | None) -> None:
    """A sweep kills what names exactly this run (and attempt), and those below it; nobody else."""
    marks = {"ours": ("x-1", "2"), "other run": ("x-11", "2"), "shorter": ("x-", "2")}
    marks |= {"other attempt": ("x-1", "22")} if attempt else {}
    shell = (
        "import subprocess, time; subprocess.Popen(['/bin/sleep', '300'], env={}); time.sleep(300)"
    )
    children = {
        who: subprocess.Popen(
            [sys.executable, "-c", shell], start_new_session=True,
            env={"RLAUNCH_RUN_ID": mark, "RLAUNCH_ATTEMPT": number},
        )
        for who, (mark, number) in marks.items()
    }  # fmt: skip
    try:
        deadline = time.monotonic() + 20
        while len(proc.scan(run, attempt)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert proc.sweep(run, attempt) == 2
        assert children["ours"].wait(5) == -signal.SIGKILL
        assert not proc.scan(run, attempt)
        assert [who for who, c in children.items() if c.poll() is None] == [
            w for w in marks if w != "ours"
        ]
    finally:
        for child in children.values():
            proc.kill_group(child.pid)
            child.wait()


def test_a_caller_in_the_run_is_spared() -> None:
    """Who asks for the sweep is not swept, though it carries the run's id (`rlaunch stop` inside a job)."""
    ask = "from rlaunch_local import proc; print(proc.sweep('me-1'))"
    env = {"RLAUNCH_RUN_ID": "me-1", "PYTHONPATH": os.pathsep.join(sys.path)}
    argv = [sys.executable, "-c", ask]
    done = subprocess.run(
        argv, env=env, stdout=subprocess.PIPE, text=True, start_new_session=True, check=True
    )
    assert done.stdout == "0\n"


def test_a_command_line_is_found() -> None:
    """A process is found by the exact end of its command line, and by nothing shorter."""
    child = subprocess.Popen(["/bin/sleep", "300", "1234567890"], start_new_session=True)
    try:
        deadline = time.monotonic() + 5
        while proc.find(["300", "1234567890"]) != proc.identify(child.pid):
            assert time.monotonic() < deadline
        assert proc.find(["300", "123456789"]) is None
        assert proc.find(["00", "1234567890"]) is None
    finally:
        child.kill()
        child.wait()
