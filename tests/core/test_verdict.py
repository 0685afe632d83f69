"""Verdicts by state and by what is not known, on synthetic logs."""

from __future__ import annotations

import pytest

from rlaunch.ladder import judge
from rlaunch.model import Evidence, Finding, JobRef, LogLine, RunFacts, State, Status

from . import appendix as log
from .appendix import climbed, verdict


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (State.SUCCEEDED, "succeeded"),
        (State.FAILED, "failed"),
        (State.KILLED, "failed"),
        (State.WORKER_FAILED, "failed"),
        (State.UNSCHEDULABLE, "failed"),
        (State.ABSENT, "no evidence"),
        (State.UNKNOWN, "no evidence"),
        (None, "no evidence"),
        (State.RUNNING, "progressing"),
    ],
)
def test_the_end_of_a_run_is_told_by_its_state(state: State | None, word: str) -> None:
    """The same log under every state: lines never say that a run has ended."""
    texts = [*log.healthy(), log.finelog("10:29:30", 0, "Training done!")]
    judged = verdict(log.evidence(texts, state))
    assert judged.word == word
    assert judged.reasons


def test_a_job_that_is_gone_without_a_word_is_no_evidence() -> None:
    """No record, no terminal line: what was last seen is said, and nothing is concluded."""
    judged = verdict(log.evidence(log.healthy(), State.ABSENT))
    assert judged.word == "no evidence"
    assert any("does not know the job" in reason for reason in judged.reasons)
    assert any(reason.startswith("last seen: rung 8") for reason in judged.reasons)


def test_what_could_not_be_obtained_is_said() -> None:
    """No state and no lines: the verdict is ignorance, with the reasons of it."""
    missing = ("logs: the controller did not answer", "state: refused")
    judged = verdict(log.evidence([], State.UNKNOWN, missing=missing))
    assert judged.word == "no evidence"
    assert all(f"could not be obtained: {what}" in judged.reasons for what in missing)


@pytest.mark.parametrize("state", [State.RUNNING, State.PENDING, State.WAITING, State.STARTING])
def test_a_live_job_without_lines_is_no_evidence(state: State) -> None:
    """Running alone proves nothing."""
    assert verdict(log.evidence([], state)).word == "no evidence"


def test_lines_without_a_rung_are_executing_at_the_bottom() -> None:
    """A job that prints and has reached nothing is not called anything better."""
    judged = verdict(log.evidence(["hello"]))
    assert judged.word == "executing"
    assert "no rung of the ladder is reached yet" in judged.reasons


def test_findings_of_any_plugin_decide_by_the_first_word_of_their_slug() -> None:
    """`fatal-`, `wedge-` and `starvation-` errors decide, in this order; warnings never do."""
    evidence = log.evidence(log.healthy())
    rungs = climbed(evidence)

    def word(*codes: str) -> str:
        return judge(rungs, evidence, [Finding("error", code, "m") for code in codes]).word

    assert word("acme.starvation-x") == "starvation"
    assert word("acme.starvation-x", "acme.wedge-y") == "wedge"
    assert word("acme.wedge-y", "acme.fatal-z", "acme.starvation-x") == "failed"
    assert word("acme.fatalism", "acme.other") == "progressing"
    assert judge(rungs, evidence, [Finding("warning", "a.fatal-x", "m")]).word == "progressing"


def test_the_state_is_quoted_with_all_that_is_known_of_it() -> None:
    """Reason, exit code, signal and attempt stand in the verdict's first reason."""
    status = Status(log.JOB, State.FAILED, "driver-signal", attempt=2, exit_code=137, signal=9)
    evidence = log.evidence([])._replace(states=(status,))
    first = verdict(evidence).reasons[0]
    assert first == "state FAILED (driver-signal) exit code 137 signal 9 attempt 2"


def test_a_run_that_succeeded_names_the_rungs_that_its_log_lacks() -> None:
    """Success is the state's to tell; lost lines are said, not held against it."""
    judged = verdict(log.evidence(log.bring_up(), State.SUCCEEDED))
    assert judged.word == "succeeded"
    assert "the log has no line for rung 4, 5, 7, 8" in judged.reasons


def test_a_failed_run_quotes_the_drivers_last_line() -> None:
    """Without a known fatal line the driver's own last word is the reason that is shown."""
    failed = Status(JobRef("x", "y"), State.FAILED, "driver-exit", exit_code=1)
    lines = (
        LogLine("rlaunch-smoke: checkpoint `/nowhere` cannot be read", 0, 1),
        LogLine("[ray] leaving", 0, 1),
        LogLine("[rlaunch-node] rank=0/1 attempt=1 Ended: failed", 0, 1),
    )
    evidence = Evidence(RunFacts(nodes=1), (failed,), lines, "2026-01-01T00:00:00Z")
    judged = judge((), evidence, ())
    assert judged.word == "failed"
    assert "checkpoint `/nowhere` cannot be read" in judged.reasons[1]
