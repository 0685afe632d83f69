"""What the jobs of one run come to together, and what the run's own traces add."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch.cli.speak import status_line
from rlaunch.model import JobRef, State
from rlaunch_slurm_jupiter.records import Traces, read_ending, read_last, read_outcome, read_ranks
from rlaunch_slurm_jupiter.states import NEVER, TABLE, Link, combine
from rlaunch_slurm_jupiter.status import describe

AT = "2026-01-02T03:04:05Z"


def link(word: str, *, ran: bool = True, code: int | None = None, reason: str = "") -> Link:
    """Make one job of a chain."""
    nodes = "n[1-2]" if ran else ""
    return Link("1", word, reason, AT if ran else "", AT, code, None, nodes, "rl", "/d")


@pytest.mark.parametrize(
    ("chain", "state", "at"),
    [
        ((), State.ABSENT, 0),
        ((link("RUNNING"), link("PENDING", ran=False, reason="Dependency")), State.RUNNING, 1),
        ((link("TIMEOUT"), link("PENDING", ran=False, reason="Priority")), State.WAITING, 2),
        ((link("TIMEOUT"), link("RUNNING")), State.RUNNING, 2),
        ((link("TIMEOUT"), link("COMPLETED")), State.SUCCEEDED, 2),
        ((link("COMPLETED"), link("CANCELLED", ran=False)), State.SUCCEEDED, 1),
        ((link("FAILED"), link("CANCELLED", ran=False)), State.FAILED, 1),
        ((link("FAILED"), link("FAILED"), link("FAILED")), State.FAILED, 3),
        ((link("TIMEOUT"),), State.FAILED, 1),
        ((link("CANCELLED", ran=False), link("CANCELLED", ran=False)), State.KILLED, 1),
        ((link("CANCELLED"), link("CANCELLED", ran=False)), State.KILLED, 1),
        ((link("NODE_FAIL"),), State.WORKER_FAILED, 1),
        ((link("REQUEUED", ran=False),), State.WAITING, 1),
        ((link("PENDING", ran=False, reason="BeginTime"),), State.WAITING, 1),
        ((link("PENDING", ran=False, reason="Priority"),), State.PENDING, 1),
        ((link("XYZZY"),), State.UNKNOWN, 1),
    ],
)
def test_a_chain_is_one_run(chain: tuple[Link, ...], state: State, at: int) -> None:
    """The first job that has not ended decides, else a success of any, else the last that ran."""
    seen = combine(chain)
    assert (seen.state, seen.at) == (state, at)


def test_pending_says_why() -> None:
    """SLURM's reason is shown while a job waits, with what it means where no waiting mends it."""
    assert combine([link("PENDING", ran=False, reason="Priority")]).reason == "Priority"
    for reason in NEVER:
        assert combine([link("PENDING", ran=False, reason=reason)]).reason.startswith(f"{reason}: ")
    assert combine([link("RUNNING", reason="Prolog")]).state is State.STARTING


def test_the_ends_are_told_apart() -> None:
    """Memory, a lost node, preemption and the time limit have reasons of their own."""
    seen = {
        w: combine([link(w)]).reason for w in ("OUT_OF_MEMORY", "NODE_FAIL", "PREEMPTED", "TIMEOUT")
    }
    assert list(seen.values()) == ["out-of-memory", "node-failure", "preempted", "time-limit"]
    step = link("FAILED")._replace(steps=("FAILED", "OUT_OF_MEMORY"))
    assert combine([step]).reason == "out-of-memory", "a step's own word tells more than the job's"


@given(
    st.lists(st.builds(link, st.sampled_from([*TABLE, "RUBBISH"]), ran=st.booleans()), max_size=5)
)
def test_a_live_job_is_never_an_ended_run(chain: list[Link]) -> None:
    """A run has ended only when all of its jobs have; unknown words never end one."""
    seen = combine(chain)
    live = any(not one.meaning.ended for one in chain)
    assert seen.state.ended == (not live)


REF = JobRef("jupiter", "1", "rl-0")


@pytest.mark.parametrize("word", ["PENDING", "RUNNING"])
def test_the_expected_start_is_told(word: str) -> None:
    """The line of a waiting run has SLURM's reason and when it expects to start it; no other line has."""
    job = link(word, ran=False, reason="Priority")._replace(start=AT)
    line = status_line(describe(REF, ["1"], combine([job]), Traces()))
    assert line.endswith(
        f"PENDING (Priority, expected start {AT})" if word == "PENDING" else "RUNNING"
    )


@pytest.mark.parametrize(
    ("ending", "outcome", "state", "reason", "code"),
    [
        (
            ("failed", "driver-exit", 7),
            {"reason": "driver-exit", "exit_code": 7},
            State.FAILED,
            "driver-exit",
            7,
        ),
        (
            ("failed", "worker-lost", 68),
            {"reason": "worker-lost"},
            State.WORKER_FAILED,
            "worker-lost",
            None,
        ),
        (
            ("failed", "driver-signal", 137),
            {"reason": "driver-signal", "signal": 9, "oom_kills": 1},
            State.FAILED,
            "out-of-memory",
            None,
        ),
        (("cut", "wall-limit", 143), {}, State.FAILED, "time-limit", 143),
        (("cut", "terminated", 143), {}, State.KILLED, "terminated", 143),
        (("failed", "sif-missing", 81), {}, State.FAILED, "sif-missing", 81),
        (None, {}, State.FAILED, "job-failed", 68),
    ],
)
def test_traces_name_the_failure(
    ending: tuple[str, str, int] | None,
    outcome: dict[str, object],
    state: State,
    reason: str,
    code: int | None,
) -> None:
    """SLURM says that the job failed; the run's own records say how, with the driver's code."""
    verdict = combine([link("FAILED", code=68)])
    seen = describe(REF, ["1"], verdict, Traces(2, ending, outcome))
    assert (seen.state, seen.reason, seen.exit_code, seen.attempt) == (state, reason, code, 2)


@pytest.mark.parametrize("word", ["TIMEOUT", "FAILED", "CANCELLED", "NODE_FAIL", "COMPLETED"])
def test_a_success_is_a_success_whatever_came_after(word: str) -> None:
    """A driver that ended with 0 a second before the wall limit has succeeded, though SLURM says TIMEOUT."""
    done = {"outcome": "succeeded", "exit_code": 0}
    seen = describe(REF, ["1"], combine([link(word)]), Traces(2, ("cut", "terminated", 143), done))
    assert (seen.state, seen.reason, seen.exit_code, seen.signal) == (State.SUCCEEDED, "", 0, None)
    live = describe(REF, ["1"], combine([link("RUNNING")]), Traces(2, None, done))
    assert live.state is State.RUNNING, "it has not ended before SLURM says so"


def test_traces_never_contradict_slurm() -> None:
    """What lies in the directory changes no state but a plain failure: SLURM decides."""
    for word, what in TABLE.items():
        seen = describe(REF, ["1"], combine([link(word)]), Traces(1, ("cut", "terminated", 1), {}))
        if word != "FAILED":
            assert seen.state in (what.state, State.WAITING)
        if not seen.state.ended:
            assert seen.exit_code is None


def test_records_of_other_runs_are_nobodys() -> None:
    """Outcome and ranks count only with this run's id, and an outcome only of this attempt or a success."""
    done = '{"run":"rl-0","attempt":1,"outcome":"failed"}'
    assert read_outcome(done, "rl-0", 1)
    assert not read_outcome(done, "rl-0", 2)
    assert not read_outcome(done, "rl-1", 1)
    assert read_outcome(done.replace("failed", "succeeded"), "rl-0", 2)
    record = (
        '{"run":"rl-0","rank":1,"phase":"running","at":"2026-01-02T03:04:00Z","exit_code":null}'
    )
    [first, second] = read_ranks({1: record}, "rl-0", ("n1", "n2"), AT)
    assert (first.node, first.phase) == ("n1", "")
    assert (second.node, second.phase, second.heartbeat_age_s) == ("n2", "running", 5.0)
    [other] = read_ranks({0: record}, "rl-1", (), AT)
    assert other.phase == ""


@given(st.text(max_size=60))
def test_any_text_is_a_record_or_none(text: str) -> None:
    """Half-written files are nothing, never an exception."""
    read_last(text)
    assert read_ending(text) is None or len(text.split()) == 3
    assert read_outcome(text, "rl-0", 1) == {}
    read_ranks({0: text}, "rl-0", (), AT)
