"""Known lines by name, and the rules that weigh several of them, on synthetic logs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlaunch.ladder import WORDS, climb, judge
from rlaunch.model import RunFacts, State
from rlaunch.skyrl.diagnosis import CODES, diagnose
from rlaunch.skyrl.milestones import milestones
from rlaunch.skyrl.signatures import BENIGN, FATAL, SIGNATURES, Signature

from . import appendix as log
from .appendix import found, word

SAMPLES = {
    "fatal-engine-dead": "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.",
    "fatal-cuda-out-of-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",
    "fatal-oom-killed": "Last State: Terminated  Reason: OOMKilled  Exit Code: 137",
    "fatal-watchdog-stuck": "[Rank 3] watchdog got stuck for 1800 seconds without making progress",
    "fatal-abort": "Fatal Python error: Aborted",
    "fatal-disk-full": "OSError: [Errno 28] No space left on device",
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
