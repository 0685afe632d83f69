"""Stopping, and what becomes of a run whose supervisor is signalled; with stand-in agents."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rlaunch.model import JobRef, State
from rlaunch_local import proc, statefile
from rlaunch_local.clearing import clear


def running(status: Any) -> bool:
    """Tell whether a run has got to RUNNING."""
    return bool(status.state is State.RUNNING)


def test_stop(lab: Any) -> None:
    """Stopping ends everything within 5 s, deaf agents too; stopping again is no error."""
    run = lab.run(grace_s=4)
    ref = lab.submit(lab.agents(run, [lab.STUBBORN, lab.STAY]))
    lab.until(ref, running)
    lab.until(ref, lambda s: any(line.text == "deaf" for line in lab.lines(ref)))
    began = time.monotonic()
    lab.cluster().stop(ref)
    assert time.monotonic() - began < 5
    assert not proc.scan(run.id)
    assert not proc.alive(lab.supervisor(run))
    end = lab.status(ref)
    assert (end.state, end.reason) == (State.KILLED, "stopped")
    lab.cluster().stop(ref)
    assert lab.status(ref) == end
    assert ("STOPPING", 1) in lab.history(run)


def test_stop_between_attempts(lab: Any) -> None:
    """A stop that comes before the next attempt keeps it from starting."""
    run = lab.run(max_retries=9)
    script = "done('failed', reason='driver-exit', exit_code=attempt); sys.exit(attempt)"
    ref = lab.submit(lab.agents(run, [script]))
    lab.until(ref, lambda s: s.reason == "retry")
    lab.cluster().stop(ref)
    end = lab.status(ref)
    assert (end.state, end.reason) == (State.KILLED, "stopped")


def test_sigterm_of_the_supervisor(lab: Any) -> None:
    """A supervisor that is told to end takes its gang along: KILLED `terminated`."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [lab.STAY, lab.STAY]))
    lab.until(ref, running)
    proc.signal_process(lab.supervisor(run), signal.SIGTERM)
    end = lab.end(ref)
    assert (end.state, end.reason) == (State.KILLED, "terminated")
    assert not proc.scan(run.id)


def test_a_hang_up_is_nothing(lab: Any) -> None:
    """The end of the terminal does not end the run."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [lab.WIN.replace("0.3", "1"), lab.FOLLOW]))
    lab.until(ref, running)
    proc.signal_process(lab.supervisor(run), signal.SIGHUP)
    assert lab.end(ref).state is State.SUCCEEDED


def test_sigkill_of_the_supervisor(lab: Any) -> None:
    """A supervisor that is gone without a word means FAILED `supervisor-lost`; stop clears what is left."""
    run = lab.run(secrets=("HF_TOKEN",))
    ref = lab.submit(lab.agents(run, [lab.STAY, lab.STAY]), {"HF_TOKEN": "hush"})
    lab.until(ref, running)
    proc.signal_process(lab.supervisor(run), signal.SIGKILL)
    end = lab.end(ref)
    assert (end.state, end.reason) == (State.FAILED, "supervisor-lost")
    assert proc.scan(run.id), "stand-ins do not look at the lifeline"
    assert not Path(run.paths.run_dir, "secrets.json").exists(), (
        "whoever sees the loss removes them"
    )
    temp = Path(lab.profile.temp_root, f"rl-{run.id.rpartition('-')[2]}")
    assert temp.is_dir(), "Ray's directory stays as long as something runs in it"
    lab.cluster().stop(ref)
    assert not proc.scan(run.id)
    assert not temp.exists()
    assert lab.status(ref)[1:3] == (State.FAILED, "supervisor-lost")


def test_whoever_sees_the_loss_clears(lab: Any) -> None:
    """A status that finds the supervisor gone, and no agent left, removes secrets and Ray's directory."""
    run = lab.run(secrets=("HF_TOKEN",))
    told = "phase('running'); os.read(int(sys.argv[2]), 1); sys.exit(71)"
    ref = lab.submit(lab.agents(run, [told]), {"HF_TOKEN": "hush"})
    temp = Path(lab.profile.temp_root, f"rl-{run.id.rpartition('-')[2]}")
    lab.until(ref, running)
    proc.signal_process(lab.supervisor(run), signal.SIGKILL)
    while proc.scan(run.id):
        time.sleep(0.02)
    assert temp.is_dir()
    assert lab.status(ref)[1:3] == (State.FAILED, "supervisor-lost")
    assert not Path(run.paths.run_dir, "secrets.json").exists()
    assert not temp.exists()
    assert lab.history(run)[-1] == ("FAILED", 1), "the end is noted, once"
    assert lab.status(ref)[1:3] == (State.FAILED, "supervisor-lost")
    assert [state for state, _ in lab.history(run)].count("FAILED") == 1


def test_a_garbled_plan_removes_nothing_else(lab: Any, tmp_path: Path) -> None:
    """Only the run's own temporary directory is removed, whatever its plan says."""
    other = tmp_path / "precious"
    other.mkdir()
    run = lab.run()
    clear(Path(run.paths.run_dir), run.id, {"ray_temp": str(other)})
    clear(Path(run.paths.run_dir), run.id, {})
    assert other.is_dir()


def test_the_next_submit_clears_what_a_killed_supervisor_left(lab: Any) -> None:
    """Secrets and Ray's directories of a lost run go with the next submit, once its agents have ended."""
    run = lab.run(secrets=("HF_TOKEN",))
    told = "phase('running'); os.read(int(sys.argv[2]), 1); sys.exit(71)"
    ref = lab.submit(lab.agents(run, [told]), {"HF_TOKEN": "hush"})
    temp = Path(lab.profile.temp_root, f"rl-{run.id.rpartition('-')[2]}")
    lab.until(ref, running)
    assert temp.is_dir()
    proc.signal_process(lab.supervisor(run), signal.SIGKILL)
    while proc.scan(run.id):
        time.sleep(0.02)
    assert Path(run.paths.run_dir, "secrets.json").exists()
    assert lab.end(lab.submit(lab.agents(lab.run(), [lab.WIN]))).state is State.SUCCEEDED
    assert not Path(run.paths.run_dir, "secrets.json").exists()
    assert not temp.exists()
    assert lab.status(ref)[1:3] == (State.FAILED, "supervisor-lost")


def test_the_lifeline_tells_the_agents(lab: Any) -> None:
    """Every agent holds a pipe that reaches its end when the supervisor is gone."""
    run = lab.run()
    script = "phase('running'); os.read(int(sys.argv[2]), 1); phase('told'); sys.exit(71)"
    ref = lab.submit(lab.agents(run, [script, script]))
    lab.until(ref, lambda s: all(r.phase == "running" for r in s.ranks) and len(s.ranks) == 2)
    proc.signal_process(lab.supervisor(run), signal.SIGKILL)
    lab.end(ref)
    meet = Path(run.paths.rendezvous)
    deadline = time.monotonic() + 10
    while [r["phase"] for r in statefile.records(meet, run.id, 1, 2).values()] != ["told", "told"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    lab.cluster().stop(ref)


def test_the_supervisor_is_nobodys_child(lab: Any) -> None:
    """The supervisor has a session of its own, is no child of the launcher, and holds no terminal."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [lab.STAY]))
    lab.until(ref, running)
    row = proc.row(lab.supervisor(run).pid)
    assert row is not None
    assert row.parent != os.getpid()
    assert row.session not in {os.getsid(0), 0}
    assert Path(f"/proc/{row.pid}/fd/0").readlink() == Path("/dev/null")
    own = b"".join(proc.environ(row.pid))
    assert b"RLAUNCH_" not in own
    lab.cluster().stop(ref)


def test_a_run_can_be_followed_from_another_process(lab: Any) -> None:
    """A fresh interpreter that knows only the id sees the state."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [lab.STAY]))
    lab.until(ref, running)
    ask = (
        "import sys, yaml, rlaunch_local\nfrom rlaunch_local.cluster import Local\n"
        "from rlaunch_local.profile import LocalProfile\n"
        "from rlaunch.shell import Shell\nfrom rlaunch.world import SystemClock\n"
        "from rlaunch.model import JobRef\n"
        "p = LocalProfile(**yaml.safe_load(open(rlaunch_local.PROFILES['local'])))\n"
        "ref = JobRef('local', sys.argv[1])\n"
        "print(Local(p, Shell(), SystemClock()).status([ref])[ref].state)\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", ask, run.id], capture_output=True, text=True, check=True, env=env
    )
    assert done.stdout == "RUNNING\n"
    lab.cluster().stop(ref)


def test_two_runs_at_once(lab: Any) -> None:
    """Two runs share no port and no address, and stopping one leaves the other alone."""
    one, two = lab.run("one"), lab.run("two")
    plans = []
    for run in (one, two):
        plan = lab.agents(run, [lab.STAY, lab.STAY])
        plans.append(plan)
        lab.until(lab.submit(plan), running)
    used = [
        {p for r in plan.native["ranks"] for p in (*r["ports"].values(), r["guard"])}
        for plan in plans
    ]
    ips = [{r["ip"] for r in plan.native["ranks"]} for plan in plans]
    assert not used[0] & used[1]
    assert not ips[0] & ips[1]
    lab.cluster().stop(JobRef("local", one.id))
    assert lab.status(JobRef("local", two.id)).state is State.RUNNING
    assert len(proc.scan(two.id)) == 2
    lab.cluster().stop(JobRef("local", two.id))


def test_a_supervisor_that_dies_before_its_submitter_does_not_matter(lab: Any) -> None:
    """A run whose submitting process is gone before the supervisor begins has not started, and does not."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [lab.STAY]))
    lab.until(ref, running)
    lab.cluster().stop(ref)
    run_dir = Path(run.paths.run_dir)
    gone = statefile.read(run_dir)._replace(state=State.PENDING, reason="submitting")
    statefile.write(run_dir, gone)  # its `supervisor` has ended
    assert lab.status(ref)[1:3] == (State.FAILED, "not-started")
    statefile.write(run_dir, gone)
    before = len(lab.history(run))
    subprocess.run(
        [sys.executable, "-m", "rlaunch_local.supervisor", str(run_dir)], check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(1)
    assert len(lab.history(run)) == before
    assert not proc.scan(run.id)
