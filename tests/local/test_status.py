"""Status: the supervisor's word and its life, garbage, absence, and what watching costs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, State
from rlaunch.shell import Shell
from rlaunch_local import places, proc, statefile
from rlaunch_local.cluster import Local
from rlaunch_local.statefile import Agent, Snapshot

ME = proc.identify(os.getpid())


class FakeClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def now(self) -> str:
        """Return a fixed day with the clock's seconds."""
        return f"2026-12-01T10:{int(self.seconds) // 60 % 60:02d}:{self.seconds % 60:06.3f}Z"

    def monotonic(self) -> float:
        """Return the clock's seconds."""
        return self.seconds

    def sleep(self, seconds: float) -> None:
        """Move the clock."""
        self.seconds += seconds


def place(lab: Any, text: str | None, name: str = "made-00000000") -> JobRef:
    """Make a run directory with this text as its state."""
    run_dir = lab.root / "local" / name
    run_dir.mkdir(parents=True)
    if text is not None:
        (run_dir / "state.json").write_text(text)
    return JobRef("local", name)


def test_absent(lab: Any) -> None:
    """A run without a directory is ABSENT, and stopping it is no error."""
    ref = JobRef("local", "nobody-00000000")
    assert lab.status(ref).state is State.ABSENT
    lab.cluster().stop(ref)


@pytest.mark.parametrize("native", ["../../etc", "/etc", "", ".", "a/b", "x\n"])
def test_an_id_is_no_path(lab: Any, native: str) -> None:
    """A reference that is no run id leads to no directory."""
    assert lab.status(JobRef("local", native)).state is State.ABSENT


@pytest.mark.parametrize(
    "text", [None, "", "{", "[]", "null", '{"run": 1}', '{"state": "GREAT"}', "\x00", "[" * 9999]
)
def test_garbage_is_unknown(lab: Any, text: str | None) -> None:
    """A state that is missing or cannot be read is UNKNOWN and says where, and harms no other run."""
    ref = place(lab, text)
    other = JobRef("local", "nobody-00000000")
    seen = lab.cluster().status([ref, other])
    assert seen[ref].state is State.UNKNOWN
    assert "made-00000000" in seen[ref].reason
    assert seen[other].state is State.ABSENT


@pytest.mark.parametrize(
    "change",
    [
        {"supervisor": {"pid": 10**30, "started": 1, "boot": "x"}},
        {"supervisor": {"pid": 2**31, "started": 1, "boot": "x"}},
        {"supervisor": {"pid": -1, "started": 1, "boot": "x"}},
        {"supervisor": {"pid": 0, "started": 1, "boot": "x"}},
        {"supervisor": {"pid": float("inf"), "started": 1, "boot": "x"}},
        {"supervisor": [1, 2, 3]},
        {"attempt": "../.."},
        {"since": {}},
        {"exit_code": "seven"},
        {"agents": [{"rank": "x", "ip": "", "process": None, "exit_code": None, "signal": None}]},
    ],
)
def test_absurd_values_are_unknown(lab: Any, change: dict[str, Any]) -> None:
    """A state with a value that cannot be is UNKNOWN, and can be stopped like any garbage."""
    whole = statefile.to_json(Snapshot("made-00000000", State.RUNNING, attempt=1, supervisor=ME))
    ref = place(lab, json.dumps({**whole, **change}))
    assert lab.status(ref).state is State.UNKNOWN
    lab.cluster().stop(ref)
    assert lab.status(ref).state in {State.FAILED, State.KILLED}


def test_a_garbled_run_can_be_stopped(lab: Any) -> None:
    """Stopping a run whose state is garbage ends what runs under its id."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [lab.STAY]))
    lab.until(ref, lambda s: s.state is State.RUNNING)
    who = statefile.read(Path(run.paths.run_dir)).supervisor
    Path(run.paths.run_dir, "state.json").write_text("{")
    assert lab.status(ref).state is State.UNKNOWN
    lab.cluster().stop(ref)
    assert not proc.scan(run.id)
    assert not proc.alive(who)
    assert lab.status(ref).state is State.KILLED


@pytest.mark.parametrize("state", list(State))
def test_every_state_survives_the_file(state: State) -> None:
    """A snapshot comes back from JSON as it went."""
    agents = (Agent(0, "127.40.7.1", ME, None, 9), Agent(1, "127.40.7.2", None, 127))
    whole = Snapshot("x-1", state, "r", "t", 2, 7, 9, "d", ME, agents)
    assert statefile.from_json(json.dumps(statefile.to_json(whole))) == whole


def test_a_recycled_pid_is_not_the_supervisor(lab: Any) -> None:
    """A process with the supervisor's pid but another start or boot does not keep a run alive."""
    assert ME is not None
    for fake in (
        ME._replace(started=ME.started + 1),
        ME._replace(boot="another"),
        ME._replace(pid=2**22 - 1),
    ):
        name = f"made-{fake.pid}{fake.started}{fake.boot[:3]}"
        ref = place(
            lab, json.dumps(statefile.to_json(Snapshot(name, State.RUNNING, supervisor=fake))), name
        )
        assert lab.status(ref)[1:3] == (State.FAILED, "supervisor-lost")
    live = place(
        lab,
        json.dumps(statefile.to_json(Snapshot("live-1", State.RUNNING, supervisor=ME))),
        "live-1",
    )
    assert lab.status(live).state is State.RUNNING


def test_an_end_needs_no_supervisor(lab: Any) -> None:
    """An end that was written stays, however long its writer has been gone."""
    old = Snapshot(
        "made-1", State.SUCCEEDED, "succeeded", supervisor=proc.Process(2**22 - 1, 5, "old")
    )
    assert lab.status(place(lab, json.dumps(statefile.to_json(old)))).state is State.SUCCEEDED


def test_ranks_and_heartbeats(lab: Any) -> None:
    """Each rank has its address, phase and the age of its heartbeat; one from a clock ahead is 0."""
    clock = FakeClock()
    agents = (
        Agent(0, "127.40.7.1", ME),
        Agent(1, "127.40.7.2", ME),
        Agent(2, "127.40.7.3", None, 9),
    )
    name = "made-00000000"
    ref = place(
        lab,
        json.dumps(
            statefile.to_json(
                Snapshot(name, State.RUNNING, attempt=1, supervisor=ME, agents=agents)
            )
        ),
    )
    ranks = lab.root / "local" / name / "rendezvous" / "ranks" / "1"
    ranks.mkdir(parents=True)
    for rank, at in ((0, "2026-12-01T10:16:30Z"), (1, "2026-12-01T11:16:30Z")):
        record = {"run": name, "attempt": 1, "rank": rank, "phase": "running", "at": at}
        (ranks / f"{rank}.json").write_text(json.dumps(record))
    seen = Local(lab.profile, Shell(), clock).status([ref])[ref]
    assert [(r.rank, r.node, r.phase, r.heartbeat_age_s, r.exit_code) for r in seen.ranks] == [
        (0, "127.40.7.1", "running", 10.0, None),
        (1, "127.40.7.2", "running", 0.0, None),
        (2, "127.40.7.3", "ended", None, 9),
    ]


def test_records_of_another_attempt_are_not_ours(lab: Any) -> None:
    """A rank's record that carries another attempt or run says nothing."""
    name = "made-00000000"
    snapshot = Snapshot(
        name, State.RUNNING, attempt=2, supervisor=ME, agents=(Agent(0, "127.40.7.1", ME),)
    )
    ref = place(lab, json.dumps(statefile.to_json(snapshot)))
    ranks = lab.root / "local" / name / "rendezvous" / "ranks" / "2"
    ranks.mkdir(parents=True)
    (ranks / "0.json").write_text(
        json.dumps({"run": name, "attempt": 1, "rank": 0, "phase": "running"})
    )
    assert lab.status(ref).ranks[0].phase == ""


def test_the_directory_is_looked_for_once(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Watching asks once where a run lies; one that was removed is ABSENT, and found when it comes back."""
    snapshot = json.dumps(
        statefile.to_json(Snapshot("made-00000000", State.RUNNING, supervisor=ME))
    )
    ref, clock, asked = place(lab, snapshot), FakeClock(), []
    local, find = Local(lab.profile, Shell(), clock), places.find
    monkeypatch.setattr(places, "find", lambda *words: asked.append(words) or find(*words))
    for _ in range(20):
        assert local.status([ref])[ref].state is State.RUNNING
        clock.sleep(5)
    assert len(asked) == 1
    shutil.rmtree(lab.root / "local" / "made-00000000")
    clock.sleep(10)
    assert local.status([ref])[ref].state is State.ABSENT
    place(lab, snapshot)
    assert local.status([ref])[ref].state is State.RUNNING


OPENED: list[str] = []


WATCHING: list[str] = []


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if (
        WATCHING
        and event in {"open", "os.listdir", "os.scandir"}
        and str(args[0]).startswith(WATCHING[0])
    ):
        OPENED.append(str(args[0]))


sys.addaudithook(_audit)


@pytest.mark.parametrize("nodes", [1, 2, 4])
def test_an_idle_run_costs_one_look_per_node_and_5_s(lab: Any, nodes: int) -> None:
    """Watching a run that is RUNNING for 60 s opens at most 12 files per node, and sees the end at once."""
    run = lab.run()
    ref = lab.submit(
        lab.agents(
            run, [lab.WIN.replace("0.3", "3"), *["phase('running'); time.sleep(3)"] * (nodes - 1)]
        )
    )
    clock = FakeClock()
    local = Local(lab.profile, Shell(), clock)
    lab.until(ref, lambda s: all(r.phase == "running" for r in s.ranks) and len(s.ranks) == nodes)
    lab.until(ref, lambda s: s.state is State.RUNNING, local=local)
    OPENED.clear()
    WATCHING.append(run.paths.run_dir)
    for _ in range(60):
        clock.sleep(1)
        assert local.status([ref])[ref].state is State.RUNNING
    WATCHING.clear()
    assert len(OPENED) <= 12 * nodes
    assert OPENED
    lab.end(ref)
    clock.sleep(0.01)
    assert local.status([ref])[ref].state is State.SUCCEEDED


def test_stop_works_where_the_end_cannot_be_noted(lab: Any) -> None:
    """A run whose state cannot be written is stopped all the same, and what could not be done is said."""
    run = lab.run()
    ref = lab.submit(lab.agents(run, [lab.STAY]))
    lab.until(ref, lambda s: s.state is State.RUNNING)
    state = Path(run.paths.run_dir, "state.json")
    state.unlink()
    state.mkdir()
    with pytest.raises(ClusterError, match=r"local.not-written"):
        lab.cluster().stop(ref)
    assert not proc.scan(run.id)
    state.rmdir()
    lab.cluster().stop(ref)
    assert lab.status(ref).state is State.KILLED
