"""Known lines by name, and the rules for wedge and starvation, on synthetic logs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch.ladder import WORDS, climb, judge
from rlaunch.model import Evidence, Finding, LogLine, RunFacts, State
from rlaunch.skyrl.diagnosis import CODES, diagnose
from rlaunch.skyrl.milestones import milestones
from rlaunch.skyrl.signatures import BENIGN, FATAL, SIGNATURES, Signature

from . import appendix as log

SAMPLES = {
    "fatal-engine-dead": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    "fatal-cuda-out-of-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    "fatal-oom-killed": "Last State: Terminated  Reason: OOMKilled  Exit Code: 137",
    "fatal-watchdog-stuck": "[Rank 3] watchdog got stuck for 1800 seconds without making progress",
    "fatal-abort": "Fatal Python error: Aborted",
    "fatal-store-broken": "[W socket] TCPStore.cpp:106 sendBytes failed on fd=6: Broken pipe",
    "fatal-unknown-key": "hydra.errors.ConfigCompositionException: Key 'fooo' is not in struct",
    "fatal-ray-system-config": "System config parameters can only be set on the head node.",
    "fatal-moe-gate": "AttributeError: could not resolve MoE attribute 'norm_topk_prob'",
    "fatal-gang-incomplete": "TimeoutError: Only 7/8 Ray nodes joined within 1800s.",
    "fatal-data-missing": "FileNotFoundError: [Errno 2] No such file: '/tasks/a/17/task.toml'",
    "benign-shared-memory-wait":
        "[shm_broadcast.py:466] No available shared memory broadcast block found in 60 seconds.",
    "benign-unknown-variable":
        "Unknown vLLM environment variable detected: VLLM_ALLOW_ROUTED_EXPERTS_DCP",
    "benign-image-pull": "Back-off pulling image: ImagePullBackOff: unexpected EOF",
    "benign-token-length":
        "Token indices sequence length is longer than the maximum for this model (32769 > 32768).",
    "benign-prob-diff": "{'policy/prob_diff_mean': 3482910.25}",
    "benign-operation-count": "[0] NCCL INFO opCount dead",
    "benign-weights-retry": "[rank 7] transient HF weight-index/safetensors fetch error loading 'Q/M'",
}  # fmt: skip
WATCHDOG = (
    "[rank3] Watchdog caught collective operation: WorkNCCL(OpType=ALLREDUCE) ran for 1800012 ms"
)
NO_FILE = "OSError: Qwen/Qwen3-8B does not appear to have a file named model.safetensors"


def found(evidence: Evidence) -> dict[str, Finding]:
    """The findings by code."""
    return {finding.code: finding for finding in diagnose(evidence)}


def word(evidence: Evidence) -> str:
    """The verdict's word."""
    rungs = climb(milestones(evidence.facts), evidence)
    return judge(rungs, evidence, tuple(diagnose(evidence))).word


def late(*texts: str, clock: str = "10:29:00", rank: int = 0) -> list[str]:
    """A healthy run, then these lines."""
    return [*log.healthy(), *[log.finelog(clock, rank, text) for text in texts]]


def test_a_healthy_run_has_nothing_but_a_benign_retry() -> None:
    """The one remark on a healthy log is the fetch of weights that was tried again."""
    assert set(found(log.evidence(log.healthy()))) == {"skyrl.benign-weights-retry"}


@pytest.mark.parametrize("signature", SIGNATURES, ids=lambda signature: signature.slug)
def test_every_known_line_is_found_by_its_name(signature: Signature) -> None:
    """Each signature finds its sample, shows it literally with its rank, and finds no other's."""
    slug = signature.slug
    line = log.finelog("10:29:00", 6, SAMPLES[slug])
    finding = found(log.evidence([*log.steps(), line]))[f"skyrl.{slug}"]
    assert line in finding.message
    assert finding.place == "rank 6"
    assert finding.level == ("error" if slug.startswith("fatal-") else "note")
    others = [text for name, text in SAMPLES.items() if name != slug]
    assert not any(re.search(signature.pattern, text) for text in others)


@pytest.mark.parametrize("slug", [signature.slug for signature in FATAL])
def test_a_fatal_line_is_a_failure_whatever_was_reached(slug: str) -> None:
    """A healthy ladder does not outweigh a line that ends the run."""
    assert word(log.evidence(late(SAMPLES[slug]))) == "failed"


@pytest.mark.parametrize("slug", [signature.slug for signature in BENIGN])
def test_a_benign_line_changes_nothing(slug: str) -> None:
    """A line that only looks bad leaves the verdict as it was."""
    assert word(log.evidence(late(SAMPLES[slug]))) == "progressing"


def test_a_fatal_line_of_an_earlier_attempt_is_past() -> None:
    """A run that was started again is judged by what it does now."""
    first = log.finelog("09:00:00", 0, SAMPLES["fatal-engine-dead"])
    again = [log.finelog("10:29:00", 0, "avg_final_rewards: 0.2", attempt=1)]
    evidence = log.evidence([first, *again])
    assert "skyrl.fatal-engine-dead" not in found(evidence)
    assert word(evidence) == "progressing"


def test_repeated_lines_are_counted_with_those_that_ray_folded() -> None:
    """The finding shows the first line and how often it came."""
    folded = SAMPLES["fatal-engine-dead"] + " [repeated 31x across cluster] (Ray deduplicates logs)"
    evidence = log.evidence(late(SAMPLES["fatal-engine-dead"], folded))
    assert "seen 33 times" in found(evidence)["skyrl.fatal-engine-dead"].message


def test_one_remark_of_the_watchdog_is_benign_and_an_abort_makes_it_fatal() -> None:
    """NCCL's watchdog alone is a slow operation; with an abort, or twice, a rank is gone."""
    lone = found(log.evidence(late(WATCHDOG)))
    assert lone["skyrl.benign-watchdog"].level == "note"
    assert "skyrl.fatal-collective-timeout" not in lone
    assert word(log.evidence(late(WATCHDOG))) == "progressing"
    for more in (WATCHDOG, "To avoid data inconsistency, we are taking the entire process down."):
        evidence = log.evidence(late(WATCHDOG, more))
        assert "skyrl.fatal-collective-timeout" in found(evidence)
        assert word(evidence) == "failed"
    timed_out = "WorkNCCL(SeqNum=7, OpType=ALLGATHER) timeout"
    assert "skyrl.fatal-collective-timeout" in found(log.evidence(late(timed_out)))


def test_missing_weights_are_fatal_without_a_retry() -> None:
    """The same error is benign while it is tried again, and when the models were done after it."""
    early = [*log.bring_up(), log.finelog("09:22:00", 0, NO_FILE)]
    now = "2026-07-08T09:23:00Z"
    assert "skyrl.fatal-no-weights" in found(log.evidence(early, now=now))
    assert word(log.evidence(early, now=now)) == "failed"
    recovered = [*early, log.finelog("09:24:00", 0, "init policy/ref/critic models done")]
    assert "skyrl.fatal-no-weights" not in found(log.evidence(recovered, now=now))
    retried = NO_FILE.replace("OSError", "fetch error on attempt 2/6; retrying in 4s: OSError")
    texts = [*log.bring_up(), log.finelog("09:22:00", 0, retried)]
    assert "skyrl.fatal-no-weights" not in found(log.evidence(texts, now=now))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("harbor.errors.AddTestsDirError: cannot copy tests", "skyrl.fatal-no-sandbox"),
        ("harbor.errors.VerificationNotCompletedError", "skyrl.fatal-not-verified"),
    ],
)
def test_an_error_of_all_trials_is_fatal_and_of_some_a_warning(error: str, code: str) -> None:
    """Only when no trial ended otherwise is it the set-up's fault."""
    base = [*log.bring_up(), *log.start_up()]
    trials = [log.finelog("10:20:00", 0, error) for _ in range(4)]
    assert code in found(log.evidence([*base, *trials]))
    assert code in found(log.evidence([*base, *trials], trials=4))
    assert word(log.evidence([*base, *trials], trials=4)) == "failed"
    for evidence in (
        log.evidence([*base, *trials], trials=64),
        log.evidence([*base, *trials[:2]]),
        log.evidence([*base, *trials, log.finelog("10:28:00", 0, "avg_final_rewards: 0.2")]),
    ):
        codes = found(evidence)
        assert code not in codes
        assert codes["skyrl.trial-errors"].level == "warning"


def test_sockets_instead_of_infiniband_are_a_warning() -> None:
    """The run works, many times slower than it could."""
    evidence = log.evidence(late("[0] NCCL INFO NET/Socket : Using [0]eth0:10.0.4.11<0>"))
    assert found(evidence)["skyrl.slow-network"].level == "warning"
    assert word(evidence) == "progressing"


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


def test_every_code_has_a_page_and_no_code_two() -> None:
    """`rlaunch explain` knows each of them."""
    names = [code.code for code in CODES]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"skyrl\.[a-z0-9-]+", name) for name in names)
    assert all(len(code.page.splitlines()[0]) > 15 for code in CODES)
    assert {f"skyrl.{signature.slug}" for signature in SIGNATURES} <= set(names)


LINES = st.sampled_from([*log.healthy(), *SAMPLES.values(), WATCHDOG, NO_FILE, "", "x" * 300])


@given(
    st.lists(LINES, max_size=30),
    st.sampled_from([None, *State]),
    st.sampled_from([None, 1, 2, 8]),
    st.sampled_from([None, 0, 5]),
)
@settings(max_examples=200, deadline=None)
def test_any_log_under_any_state_gets_one_known_verdict(
    texts: list[str], state: State | None, nodes: int | None, trials: int | None
) -> None:
    """Judging is total: a known word with reasons, only codes that have a page, nothing guessed."""
    facts = RunFacts(log.JOB, nodes=nodes)
    evidence = log.evidence(texts, state, trials=trials, facts=facts)
    findings = tuple(diagnose(evidence))
    assert {finding.code for finding in findings} <= {code.code for code in CODES}
    judged = judge(climb(milestones(facts), evidence), evidence, findings)
    assert judged.word in WORDS
    assert judged.reasons
    if not texts and not trials and (state is None or not state.ended):
        assert judged.word == "no evidence"
