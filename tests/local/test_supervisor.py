"""The supervisor's part, with stand-in agents: real processes that follow the agent's protocol, no Ray."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rlaunch.model import JobRef, State
from rlaunch_local import proc, statefile

WIN = "phase('running'); time.sleep(0.3); done('succeeded', exit_code=0)"
FOLLOW = "while not (meet / 'ray_head.done').exists(): time.sleep(0.02)"
STAY = "phase('running'); time.sleep(300)"
DEAF = "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True)"
STUBBORN = f"{DEAF}; phase('running'); time.sleep(300)"
SEVEN = (
    "done('failed', reason='driver-exit', exit_code=7, detail='the driver exited 7'); sys.exit(7)"
)


def history(run_dir: str) -> list[tuple[str, int]]:
    """Return state and attempt of every line of a run's history."""
    lines = Path(run_dir, "history.jsonl").read_text(encoding="utf-8").splitlines()
    return [(d["state"], d["attempt"]) for d in map(json.loads, lines)]


def running(status: Any) -> bool:
    """Tell whether a run has got to RUNNING."""
    return bool(status.state is State.RUNNING)


def supervisor(run: Any) -> proc.Process:
    """Return the identity of a run's supervisor."""
    found = statefile.read(Path(run.paths.run_dir)).supervisor
    assert found is not None
    return found


def test_a_gang_that_succeeds(lab: Any) -> None:
    """Two agents that end with 0 after the outcome are SUCCEEDED, by way of STARTING and RUNNING."""
    run = lab.run()
    end = lab.end(lab.submit(lab.agents(run, [WIN, FOLLOW])))
    assert (end.state, end.reason, end.exit_code, end.attempt) == (
        State.SUCCEEDED,
        "",
        0,
        1,
    )
    assert [(r.rank, r.exit_code) for r in end.ranks] == [(0, 0), (1, 0)]
    states = [state for state, _ in history(run.paths.run_dir)]
    assert states == ["PENDING", "PENDING", "STARTING", "RUNNING", "SUCCEEDED"]


def test_the_drivers_exit_code_is_kept(lab: Any) -> None:
    """A driver that exits 7 makes the run FAILED with reason `driver-exit` and exit code 7."""
    end = lab.end(lab.submit(lab.agents(lab.run(), [SEVEN, f"{FOLLOW}\nsys.exit(7)"])))
    assert (end.state, end.reason, end.exit_code) == (State.FAILED, "driver-exit", 7)
    assert end.native["detail"] == "the driver exited 7"


@pytest.mark.parametrize(
    ("victim", "state", "reason"),
    [(0, State.FAILED, "head-lost"), (1, State.WORKER_FAILED, "worker-lost")],
)
def test_a_killed_agent_is_named(lab: Any, victim: int, state: State, reason: str) -> None:
    """An agent that is killed ends the gang; its rank and signal are named and the others are ended."""
    ref = lab.submit(lab.agents(lab.run(settle_s=0.2), [STAY, STAY]))
    seen = lab.until(ref, running)
    agents = statefile.read(Path(seen.native["run_dir"])).agents
    proc.signal_process(agents[victim].process, signal.SIGKILL)
    end = lab.end(ref)
    assert (end.state, end.reason) == (state, reason)
    assert end.native["detail"] == f"agent-killed: rank {victim} by SIGKILL"
    assert end.ranks[1 - victim].signal == signal.SIGTERM


def test_a_deaf_agent_is_killed_at_grace(lab: Any) -> None:
    """An agent that ignores SIGTERM is killed when the grace is over, and not before."""
    ref = lab.submit(
        lab.agents(lab.run(grace_s=2.5, settle_s=0.1), [STUBBORN, "time.sleep(0.5); sys.exit(3)"])
    )
    end = lab.end(ref)
    assert end.ranks[0].signal == signal.SIGKILL
    assert (end.state, end.reason) == (State.WORKER_FAILED, "worker-lost")
    assert "exited with code 3" in end.native["detail"]
    ends = [line.at for line in lab.lines(ref) if "agent ended" in line.text]
    assert len(ends) == 2


def test_the_sweep_takes_this_run_and_spares_others(lab: Any) -> None:
    """What a killed agent leaves behind is ended; a process of another run, attempt or nobody is not."""
    run = lab.run(settle_s=0.1)
    orphan = (
        "import subprocess\nsubprocess.Popen(['/bin/sleep', '300'], start_new_session=True)\n"
        "subprocess.Popen(['/bin/sleep', '300'], env={})\nphase('running')\ntime.sleep(300)"
    )
    others = [
        subprocess.Popen(
            ["/bin/sleep", "300"], env={"RLAUNCH_RUN_ID": mark, "RLAUNCH_ATTEMPT": number}
        )
        for mark, number in ((f"{run.id}x", "1"), (run.id[:-1], "1"), ("", ""))
    ]
    try:
        ref = lab.submit(lab.agents(run, [STAY, orphan]))
        lab.until(ref, running)
        lab.until(ref, lambda s: len(proc.scan(run.id, 1)) == 4)
        worker = statefile.read(Path(run.paths.run_dir)).agents[1].process
        session = {worker.pid}
        assert len(proc.scan(run.id, 1, session)) == 4
        proc.signal_process(worker, signal.SIGKILL)
        assert lab.end(ref).state is State.WORKER_FAILED
        assert not proc.scan(run.id, None, session)
        assert all(other.poll() is None for other in others)
    finally:
        for other in others:
            other.kill()
            other.wait()


def test_a_retry_is_a_new_attempt(lab: Any) -> None:
    """A failed attempt is followed by the next number, which can succeed."""
    run = lab.run(max_retries=2)
    head = f"if attempt == 1:\n    {SEVEN}\n{WIN}"
    ref = lab.submit(lab.agents(run, [head, "if attempt == 1: sys.exit(7)\ntime.sleep(0.6)"]))
    end = lab.end(ref)
    assert (end.state, end.attempt, end.exit_code) == (State.SUCCEEDED, 2, 0)
    assert history(run.paths.run_dir)[2:] == [
        ("STARTING", 1), ("STARTING", 2), ("STARTING", 2), ("RUNNING", 2), ("SUCCEEDED", 2),
    ]  # fmt: skip


def test_the_same_failure_twice_ends_the_retries(lab: Any) -> None:
    """Two attempts that fail in the same way are the last ones, and the detail says why."""
    ref = lab.submit(lab.agents(lab.run(max_retries=5), [SEVEN]))
    end = lab.end(ref)
    assert (end.state, end.reason, end.exit_code, end.attempt) == (
        State.FAILED,
        "driver-exit",
        7,
        2,
    )
    assert "failed the same way twice" in end.native["detail"]


def test_another_failure_goes_on(lab: Any) -> None:
    """Attempts that fail differently use up all retries."""
    script = "done('failed', reason='driver-exit', exit_code=attempt); sys.exit(attempt)"
    end = lab.end(lab.submit(lab.agents(lab.run(max_retries=2), [script])))
    assert (end.exit_code, end.attempt) == (3, 3)


def test_an_outcome_of_an_earlier_attempt_is_not_believed(lab: Any) -> None:
    """A failure that attempt 1 published is not the reason of attempt 2."""
    script = f"if attempt == 1:\n    {SEVEN}\nsys.exit(9)"
    end = lab.end(lab.submit(lab.agents(lab.run(max_retries=1), [script])))
    assert (end.attempt, end.reason, end.exit_code) == (2, "head-lost", None)
    assert end.native["detail"] == "rank 0: its agent exited with code 9"


def test_a_rank_says_why_it_ended(lab: Any) -> None:
    """Without an outcome the reason is the one that the first failed rank recorded."""
    script = (
        "phase('ended', exit_code=65, reason='staging-failed', detail='no such data'); sys.exit(65)"
    )
    end = lab.end(lab.submit(lab.agents(lab.run(settle_s=0.1), [STAY, script])))
    assert (end.state, end.reason) == (State.FAILED, "staging-failed")
    assert end.native["detail"] == "rank 1: no such data"


def test_an_end_without_an_outcome_is_a_failure(lab: Any) -> None:
    """Agents that all exit 0 without an outcome have not succeeded."""
    end = lab.end(lab.submit(lab.agents(lab.run(), ["pass", "pass"])))
    assert (end.state, end.reason) == (State.FAILED, "no-outcome")


def test_one_silent_leaver_ends_the_gang(lab: Any) -> None:
    """A rank that exits 0 before the outcome ends the gang too: it is not there any more."""
    end = lab.end(lab.submit(lab.agents(lab.run(settle_s=0.1), [STAY, ["/bin/true"]])))
    assert (end.state, end.reason) == (State.FAILED, "no-outcome")
    assert end.native["detail"] == "ranks ended without an outcome: 1"


def test_trouble_after_success_changes_nothing(lab: Any) -> None:
    """A run whose outcome says succeeded is SUCCEEDED, whatever its agents end with."""
    win = "phase('running'); done('succeeded', exit_code=0); os.kill(os.getpid(), signal.SIGKILL)"
    end = lab.end(lab.submit(lab.agents(lab.run(farewell_s=0.2, settle_s=0.2), [win, STAY])))
    assert (end.state, end.exit_code) == (State.SUCCEEDED, 0)


def test_an_agent_that_cannot_be_started(lab: Any) -> None:
    """A program that does not exist is named as the reason, in the state and in that rank's log."""
    ref = lab.submit(lab.agents(lab.run(settle_s=0.1), [STAY, ["/no/such/python", "x"]]))
    end = lab.end(ref)
    assert (end.state, end.reason) == (State.WORKER_FAILED, "worker-lost")
    assert "`/no/such/python` cannot be started: No such file or directory" in end.native["detail"]
    assert any("cannot be started" in line.text for line in lab.lines(ref, rank=1))


def test_the_time_limit(lab: Any) -> None:
    """A run that reaches its time limit is FAILED with reason `timeout`, and is not tried again."""
    end = lab.end(lab.submit(lab.agents(lab.run(timeout_s=1, max_retries=3), [STAY, STAY])))
    assert (end.state, end.reason, end.attempt) == (State.FAILED, "timeout", 1)


def test_stop(lab: Any) -> None:
    """Stopping ends everything within 5 s, deaf agents too; stopping again is no error."""
    run = lab.run(grace_s=4)
    ref = lab.submit(lab.agents(run, [STUBBORN, STAY]))
    lab.until(ref, running)
    lab.until(ref, lambda s: any(line.text == "deaf" for line in lab.lines(ref)))
    began = time.monotonic()
    lab.cluster().stop(ref)
    assert time.monotonic() - began < 5
    assert not proc.scan(run.id)
    assert not proc.alive(supervisor(run))
    end = lab.status(ref)
    assert (end.state, end.reason) == (State.KILLED, "stopped")
    lab.cluster().stop(ref)
    assert lab.status(ref) == end
    assert ("STOPPING", 1) in history(run.paths.run_dir)


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
    ref = lab.submit(lab.agents(run, [STAY, STAY]))
    lab.until(ref, running)
    proc.signal_process(supervisor(run), signal.SIGTERM)
    end = lab.end(ref)
    assert (end.state, end.reason) == (State.KILLED, "terminated")
    assert not proc.scan(run.id)


def test_a_hang_up_is_nothing(lab: Any) -> None:
    """The end of the terminal does not end the run."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [WIN.replace("0.3", "1"), FOLLOW]))
    lab.until(ref, running)
    proc.signal_process(supervisor(run), signal.SIGHUP)
    assert lab.end(ref).state is State.SUCCEEDED


def test_sigkill_of_the_supervisor(lab: Any) -> None:
    """A supervisor that is gone without a word means FAILED `supervisor-lost`; stop clears what is left."""
    run = lab.run(secrets=("HF_TOKEN",))
    ref = lab.submit(lab.agents(run, [STAY, STAY]), {"HF_TOKEN": "hush"})
    lab.until(ref, running)
    proc.signal_process(supervisor(run), signal.SIGKILL)
    end = lab.end(ref)
    assert (end.state, end.reason) == (State.FAILED, "supervisor-lost")
    assert proc.scan(run.id), "stand-ins do not look at the lifeline"
    lab.cluster().stop(ref)
    assert not proc.scan(run.id)
    assert not Path(run.paths.run_dir, "secrets.json").exists()
    assert lab.status(ref)[1:3] == (State.FAILED, "supervisor-lost")


def test_the_next_submit_clears_what_a_killed_supervisor_left(lab: Any) -> None:
    """Secrets and Ray's directories of a lost run go with the next submit, once its agents have ended."""
    run = lab.run(secrets=("HF_TOKEN",))
    told = "phase('running'); os.read(int(sys.argv[2]), 1); sys.exit(71)"
    ref = lab.submit(lab.agents(run, [told]), {"HF_TOKEN": "hush"})
    temp = Path(lab.profile.temp_root, f"rl-{run.id.rpartition('-')[2]}")
    lab.until(ref, running)
    assert temp.is_dir()
    proc.signal_process(supervisor(run), signal.SIGKILL)
    lab.end(ref)
    while proc.scan(run.id):
        time.sleep(0.02)
    assert Path(run.paths.run_dir, "secrets.json").exists()
    assert lab.end(lab.submit(lab.agents(lab.run(), [WIN]))).state is State.SUCCEEDED
    assert not Path(run.paths.run_dir, "secrets.json").exists()
    assert not temp.exists()
    assert lab.status(ref)[1:3] == (State.FAILED, "supervisor-lost")


def test_the_lifeline_tells_the_agents(lab: Any) -> None:
    """Every agent holds a pipe that reaches its end when the supervisor is gone."""
    run = lab.run()
    script = "phase('running'); os.read(int(sys.argv[2]), 1); phase('told'); sys.exit(71)"
    ref = lab.submit(lab.agents(run, [script, script]))
    lab.until(ref, lambda s: all(r.phase == "running" for r in s.ranks) and len(s.ranks) == 2)
    proc.signal_process(supervisor(run), signal.SIGKILL)
    lab.end(ref)
    meet = Path(run.paths.rendezvous)
    deadline = time.monotonic() + 10
    while [r["phase"] for r in statefile.records(meet, run.id, 1, 2).values()] != ["told", "told"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    lab.cluster().stop(ref)


def test_secrets_are_there_for_the_agents_and_then_gone(lab: Any) -> None:
    """The agents can read the secrets, nobody else can, no other file has them, and they go at the end."""
    run = lab.run(secrets=("HF_TOKEN", "WANDB_API_KEY"))
    look = (
        f"path = pathlib.Path({run.paths.run_dir!r}, 'secrets.json')\n"
        "print(oct(path.stat().st_mode & 0o777), sorted(json.loads(path.read_text())), flush=True)\n"
        "print('seen', any('hush' + '-hush' in v for v in os.environ.values()))\n"
    )
    ref = lab.submit(lab.agents(run, [look + WIN]), {"HF_TOKEN": "hush-hush"})
    assert lab.end(ref).state is State.SUCCEEDED
    texts = [line.text for line in lab.lines(ref, rank=0)]
    assert texts == ["0o600 ['HF_TOKEN']", "seen False"]
    files = [p for p in Path(run.paths.run_dir).rglob("*") if p.is_file()]
    assert "secrets.json" not in {p.name for p in files}
    assert not [p for p in files if b"hush-hush" in p.read_bytes()]


def test_the_job_inherits_only_what_is_listed(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of the profile's `inherit` reach the job; the operator's credentials and settings do not."""
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    monkeypatch.setenv("LC_TIME", "C.UTF-8")
    run = lab.run()
    ref = lab.submit(lab.agents(run, [f"print(sorted(os.environ), flush=True)\n{WIN}"]))
    assert lab.end(ref).state is State.SUCCEEDED
    names = set(eval(lab.lines(ref, rank=0)[0].text))  # noqa: S307  # a list of names that we printed
    allowed = {
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_TIME",
        "LC_CTYPE",
        "LC_ALL",
        "TMPDIR",
        "TZ",
    }
    assert names <= allowed | {"RLAUNCH_RUN_ID", "RLAUNCH_ATTEMPT", "RLAUNCH_RANK"}
    assert {"PATH", "LC_TIME", "RLAUNCH_RUN_ID"} <= names


def test_the_supervisor_is_nobodys_child(lab: Any) -> None:
    """The supervisor has a session of its own, is no child of the launcher, and holds no terminal."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [STAY]))
    lab.until(ref, running)
    row = proc.row(supervisor(run).pid)
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
    ref = lab.submit(lab.agents(run, [STAY]))
    lab.until(ref, running)
    ask = (
        "import sys, yaml, rlaunch_local\nfrom rlaunch_local.cluster import Local, LocalProfile\n"
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
        plan = lab.agents(run, [STAY, STAY])
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
    """A run whose submitting process is gone before the supervisor begins is lost, and is not begun."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [STAY]))
    lab.until(ref, running)
    lab.cluster().stop(ref)
    run_dir = Path(run.paths.run_dir)
    gone = statefile.read(run_dir)._replace(state=State.PENDING, reason="submitting")
    statefile.write(run_dir, gone)  # its `supervisor` has ended
    assert lab.status(ref)[1:3] == (State.FAILED, "supervisor-lost")
    before = len(history(run.paths.run_dir))
    subprocess.run(
        [sys.executable, "-m", "rlaunch_local.supervisor", str(run_dir)], check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    time.sleep(1)
    assert len(history(run.paths.run_dir)) == before
    assert not proc.scan(run.id)
