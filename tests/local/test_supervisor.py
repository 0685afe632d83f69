"""How attempts end and follow one another, with stand-in agents: real processes, no Ray."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rlaunch.model import State
from rlaunch_local import proc, statefile


def running(status: Any) -> bool:
    """Tell whether a run has got to RUNNING."""
    return bool(status.state is State.RUNNING)


def test_a_gang_that_succeeds(lab: Any) -> None:
    """Two agents that end with 0 after the outcome are SUCCEEDED, by way of STARTING and RUNNING."""
    run = lab.run()
    end = lab.end(lab.submit(lab.agents(run, [lab.WIN, lab.FOLLOW])))
    assert (end.state, end.reason, end.exit_code, end.attempt) == (
        State.SUCCEEDED,
        "",
        0,
        1,
    )
    assert [(r.rank, r.exit_code) for r in end.ranks] == [(0, 0), (1, 0)]
    states = [state for state, _ in lab.history(run)]
    assert states == ["PENDING", "PENDING", "STARTING", "RUNNING", "SUCCEEDED"]


def test_the_drivers_exit_code_is_kept(lab: Any) -> None:
    """A driver that exits 7 makes the run FAILED with reason `driver-exit` and exit code 7."""
    end = lab.end(lab.submit(lab.agents(lab.run(), [lab.SEVEN, f"{lab.FOLLOW}\nsys.exit(7)"])))
    assert (end.state, end.reason, end.exit_code) == (State.FAILED, "driver-exit", 7)
    assert end.native["detail"] == "the driver exited 7"


@pytest.mark.parametrize(
    ("victim", "state", "reason"),
    [(0, State.FAILED, "head-lost"), (1, State.WORKER_FAILED, "worker-lost")],
)
def test_a_killed_agent_is_named(lab: Any, victim: int, state: State, reason: str) -> None:
    """An agent that is killed ends the gang; its rank and signal are named and the others are ended."""
    ref = lab.submit(lab.agents(lab.run(settle_s=0.2), [lab.STAY, lab.STAY]))
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
        lab.agents(
            lab.run(grace_s=2.5, settle_s=0.1), [lab.STUBBORN, "time.sleep(0.5); sys.exit(3)"]
        )
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
        ref = lab.submit(lab.agents(run, [lab.STAY, orphan]))
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
    head = f"if attempt == 1:\n    {lab.SEVEN}\n{lab.WIN}"
    ref = lab.submit(lab.agents(run, [head, "if attempt == 1: sys.exit(7)\ntime.sleep(0.6)"]))
    end = lab.end(ref)
    assert (end.state, end.attempt, end.exit_code) == (State.SUCCEEDED, 2, 0)
    assert lab.history(run)[2:] == [
        ("STARTING", 1), ("STARTING", 2), ("STARTING", 2), ("RUNNING", 2), ("SUCCEEDED", 2),
    ]  # fmt: skip


def test_the_same_failure_twice_ends_the_retries(lab: Any) -> None:
    """Two attempts that fail in the same way are the last ones, and the detail says why."""
    ref = lab.submit(lab.agents(lab.run(max_retries=5), [lab.SEVEN]))
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
    script = f"if attempt == 1:\n    {lab.SEVEN}\nsys.exit(9)"
    end = lab.end(lab.submit(lab.agents(lab.run(max_retries=1), [script])))
    assert (end.attempt, end.reason, end.exit_code) == (2, "head-lost", None)
    assert end.native["detail"] == "rank 0: its agent exited with code 9"


def test_a_rank_says_why_it_ended(lab: Any) -> None:
    """Without an outcome the reason is the one that the first failed rank recorded."""
    script = (
        "phase('ended', exit_code=65, reason='staging-failed', detail='no such data'); sys.exit(65)"
    )
    end = lab.end(lab.submit(lab.agents(lab.run(settle_s=0.1), [lab.STAY, script])))
    assert (end.state, end.reason) == (State.FAILED, "staging-failed")
    assert end.native["detail"] == "rank 1: no such data"


def test_an_end_without_an_outcome_is_a_failure(lab: Any) -> None:
    """Agents that all exit 0 without an outcome have not succeeded."""
    end = lab.end(lab.submit(lab.agents(lab.run(), ["pass", "pass"])))
    assert (end.state, end.reason) == (State.FAILED, "no-outcome")


def test_one_silent_leaver_ends_the_gang(lab: Any) -> None:
    """A rank that exits 0 before the outcome ends the gang too: it is not there any more."""
    end = lab.end(lab.submit(lab.agents(lab.run(settle_s=0.1), [lab.STAY, ["/bin/true"]])))
    assert (end.state, end.reason) == (State.FAILED, "no-outcome")
    assert end.native["detail"] == "ranks ended without an outcome: 1"


def test_trouble_after_success_changes_nothing(lab: Any) -> None:
    """A run whose outcome says succeeded is SUCCEEDED, whatever its agents end with."""
    win = "phase('running'); done('succeeded', exit_code=0); os.kill(os.getpid(), signal.SIGKILL)"
    end = lab.end(lab.submit(lab.agents(lab.run(farewell_s=0.2, settle_s=0.2), [win, lab.STAY])))
    assert (end.state, end.exit_code) == (State.SUCCEEDED, 0)


def test_an_agent_that_cannot_be_started(lab: Any) -> None:
    """A program that does not exist is named as the reason, in the state and in that rank's log."""
    ref = lab.submit(lab.agents(lab.run(settle_s=0.1), [lab.STAY, ["/no/such/python", "x"]]))
    end = lab.end(ref)
    assert (end.state, end.reason) == (State.WORKER_FAILED, "worker-lost")
    assert "`/no/such/python` cannot be started: No such file or directory" in end.native["detail"]
    assert any("cannot be started" in line.text for line in lab.lines(ref, rank=1))


def test_the_time_limit(lab: Any) -> None:
    """A run that reaches its time limit is FAILED with reason `timeout`, and is not tried again."""
    end = lab.end(lab.submit(lab.agents(lab.run(timeout_s=1, max_retries=3), [lab.STAY, lab.STAY])))
    assert (end.state, end.reason, end.attempt) == (State.FAILED, "timeout", 1)


def test_secrets_are_there_for_the_agents_and_then_gone(lab: Any) -> None:
    """The agents can read the secrets, nobody else can, no other file has them, and they go at the end."""
    run = lab.run(secrets=("HF_TOKEN", "WANDB_API_KEY"))
    look = (
        f"path = pathlib.Path({run.paths.run_dir!r}, 'secrets.json')\n"
        "print(oct(path.stat().st_mode & 0o777), sorted(json.loads(path.read_text())), flush=True)\n"
        "print('seen', any('hush' + '-hush' in v for v in os.environ.values()))\n"
    )
    ref = lab.submit(lab.agents(run, [look + lab.WIN]), {"HF_TOKEN": "hush-hush"})
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
    ref = lab.submit(lab.agents(run, [f"print(sorted(os.environ), flush=True)\n{lab.WIN}"]))
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
