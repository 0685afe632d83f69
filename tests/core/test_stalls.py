"""The rules for wedge and starvation, on synthetic logs."""

from __future__ import annotations

import pytest

from rlaunch.model import LogLine, State

from . import appendix as log
from .appendix import found, word


def test_engines_without_work_are_starvation() -> None:
    """Generation 0, nothing running and nothing waiting, report after report."""
    idle = [log.engine(0.0, 0, 0) for _ in range(3)]
    evidence = log.evidence([*log.bring_up(), *log.start_up(), *idle])
    assert "skyrl.starvation-engines-idle" in found(evidence)
    assert word(evidence) == "starvation"
    assert word(log.evidence([*log.bring_up(), *log.start_up(), *idle[:2]])) == "executing"


def test_engines_rest_while_the_policy_trains() -> None:
    """Idle engines inside an open training phase are how it should be."""
    idle = [log.engine(0.0, 0, 0) for _ in range(5)]
    started = log.finelog("10:19:00", 0, "Started: 'policy_train'")
    finished = log.finelog("10:28:00", 0, "Finished: 'policy_train', time cost: 540.1s")
    texts = [*log.healthy(), started, *idle]
    assert word(log.evidence(texts)) == "progressing"
    assert word(log.evidence([*texts, finished])) == "starvation"


def test_one_busy_engine_is_no_starvation() -> None:
    """Engines are told apart by their process, since each calls itself 000."""
    other = log.engine(80.0, 4, 0).replace("pid=88", "pid=89")
    texts = [*log.healthy(), *[log.engine(0.0, 0, 0) for _ in range(3)], other]
    assert word(log.evidence(texts)) == "progressing"


def test_engines_that_hold_requests_and_generate_nothing_are_a_wedge() -> None:
    """Running above 0 and throughput 0 is a hang, not a lack of work."""
    evidence = log.evidence([*log.healthy(), *[log.engine(0.0, 8, 3) for _ in range(3)]])
    assert word(evidence) == "wedge"
    assert "skyrl.wedge-engines-stalled" in found(evidence)


@pytest.mark.parametrize(
    ("reports", "is_starved"),
    [
        ([(61.0, 24, 310)] * 3, True),
        ([(61.0, 24, 310), (60.0, 24, 305)], True),
        ([(61.0, 24, 310)], False),
        ([(61.0, 24, 60)] * 3, False),
        ([(20.0, 24, 310), (61.0, 24, 310), (140.0, 24, 310)], False),
    ],
)
def test_a_queue_far_longer_than_what_runs_is_starvation(
    reports: list[tuple[float, int, int]], is_starved: bool
) -> None:
    """Waiting far above running with flat throughput; a queue that is being worked off is not."""
    texts = [*log.bring_up(), *[log.engine(*report) for report in reports]]
    evidence = log.evidence(texts)
    assert ("skyrl.starvation-oversubscribed" in found(evidence)) == is_starved
    assert (word(evidence) == "starvation") == is_starved


def test_a_frozen_buffer_is_a_wedge() -> None:
    """The same count while its clock goes on for ten minutes."""
    texts = [*log.bring_up(), *log.start_up()]
    frozen = [log.buffer(12, elapsed) for elapsed in ("11:02", "16:40", "1:21:30")]
    assert word(log.evidence([*texts, *frozen])) == "wedge"
    assert (
        "70 minutes" in found(log.evidence([*texts, *frozen]))["skyrl.wedge-buffer-frozen"].message
    )
    moving = [log.buffer(done, elapsed) for done, elapsed in ((12, "11:02"), (13, "31:02"))]
    assert word(log.evidence([*texts, *moving])) == "progressing"
    full = [log.buffer(64, elapsed) for elapsed in ("11:02", "1:21:30")]
    assert word(log.evidence([*texts, *full])) == "progressing"


def test_a_frozen_buffer_with_idle_engines_is_starvation() -> None:
    """Nothing waits and nothing runs: the pipeline before the engines has stopped."""
    frozen = [log.buffer(12, elapsed) for elapsed in ("11:02", "41:02")]
    idle = [log.engine(0.0, 0, 0) for _ in range(3)]
    assert word(log.evidence([*log.bring_up(), *log.start_up(), *idle, *frozen])) == "starvation"


@pytest.mark.parametrize(
    ("now", "state", "expected"),
    [
        ("2026-07-08T10:30:00Z", State.RUNNING, "progressing"),
        ("2026-07-08T11:09:00Z", State.RUNNING, "wedge"),
        ("2026-07-08T11:09:00Z", State.SUCCEEDED, "succeeded"),
        ("2026-07-08T11:09:00Z", State.UNKNOWN, "no evidence"),
    ],
)
def test_silence_of_a_running_job_is_a_wedge(now: str, state: State, expected: str) -> None:
    """The last line is 40 minutes old while the scheduler says running."""
    assert word(log.evidence(log.healthy(), state, now=now)) == expected


def test_silence_is_longer_while_the_policy_trains() -> None:
    """One step at 131k tokens may take 55 minutes without a line."""
    texts = [*log.healthy(), log.finelog("10:29:10", 0, "Started: 'policy_train'")]
    assert word(log.evidence(texts, now="2026-07-08T11:25:00Z")) == "progressing"
    assert word(log.evidence(texts, now="2026-07-08T12:05:00Z")) == "wedge"


def test_times_come_from_the_cluster_first_and_cross_midnight() -> None:
    """`LogLine.at` goes before the clock of a prefix; a clock without a date may be yesterday's."""
    line = LogLine(
        log.finelog("10:00:00", 0, "avg_final_rewards: 0.2"), 0, 0, "2026-07-08T10:29:00Z"
    )
    fresh = log.evidence([])._replace(lines=(line,))
    assert word(fresh) == "progressing"
    midnight = [log.finelog("23:40:00", 0, "avg_final_rewards: 0.2")]
    assert word(log.evidence(midnight, now="2026-07-09T00:10:00Z")) == "progressing"
    assert word(log.evidence(midnight, now="2026-07-09T00:30:00Z")) == "wedge"
    assert word(log.evidence(["avg_final_rewards: 0.2"])) == "progressing"
