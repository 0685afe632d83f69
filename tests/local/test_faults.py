"""Faults of a real gang: each ends with a named reason and the right exit code, and leaves nothing."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from rlaunch.model import JobRef, OwnCheckpoint, State, Status
from rlaunch_local import proc, statefile

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

PATIENT = "import time\nprint('driver is up', flush=True)\ntime.sleep(600)"


def begin(
    lab: Any, run: Any, script: str = PATIENT, *, secrets: dict[str, str] | None = None
) -> tuple[JobRef, statefile.Snapshot]:
    """Start a gang and wait until its driver has spoken."""
    ref = lab.submit(lab.driver(run, script), secrets)
    lab.until(ref, lambda s: s.state is State.RUNNING, within=150)
    lab.until(ref, lambda s: any(line.text == "driver is up" for line in lab.lines(ref, rank=0)))
    return ref, statefile.read(Path(run.paths.run_dir))


def summary(status: Status) -> tuple[State, str, int | None, int | None]:
    """Return what a script would look at."""
    return status.state, status.reason, status.exit_code, status.signal


def test_driver_exit_7(lab: Any) -> None:
    """A driver that exits 7 ends the run FAILED, `driver-exit`, 7; both agents exit 7."""
    ref = lab.submit(lab.driver(lab.run(), "raise SystemExit(7)"))
    end = lab.end(ref, within=150)
    assert summary(end) == (State.FAILED, "driver-exit", 7, None)
    assert [r.exit_code for r in end.ranks] == [7, 7]


def test_driver_killed_by_a_signal(lab: Any) -> None:
    """A driver that is killed ends the run FAILED, `driver-signal`, with the signal's number."""
    ref = lab.submit(
        lab.driver(lab.run(nodes=1), "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)")
    )
    end = lab.end(ref, within=150)
    assert summary(end) == (State.FAILED, "driver-signal", None, signal.SIGSEGV)
    assert end.ranks[0].exit_code == 128 + signal.SIGSEGV


@pytest.mark.parametrize(
    ("victim", "state", "reason"),
    [(0, State.FAILED, "head-lost"), (1, State.WORKER_FAILED, "worker-lost")],
)
def test_sigkill_of_an_agent(lab: Any, victim: int, state: State, reason: str) -> None:
    """A killed agent ends the gang soon; the rank is named, and no process of its node stays."""
    ref, seen = begin(lab, lab.run())
    began = time.monotonic()
    proc.signal_process(seen.agents[victim].process, signal.SIGKILL)
    end = lab.end(ref, within=60)
    assert time.monotonic() - began < 20
    assert (end.state, end.reason) == (state, reason)
    assert end.native["detail"] == f"agent-killed: rank {victim} by SIGKILL"


@pytest.mark.parametrize(("victim", "reason"), [(0, "terminated"), (1, "terminated")])
def test_sigterm_of_an_agent(lab: Any, victim: int, reason: str) -> None:
    """An agent that is told to end takes the gang along, which says so; it exits 143."""
    ref, seen = begin(lab, lab.run())
    proc.signal_process(seen.agents[victim].process, signal.SIGTERM)
    end = lab.end(ref, within=60)
    assert end.state in {State.FAILED, State.WORKER_FAILED}
    assert end.reason in {reason, "worker-lost"}
    assert end.ranks[victim].exit_code == 128 + signal.SIGTERM
    assert f"rank {victim}" in end.native["detail"] or end.signal == signal.SIGTERM


@pytest.mark.parametrize("asked", [True, False])
def test_sigkill_of_the_supervisor(lab: Any, asked: bool) -> None:
    """Without their supervisor the agents end within 10 s; the run is FAILED `supervisor-lost`.

    Whether or not anybody asks, the secrets and Ray's directory are gone by then.
    """
    run = lab.run(secrets=("HF_TOKEN",))
    ref, seen = begin(lab, run, secrets={"HF_TOKEN": "hush"})
    secrets = Path(run.paths.run_dir, "secrets.json")
    temp = Path(lab.profile.temp_root, f"rl-{run.id.rpartition('-')[2]}")
    assert secrets.exists()
    assert temp.exists()
    began = time.monotonic()
    proc.signal_process(seen.supervisor, signal.SIGKILL)
    if asked:
        assert summary(lab.end(ref, within=3))[:2] == (State.FAILED, "supervisor-lost")
        assert not secrets.exists()
    while proc.scan(run.id):
        assert time.monotonic() - began < 10
        time.sleep(0.1)
    assert not secrets.exists()
    assert not temp.exists()
    assert summary(lab.status(ref))[:2] == (State.FAILED, "supervisor-lost")
    records = statefile.records(Path(run.paths.rendezvous), run.id, 1, 2)
    assert {r["reason"] for r in records.values()} == {"supervisor-lost"}
    lab.cluster().stop(ref)
    assert summary(lab.status(ref))[:2] == (State.FAILED, "supervisor-lost")


def test_sigterm_of_the_supervisor(lab: Any) -> None:
    """A supervisor that is told to end takes everything along: KILLED `terminated`."""
    ref, seen = begin(lab, lab.run())
    proc.signal_process(seen.supervisor, signal.SIGTERM)
    assert summary(lab.end(ref, within=10))[:2] == (State.KILLED, "terminated")


def test_stop_leaves_nothing_within_5_s(lab: Any) -> None:
    """Stop returns within 5 s and nothing of the run is left, though its driver ignores SIGTERM."""
    deaf = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + PATIENT
    run = lab.run(grace_s=4)
    ref, seen = begin(lab, run, deaf)
    began = time.monotonic()
    lab.cluster().stop(ref)
    assert time.monotonic() - began < 5
    assert not proc.scan(run.id)
    assert not any(proc.alive(a.process) for a in seen.agents)
    assert summary(lab.status(ref))[:2] == (State.KILLED, "stopped")


def test_a_silent_driver(lab: Any) -> None:
    """A driver that prints nothing for the profile's limit ends FAILED `driver-silent`; agents exit 124."""
    ref = lab.submit(lab.driver(lab.run(liveness_timeout_s=4), PATIENT))
    end = lab.end(ref, within=180)
    assert (end.state, end.reason) == (State.FAILED, "driver-silent")
    assert end.ranks[0].exit_code == 124


def test_staging_that_fails_on_one_rank(lab: Any) -> None:
    """Staging that fails on rank 1 ends the whole gang at once with a reason that names the rank."""
    run = lab.run(env={"RLAUNCH_SMOKE_STAGE_FAIL_RANKS": "1"})
    began = time.monotonic()
    end = lab.end(lab.submit(lab.gang(run)), within=90)
    assert time.monotonic() - began < 60
    assert (end.state, end.reason) == (State.FAILED, "staging-failed")
    assert "rank 1" in end.native["detail"]


def test_a_rank_that_never_starts(lab: Any) -> None:
    """A rank of which nothing is heard is named when the waiting is over."""
    plan = lab.driver(lab.run(rendezvous_timeout_s=15, join_timeout_s=15), PATIENT)
    ranks = [
        {**r, "argv": ["/bin/sleep", "600"]} if r["rank"] == 1 else r for r in plan.native["ranks"]
    ]
    end = lab.end(lab.submit(plan._replace(native={**plan.native, "ranks": ranks})), within=120)
    assert (end.state, end.reason) == (State.FAILED, "rank-missing")
    assert "1" in end.native["detail"]


def test_leavings_of_an_earlier_attempt(lab: Any, tmp_path: Path) -> None:
    """What an earlier attempt left in the rendezvous directory is not met by this one."""
    run = lab.run(env={})
    meet = tmp_path / "meet"
    (meet / "ranks" / "0").mkdir(parents=True)
    stale = {
        "run": run.id,
        "attempt": 0,
        "written_at": "2036-12-01T10:00:00Z",
        "at": "2036-12-01T10:00:00Z",
    }
    head = {"head_ip": "127.99.99.99", "port": 1, "agent_port": 1, "token": "x", "num_nodes": 2}
    head |= {"ray_version": "2.60.0", "python_version": "3.12"}
    (meet / "ray_head.json").write_text(json.dumps({**stale, **head}))
    (meet / "ray_head.done").write_text(json.dumps({**stale, "outcome": "failed", "exit_code": 9}))
    (meet / "ranks" / "0" / "1.json").write_text(json.dumps({**stale, "rank": 1, "phase": "ended"}))
    run = run._replace(paths=run.paths._replace(rendezvous=str(meet)))
    end = lab.end(lab.submit(lab.driver(run, "print('done')")), within=150)
    assert summary(end) == (State.SUCCEEDED, "", 0, None)


def test_a_retry_resumes_the_checkpoint(lab: Any) -> None:
    """The second attempt of a run that failed at step 2 resumes at step 1 and succeeds."""
    plan = lab.gang(
        lab.run(max_retries=1), "smoke.fail_at_step=2", "smoke.fail_attempts=2", "smoke.exit_code=7"
    )
    ref = lab.submit(plan)
    end = lab.end(ref, within=240)
    assert summary(end) == (State.SUCCEEDED, "", 0, None)
    assert end.attempt == 2
    texts = [line.text for line in lab.lines(ref, attempt=2, rank=0)]
    assert any("Resumed training from global_step 1" in text for text in texts)


def test_a_retry_goes_on_from_its_own_checkpoint(lab: Any) -> None:
    """A run that starts from another's checkpoint saves its own, and its second attempt uses that."""
    older = lab.run("older")
    assert lab.end(lab.submit(lab.gang(older, "trainer.max_steps=1")), within=240).exit_code == 0
    run = lab.run("newer", max_retries=1)
    own = OwnCheckpoint(f"{run.paths.storage}/checkpoints", ("trainer.resume_mode=latest",))
    start = f"{older.paths.storage}/checkpoints/global_step_1"
    ref = lab.submit(
        lab.gang(
            run, "trainer.resume_mode=from_path", f"trainer.resume_path={start}", "trainer.max_steps=4",
            "smoke.fail_at_step=3", "smoke.fail_attempts=2", "smoke.exit_code=7", own=own,
        )
    )  # fmt: skip
    assert summary(lab.end(ref, within=240)) == (State.SUCCEEDED, "", 0, None)
    for attempt, step in ((1, 1), (2, 2)):
        texts = [line.text for line in lab.lines(ref, attempt=attempt, rank=0)]
        assert any(f"Resumed training from global_step {step}" in text for text in texts), texts
        told = [text for text in texts if "goes on from its own checkpoint at step 2" in text]
        assert len(told) == attempt - 1


def test_two_real_runs_at_once(lab: Any) -> None:
    """Two gangs at once both train to the end: neither meets the other's Ray."""
    refs = [lab.submit(lab.gang(lab.run(name))) for name in ("one", "two")]
    for ref in refs:
        end = lab.end(ref, within=240)
        assert summary(end) == (State.SUCCEEDED, "", 0, None)
