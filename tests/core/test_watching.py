"""After submit: states, transitions, exit codes, and what is asked of the cluster."""

from pathlib import Path
from typing import Any

import pytest
from tests.core.scripted import Scripted, install, make_world, transient, write_recipe

from rlaunch import flow
from rlaunch.errors import RlaunchError
from rlaunch.model import JobRef, LogLine, Request, State, Status

REF = JobRef("scripted", "x")


def seen(state: State, **fields: Any) -> Status:
    """A status of the job under test."""
    return Status(REF, state, **fields)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> flow.World:
    """A world with the scripted cluster."""
    install(monkeypatch, tmp_path)
    return make_world(tmp_path)


def launch(world: flow.World, tmp_path: Path, name: str = "my-run") -> flow.Job:
    """Submit a run and return its job."""
    asked = Request(
        write_recipe(tmp_path), "scripted", "toy/grpo", '["d"]', settings={"nodes": 1, "name": name}
    )
    prepared = flow.prepare(world, asked)
    assert prepared.plan is not None
    ref = flow.submit(world, prepared.plan, chosen=prepared.chosen)
    return flow.job_of(world, prepared.plan, ref)


def test_one_status_for_each_transition(world: flow.World, tmp_path: Path):
    """The same state is said once; a new reason or attempt is a transition; the end is the last."""
    job = launch(world, tmp_path)
    Scripted.states["*"] = [
        seen(State.PENDING), seen(State.PENDING), seen(State.WAITING, reason="quota"),
        seen(State.RUNNING, attempt=0), seen(State.RUNNING, attempt=1),
        seen(State.SUCCEEDED), seen(State.RUNNING),
    ]  # fmt: skip
    states = [s.state for s in flow.watch(world, [job])]
    assert states == ["PENDING", "WAITING", "RUNNING", "RUNNING", "SUCCEEDED"]


def test_an_unknown_state_is_waited_out(world: flow.World, tmp_path: Path):
    """A scheduler that does not answer is UNKNOWN, never absent, and watching goes on."""
    job = launch(world, tmp_path)
    Scripted.states["*"] = [seen(State.RUNNING), transient(), transient(), seen(State.FAILED)]
    assert [s.state for s in flow.watch(world, [job])] == ["RUNNING", "UNKNOWN", "FAILED"]


def test_once_gives_the_present_and_ends(world: flow.World, tmp_path: Path):
    """`once` asks one time."""
    job = launch(world, tmp_path)
    Scripted.states["*"] = [seen(State.RUNNING)]
    assert [s.state for s in flow.watch(world, [job], once=True)] == ["RUNNING"]
    assert Scripted.asked == [1]


def test_many_runs_cost_one_question_a_poll(world: flow.World, tmp_path: Path):
    """A hundred jobs of one cluster are asked for together."""
    jobs = [flow.find(world, f"scripted:j{i}") for i in range(100)]
    Scripted.states["*"] = [seen(State.RUNNING)]
    assert len(flow.status(world, jobs)) == 100
    assert Scripted.asked == [100]


def test_the_admission_timeout_leaves_the_job(world: flow.World, tmp_path: Path):
    """A job that waits too long is left there; the time starts anew when it was admitted once."""
    job = launch(world, tmp_path)
    Scripted.states["*"] = [seen(State.WAITING)]
    states = [s.state for s in flow.watch(world, [job], interval=5, admission_timeout=12)]
    assert states == ["WAITING"]
    assert world.clock.monotonic() == 15
    assert Scripted.stopped == []


def test_a_cluster_that_stays_silent_ends_the_watch(world: flow.World, tmp_path: Path):
    """A job that cannot be asked about for too long is no longer watched; the reason is plain text."""
    job = launch(world, tmp_path)
    Scripted.states["*"] = [seen(State.RUNNING), transient("no answer")]
    found = list(flow.watch(world, [job], interval=5, unknown_timeout=60))
    assert [(s.state, s.reason) for s in found] == [("RUNNING", ""), ("UNKNOWN", "no answer")]
    assert flow.exit_code(found[-1:]) == 3
    assert world.clock.monotonic() == 65


def test_an_end_is_recorded_once(world: flow.World, tmp_path: Path):
    """The record keeps the first end that was seen, with the driver's own exit code."""
    launch(world, tmp_path)
    Scripted.states["*"] = [seen(State.FAILED, exit_code=7)]
    flow.status(world, [flow.find(world, "my-run")])
    row = world.open_runs().find("my-run")
    assert row is not None
    assert (row.state, row.exit_code) == ("FAILED", 7)


def test_finding_by_name_id_and_reference(world: flow.World, tmp_path: Path):
    """A name, a run id and `cluster:id` find the same job; another `cluster:id` has no row."""
    job = launch(world, tmp_path)
    for target in ("my-run", job.facts.run_id, f"scripted:{job.ref.native}"):
        assert flow.find(world, target).ref == job.ref
    stranger = flow.find(world, "scripted:elsewhere")
    assert stranger.row is None
    assert stranger.facts.run_id == ""


@pytest.mark.parametrize(("native", "asked"), [({}, "my-run-0123abcd"), ({"job": "/u/x"}, "/u/x")])
def test_a_run_whose_submit_was_interrupted_is_asked_for(
    world: flow.World, tmp_path: Path, native: dict[str, str], asked: str
):
    """Without a recorded id the cluster is asked for what the plan foresees or the run id, and it is said."""
    said: list[str] = []
    request = Request(
        write_recipe(tmp_path),
        "scripted",
        "toy/grpo",
        '["d"]',
        settings={"nodes": 1, "name": "my-run"},
    )
    plan = flow.prepare(world, request).plan
    assert plan is not None
    Scripted.fails = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        flow.submit(world, plan._replace(native=native))
    Scripted.states[asked] = [seen(State.RUNNING)]
    job = flow.find(world._replace(report=said.append), "my-run")
    assert job.ref == JobRef("scripted", asked, "my-run-0123abcd")
    assert [line.partition(":")[0] for line in said] == ["warning[run.unrecorded]"]
    assert flow.status(world, [job])[job.ref].state is State.RUNNING
    flow.stop(world, job)
    assert Scripted.stopped == [asked]


def test_an_unknown_name_is_not_absent(world: flow.World):
    """A name that no record knows is an error: nobody was asked, so nothing is known."""
    with pytest.raises(RlaunchError, match=r"run\.unknown"):
        flow.find(world, "nobody")


@pytest.mark.parametrize("target", ["scripted:", ":x", ":"])
def test_a_reference_needs_both_parts(world: flow.World, target: str):
    """Half a reference is an error with its form."""
    with pytest.raises(RlaunchError, match=r"run\.reference"):
        flow.find(world, target)


def test_a_job_is_watched_even_when_the_record_is_lost(world: flow.World, tmp_path: Path):
    """The record is never needed for watching a job that was just submitted."""
    job = launch(world, tmp_path)
    for path in (tmp_path / "state").iterdir():
        path.unlink()
    Scripted.states["*"] = [seen(State.SUCCEEDED)]
    assert [s.state for s in flow.watch(world, [job._replace(row=None)])] == ["SUCCEEDED"]


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([State.SUCCEEDED], 0), ([State.RUNNING], 4), ([State.PENDING, State.SUCCEEDED], 4),
        ([State.FAILED], 1),
        ([State.KILLED, State.RUNNING], 1), ([State.UNSCHEDULABLE], 1), ([State.WORKER_FAILED], 1),
        ([State.ABSENT, State.FAILED], 2), ([State.UNKNOWN, State.ABSENT], 3), ([], 0),
    ],
)  # fmt: skip
def test_exit_codes(states: list[State], code: int):
    """Each state has its code, and several runs have the worst of them."""
    assert flow.exit_code([seen(s) for s in states]) == code


def test_stop_is_for_one_job(world: flow.World, tmp_path: Path):
    """Only the named job is stopped, and its state is read afterwards."""
    job = launch(world, tmp_path)
    Scripted.states["*"] = [seen(State.KILLED)]
    assert flow.stop(world, job).state is State.KILLED
    assert Scripted.stopped == [job.ref.native]


def test_a_diagnosis_without_evidence_is_none(world: flow.World, tmp_path: Path):
    """Without a state and without lines nothing is guessed."""
    job = launch(world, tmp_path)
    Scripted.states["*"] = [transient()]
    found = flow.diagnose(world, job)
    assert found.verdict.word == "no evidence"
    assert found.evidence.missing


def test_trials_are_counted_where_they_lie(world: flow.World, tmp_path: Path):
    """Completed trials are the result files under the trials directory."""
    job = launch(world, tmp_path)
    for name in ("a", "b"):
        (tmp_path / "trials" / name).mkdir(parents=True)
    (tmp_path / "trials" / "a" / "result.json").write_text("{}", encoding="utf-8")
    argument = f"+terminal_bench_config.trials_dir={tmp_path}/trials"
    job = job._replace(facts=job.facts._replace(arguments=(argument,)))
    Scripted.states["*"] = [seen(State.RUNNING)]
    Scripted.lines = [LogLine("x", 0)]
    assert flow.diagnose(world, job).evidence.trials == 1
