"""Rungs and verdicts on synthetic logs: healthy, and every way of not being so."""

from __future__ import annotations

import pytest

from rlaunch.ladder import climb
from rlaunch.model import LogLine, Milestone, RunFacts, State
from rlaunch.skyrl.diagnosis import diagnose
from rlaunch.skyrl.milestones import milestones

from . import appendix as log
from .appendix import climbed, reached, rung, verdict, without


def test_a_healthy_run_climbs_all_rungs() -> None:
    """Every rung is reached by the literal line that proves it, on the rank that printed it."""
    rungs = climbed(log.evidence(log.healthy()))
    assert reached(rungs) == [1, 2, 3, 4, 5, 6, 7, 8]
    proof = {one.milestone.rung: [(line.rank, line.text) for line in one.lines] for one in rungs}
    assert proof[1][0] == (0, log.finelog("09:14:02", 0, "[rl-iris] MarinSkyRL now at 518179d"))
    assert [rank for rank, _ in proof[2]] == list(range(8))
    assert all(text in log.healthy() for lines in proof.values() for _, text in lines)
    assert "Ray nodes alive: 5/8" not in str(proof[3])


def test_a_healthy_run_is_progressing() -> None:
    """With steps that finish the verdict is progress, and its reasons show state and line."""
    judged = verdict(log.evidence(log.healthy(), trials=12))
    assert judged.word == "progressing"
    assert judged.reasons[0] == "state RUNNING"
    assert "12 trials completed" in judged.reasons
    assert "Successfully saved checkpoint for global_step_2" in judged.reasons[-1]


def test_no_completed_trial_is_executing_never_healthy() -> None:
    """All rungs below the last, engines busy, no trial yet: it executes, and no more is claimed."""
    texts = [*log.bring_up(), *log.start_up(), log.engine(61.7, 6, 0)]
    judged = verdict(log.evidence(texts, trials=0))
    assert judged.word == "executing"
    assert "0 trials completed yet" in judged.reasons
    assert any("not reached: rung 8" in reason for reason in judged.reasons)


@pytest.mark.parametrize(
    "texts", [["hello"], [*log.bring_up(), *log.start_up(), log.engine(61.7, 6, 0)]]
)
def test_trials_that_nobody_counted_are_not_none(texts: list[str]) -> None:
    """Without a count nothing says "0": that the log shows none is all that is claimed."""
    judged = verdict(log.evidence(texts, trials=None))
    assert judged.word == "executing"
    assert "trials not counted, and the log shows no completed one" in judged.reasons
    assert not any("0 trials" in reason for reason in judged.reasons)


def test_an_empty_buffer_is_no_trial() -> None:
    """`0/64` proves nothing: the rung needs a completed one."""
    empty = "Generation Buffer Progress:   0%|          | 0/64 [00:00<?, ?it/s]"
    rungs = climbed(log.evidence([*log.bring_up(), log.finelog("10:00:00", 0, empty)]))
    assert 8 not in reached(rungs)


def test_trials_on_disk_are_evidence_without_a_line() -> None:
    """Completed trials that were counted make the last rung, whatever the log lost."""
    texts = [*log.bring_up(), *log.start_up()]
    evidence = log.evidence(texts, trials=3, now="2026-07-08T09:45:00Z")
    assert 8 in reached(climbed(evidence))
    assert verdict(evidence).word == "progressing"


@pytest.mark.parametrize("gone", [[0], [5], [2, 6]])
def test_the_missing_ranks_of_staging_are_named(gone: list[int]) -> None:
    """Seven of eight ranks are not a rung, and the one that lacks is named."""
    texts = without(log.bring_up(), *[f"/rl-x/{rank} |" for rank in gone], "joined", "alive: 8/8")
    evidence = log.evidence(texts, now="2026-07-08T09:17:00Z")
    data = rung(climbed(evidence), 2)
    assert not data.reached
    assert data.missing == tuple(gone)
    assert [line.rank for line in data.lines] == [r for r in range(8) if r not in gone]
    names = "rank " + str(gone[0]) if len(gone) == 1 else "ranks 2, 6"
    assert data.milestone.absence.startswith(f"no line from {names}: ")
    judged = verdict(evidence)
    assert judged.word == "executing"
    assert any(names in reason for reason in judged.reasons)
    (finding,) = [f for f in diagnose(evidence) if f.code == "skyrl.ranks-missing"]
    assert names in finding.message
    over = log.evidence(texts, State.FAILED, now="2026-07-08T09:17:00Z")
    assert "skyrl.ranks-missing" not in {f.code for f in diagnose(over)}  # no line will come


def test_the_gangs_size_is_read_from_the_lines_when_nobody_knows_it() -> None:
    """A job that rlaunch did not start says `rank 3/8` itself."""
    texts = without(log.bring_up(), "/rl-x/5 |")
    assert rung(climbed(log.evidence(texts, nodes=None)), 2).missing == (5,)


def test_data_that_are_being_staged_do_not_lie_there_yet() -> None:
    """The line that begins the staging proves nothing: a node whose staging failed printed it too."""
    texts = without(log.bring_up(), "staged to node-local")
    assert not rung(climbed(log.evidence(texts)), 2).reached


def test_ranks_that_stay_away_are_a_wedge() -> None:
    """Ten minutes after the others staged, a rank without a line is an error."""
    texts = without(log.bring_up(), "/rl-x/5 |", "joined", "alive: 8/8")
    judged = verdict(log.evidence(texts, now="2026-07-08T09:30:00Z"))
    assert judged.word == "wedge"
    assert "rank 5" in judged.reasons[1]


def test_a_rung_of_the_source_that_is_lost_is_shown_as_lost() -> None:
    """Without rung 1 the rest still counts; the ladder says that nothing proves the source."""
    rungs = climbed(log.evidence(without(log.healthy(), "now at")))
    assert reached(rungs) == [2, 3, 4, 5, 6, 7, 8]
    assert "image's own source" in rung(rungs, 1).milestone.absence


def test_only_the_newest_attempt_counts() -> None:
    """What an earlier attempt reached is not evidence for this one."""
    rungs = climbed(log.evidence([*log.healthy(), *log.bring_up(attempt=1)]))
    assert reached(rungs) == [1, 2, 3]
    assert {line.attempt for line in rung(rungs, 2).lines} == {1}


def test_an_attempt_without_lines_is_no_evidence() -> None:
    """The state names attempt 2, the log ends with attempt 1: nothing is known of it."""
    judged = verdict(log.evidence([*log.healthy(), *log.bring_up(attempt=1)], attempt=2))
    assert judged.word == "no evidence"
    assert "there is no log line of attempt 2" in judged.reasons


def test_driver_lines_belong_to_the_attempt_of_the_agent_around_them() -> None:
    """Lines without a mark inherit the attempt of the marked line before them, rank by rank."""
    texts = [
        "[rlaunch-node] rank=0/2 attempt=0 Launching training driver",
        "avg_final_rewards: 0.9",
        "[rlaunch-node] rank=0/2 attempt=1 Launching training driver",
        "Total training steps: 4",
    ]
    assert reached(climbed(log.evidence(texts, nodes=2))) == [7]


@pytest.mark.parametrize("prefix", ["[task-runtime] ", "[start_rl_iris_controller] ", ""])
def test_older_prefixes_are_read_alike(prefix: str) -> None:
    """What the controller was called does not matter."""
    assert reached(climbed(log.evidence(log.bring_up(prefix=prefix)))) == [1, 2, 3]


def test_the_node_agents_own_lines_are_read() -> None:
    """`[rlaunch-node]` gives rank and attempt where the transport gives none."""
    say = "2026-07-08T10:00:00.123Z [rlaunch-node] rank={}/2 attempt=3 {}"
    staged = "train_data staged to node-local paths: ['/d']"
    texts = [say.format(rank, staged) for rank in (0, 1)]
    texts.append(say.format(0, "All 2 Ray node(s) joined. Resources: {}"))
    rungs = climbed(log.evidence(texts, nodes=2))
    assert reached(rungs) == [2, 3]
    assert [(line.rank, line.attempt) for line in rung(rungs, 2).lines] == [(0, 3), (1, 3)]
    assert rung(climbed(log.evidence(texts[1:], nodes=2)), 2).missing == (0,)


def test_ranks_that_the_cluster_gives_go_before_words() -> None:
    """A plugin that knows the rank and attempt of a line says so in the line."""
    lines = tuple(
        LogLine("train_data staged to node-local paths: ['/d']", rank, 4) for rank in (0, 1)
    )
    evidence = log.evidence([], nodes=2)._replace(lines=lines)
    assert [line.attempt for line in rung(climbed(evidence), 2).lines] == [4, 4]


def test_lines_that_ray_folded_count_for_the_ranks_that_they_stand_for() -> None:
    """A milestone that is wanted of every rank tolerates Ray's removal of duplicates."""
    wanted = Milestone(1, "ready", "every worker is ready", (r"worker is ready",), every_rank=True)
    folded = (
        "(W pid=1) worker is ready [repeated 7x across cluster] (Ray deduplicates logs by default)"
    )
    (whole,) = climb([wanted], log.evidence([log.finelog("10:00:00", 0, folded)]))
    assert (whole.reached, whole.missing, whole.seen) == (True, (), 8)
    (part,) = climb(
        [wanted], log.evidence([log.finelog("10:00:00", 0, folded.replace("7x", "5x"))])
    )
    assert (part.reached, part.missing) == (False, (1, 2, 3, 4, 5, 6, 7))


def test_a_rung_that_does_not_apply_is_left_out() -> None:
    """Without routed experts there is no rung 6, and a run of ours without a pin has no rung 1."""
    facts = RunFacts(log.JOB, "rl-x-1", nodes=8, arguments=("python", "x.pyz", "trainer.seed=1"))
    texts = without(log.healthy(), "now at", "routed-experts")
    rungs = climbed(log.evidence(texts, facts=facts))
    assert [one.milestone.rung for one in rungs] == [2, 3, 4, 5, 7, 8]


@pytest.mark.parametrize(
    ("arguments", "env", "asked"),
    [
        ((), {}, False),
        ((), {"VLLM_ALLOW_ROUTED_EXPERTS_DCP": "1"}, True),
        (("2", "true"), {}, True),
        (("1", "true"), {}, False),
        (("2", "false"), {}, False),
    ],
)
def test_rung_6_is_for_runs_with_routed_experts_and_split_context(
    arguments: tuple[str, ...], env: dict[str, str], asked: bool
) -> None:
    """The guard's line is wanted exactly where R3 and DCP are asked for together."""
    names = (
        "generator.inference_engine_decode_context_parallel_size=",
        "++generator.engine_init_kwargs.enable_return_routed_experts=",
    )
    told = tuple(name + value for name, value in zip(names, arguments, strict=False))
    facts = RunFacts(log.JOB, "r", arguments=told, env=env, skyrl_ref="abc")
    by_rung = {milestone.rung: milestone.when for milestone in milestones(facts)}
    assert by_rung == {1: True, 2: True, 3: True, 4: True, 5: True, 6: asked, 7: True, 8: True}


def test_a_rung_keeps_few_lines_of_many() -> None:
    """A line that comes ten thousand times is kept thrice: the first two and the newest."""
    texts = [f"avg_final_rewards: {n / 10_000}" for n in range(10_000)]
    trials = rung(climbed(log.evidence(texts)), 8)
    assert [line.text for line in trials.lines] == [texts[0], texts[1], texts[-1]]
    assert trials.seen == 10_000
