"""Records, the fence of run and attempt, and outcomes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch.node import reasons
from rlaunch.node.reasons import Outcome, blame_memory, fail, judge_driver, read_outcome, succeed
from rlaunch.node.records import (
    Fence,
    Head,
    RankRecord,
    decode,
    done_body,
    encode,
    find_outcome,
    now,
    read_head,
    read_rank,
)

FENCE = Fence("r-1", 3)
HEAD = Head("10.0.0.1", 6379, 8100, "t", 2, "2026-01-01T00:00:00Z", "2.60.0", "3.12.1")
RANK = RankRecord(1, "10.0.0.2", 7, "ray", now(), now(), staged={"d": 3})
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_fence_admits_its_own_attempt_only() -> None:
    """Records of another run, an earlier or a later attempt, or of nobody are not believed."""
    assert FENCE.admits(FENCE.mark(x=1))
    for body in ({}, {"run": "r-1"}, {"run": "r-1", "attempt": 2}, {"run": "r-2", "attempt": 3}):
        assert not FENCE.admits(body)


def test_fence_knows_that_it_was_overtaken() -> None:
    """Only a later attempt of the same run overtakes."""
    assert FENCE.is_behind({"run": "r-1", "attempt": 4})
    assert not FENCE.is_behind({"run": "r-1", "attempt": 3})
    assert not FENCE.is_behind({"run": "r-2", "attempt": 4})
    assert not FENCE.is_behind({"run": "r-1", "attempt": "4"})


def test_success_crosses_the_fence_and_failure_does_not() -> None:
    """A success of any attempt ends a run; a failure ends its own attempt only."""
    earlier = FENCE._replace(attempt=1)
    assert find_outcome(FENCE, done_body(earlier, succeed())) == succeed()
    assert find_outcome(FENCE, done_body(earlier, fail("ray-failed"))) is None
    assert find_outcome(FENCE, done_body(FENCE, fail("ray-failed", "x"))) == fail("ray-failed", "x")
    assert find_outcome(FENCE, done_body(Fence("r-2", 3), succeed())) is None
    assert find_outcome(FENCE, {}) is None


def test_records_survive_their_encoding() -> None:
    """Head, rank and outcome come back as they were."""
    assert read_head(decode(encode(FENCE.mark(**HEAD._asdict())))) == HEAD
    assert read_rank(decode(encode(FENCE.mark(**RANK._asdict())))) == RANK
    outcome = fail("worker-lost", "rank 1")._replace(oom_kills=2)
    assert read_outcome(decode(encode(done_body(FENCE, outcome)))) == outcome


@given(st.binary())
def test_rubbish_belongs_to_nobody(data: bytes) -> None:
    """Half a file, or somebody else's, is an empty record and never an exception."""
    assert not FENCE.admits(decode(data))


@settings(deadline=None, max_examples=40)  # JSON of any shape takes long to invent
@given(
    st.dictionaries(st.sampled_from([*Head._fields, *RankRecord._fields, "code", "outcome"]), JSON)
)
def test_records_of_strange_types_are_refused_or_read(body: dict[str, Any]) -> None:
    """Whatever JSON is found, reading it gives a record, None or a plain failure."""
    read_head(body)
    read_rank(body)
    assert isinstance(read_outcome(body).code, int)


def test_times_are_utc_with_milliseconds() -> None:
    """Times in records are RFC 3339 in UTC."""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", now())


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, Outcome("succeeded", "driver-exit", 0, None, "", 0)),
        (7, Outcome("failed", "driver-exit", 7, None, "the driver exited 7", 7)),
        (
            -9,
            Outcome("failed", "driver-signal", None, 9, "the driver was killed by signal 9", 137),
        ),
    ],
)
def test_drivers_status_is_judged_as_it_is(status: int, expected: Outcome) -> None:
    """Exit codes stay, a signal n becomes 128+n and is named."""
    assert judge_driver(status) == expected


def test_a_failure_after_the_kernels_kill_says_so() -> None:
    """The reason and the code stay the driver's; an ending that has another cause is left alone."""
    killed = blame_memory(judge_driver(-9), 1)
    assert (killed.reason, killed.signal, killed.code, killed.oom_kills) == (
        "driver-signal",
        9,
        137,
        1,
    )
    assert killed.detail == (
        "the kernel killed 1 process(es) of this node for want of memory, "
        "then the driver was killed by signal 9"
    )
    for outcome in (judge_driver(7)._replace(reason="terminated"), succeed()):
        assert blame_memory(outcome._replace(reason="terminated"), 1).oom_kills == 0
    assert blame_memory(judge_driver(7), 0) == judge_driver(7)


def test_every_reason_has_an_exit_code_of_its_own() -> None:
    """No two reasons share a code, and own failures lie between 60 and 79."""
    own = {name: code for name, code in reasons.EXIT_CODES.items() if name != "driver-silent"}
    assert len(set(own.values())) == len(own)
    assert all(60 <= code <= 79 for code in own.values())
    assert fail("driver-silent").code == 124
    assert fail("terminated", signal=15).code == 143
    assert fail("unheard-of").code == 79
