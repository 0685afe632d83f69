"""What is said of a run that ended before its driver was launched, and of one that had a driver."""

from __future__ import annotations

import pytest

from rlaunch.ladder import climb, judge
from rlaunch.model import Evidence, JobRef, LogLine, RunFacts, State, Status
from rlaunch.skyrl.milestones import milestones

from . import appendix as log

WRONG = "no dataset is called `x`"
PREFIXES = ["", "2026-07-08T10:00:00.123Z ", "[09:14:09] task=/u/rl-x/0 | "]


def agent(rank: int, said: str) -> LogLine:
    """One line of a node agent."""
    return LogLine(f"[rlaunch-node] rank={rank}/2 attempt=1 {said}", rank, 1)


def other(rank: int, text: str) -> LogLine:
    """One line of what the agent runs."""
    return LogLine(text, rank, 1)


def ended(*lines: LogLine, reason: str, detail: str = "", code: int | None = None) -> Evidence:
    """A run of two nodes that failed."""
    native = {"detail": detail} if detail else {}
    status = Status(
        JobRef("x", "y"), State.FAILED, reason, attempt=1, exit_code=code, native=native
    )
    return Evidence(RunFacts(run_id="r", nodes=2), (status,), lines, "2026-01-01T00:00:00Z")


def reasons(evidence: Evidence) -> tuple[str, ...]:
    """The reasons of the verdict."""
    rungs = climb(milestones(evidence.facts), evidence)
    return judge(rungs, evidence, ()).reasons


def absences(evidence: Evidence) -> dict[int, str]:
    """What each rung that was not reached says of it."""
    rungs = climb(milestones(evidence.facts), evidence)
    return {one.milestone.rung: one.milestone.absence for one in rungs if not one.reached}


STAGING = [
    agent(rank, f"Staging train_data on this node (rank {rank}/2): ['x']") for rank in (0, 1)
]
STAGED = [
    line
    for rank in (0, 1)
    for line in (
        other(rank, '{"staged": [{"name": "x", "path": "/d", "count": 3}]}'),
        agent(rank, "train_data staged to node-local paths: ['/d']"),
    )
]
FAILED = f"staging exited 2: {WRONG}"


def test_a_rank_whose_staging_failed_is_told_as_such() -> None:
    """Rank 1 failed and rank 0 ended for it: the driver is not quoted, rank 1's staging program is."""
    blamed = f"rank 1 (node b): {FAILED}"
    evidence = ended(
        *STAGING, other(0, "fetching 1 of 9"), other(1, WRONG),
        agent(1, f"Stopping: staging-failed: {FAILED}"),
        agent(0, f"Stopping: staging-failed: {blamed}"), reason="staging-failed", detail=blamed,
    )  # fmt: skip
    told = reasons(evidence)
    assert told[0] == f"state FAILED (staging-failed) attempt 1: {blamed}"
    assert told[1] == "the driver was not launched: rank 1 was in the phase `staging`"
    assert told[2] == f"the staging program's last line (rank 1): `{WRONG}`"
    assert "driver's last line" not in str(told)
    says = absences(evidence)
    assert says[2] == (
        f"rank 1 ended there: staging-failed: {FAILED}; no line from rank 0, for the run was over"
    )
    assert says[3] == says[8] == "the run had ended before"


@pytest.mark.parametrize("word", ["", "fetching 1 of 9"])
def test_a_rank_that_was_told_of_anothers_end_is_not_blamed(word: str) -> None:
    """Rank 1 repeats what rank 0 told it while it was staging itself."""
    evidence = ended(
        *STAGING, *([other(1, word)] if word else []), other(0, WRONG),
        agent(0, f"Stopping: staging-failed: {FAILED}"), agent(1, f"Stopping: staging-failed: {FAILED}"),
        reason="staging-failed",
    )  # fmt: skip
    assert absences(evidence)[2].startswith("rank 0 ended there: ")
    assert f"staging-failed: {FAILED}" in reasons(evidence)


def test_all_ranks_that_failed_alike_are_named() -> None:
    """A misspelt name fails everywhere in the same words."""
    lines = [
        line
        for rank in (0, 1)
        for line in (other(rank, WRONG), agent(rank, f"Stopping: staging-failed: {FAILED}"))
    ]
    says = absences(ended(*STAGING, *lines, reason="staging-failed"))
    assert says[2] == f"ranks 0, 1 ended there: staging-failed: {FAILED}"


def test_without_a_log_the_detail_names_the_rank() -> None:
    """What the state alone knows is enough to say that there was no driver, and whose staging failed."""
    evidence = ended(reason="staging-failed", detail=f"rank 1 (node b): {FAILED}")
    assert reasons(evidence)[1] == "the driver was not launched: rank 1 was in the phase `staging`"
    assert absences(evidence)[2].startswith("rank 1 ended there: staging-failed: rank 1 (node b)")


def test_a_clusters_own_words_for_the_end_do_not_hide_whose_it_was() -> None:
    """Iris says `rank 1 exited 65`, and the lines of rank 0 were lost: rank 1's agent is believed."""
    evidence = ended(
        STAGING[1], other(1, WRONG), agent(1, f"Stopping: staging-failed: {FAILED}"), agent(0, "ROLE=head"),
        reason="rank 1 exited 65: task failed",
    )  # fmt: skip
    told = reasons(evidence)
    assert told[1:4] == (
        "the driver was not launched: rank 1 was in the phase `staging`",
        f"staging-failed: {FAILED}",
        f"the staging program's last line (rank 1): `{WRONG}`",
    )


def test_a_run_whose_ray_failed_quotes_ray() -> None:
    """What staging printed before is no driver's line, and the gang's rung says what it ended for."""
    evidence = ended(
        *STAGING, *STAGED, agent(0, "Starting Ray HEAD: ray start"), other(0, "[ray] no room in /dev/shm"),
        agent(0, "Stopping: ray-failed: Ray exited 1: no room in /dev/shm"), other(0, "[ray] leaving"),
        reason="ray-failed",
    )  # fmt: skip
    told = reasons(evidence)
    assert told[1:4] == (
        "the driver was not launched: rank 0 was in the phase `ray`",
        "ray-failed: Ray exited 1: no room in /dev/shm",
        "Ray's last line (rank 0): `[ray] no room in /dev/shm`",
    )
    says = absences(evidence)
    assert says[3] == "rank 0 ended there: ray-failed: Ray exited 1: no room in /dev/shm"
    assert "staged" not in str(told)


def test_a_run_whose_supervisor_was_lost_early_names_its_phase() -> None:
    """Nobody printed anything wrong: the agent's own last line says how far it was."""
    waiting = "Waiting for 2 Ray node(s) at 10.0.0.1:6379 (timeout 1800s)..."
    evidence = ended(
        *STAGING, *STAGED, agent(0, waiting), agent(0, "Ray nodes alive: 1/2"),
        agent(0, "Stopping: supervisor-lost: the supervisor is gone"), reason="supervisor-lost",
    )  # fmt: skip
    told = reasons(evidence)
    assert told[1] == "the driver was not launched: rank 0 was in the phase `joining`"
    assert told[3] == "the node agent's last line (rank 0): `Ray nodes alive: 1/2`"


@pytest.mark.parametrize("reason", ["driver-exit", "terminated", "worker-lost"])
@pytest.mark.parametrize("prefix", PREFIXES)
def test_the_drivers_last_line_is_quoted_of_a_driver_that_was_launched(
    reason: str, prefix: str
) -> None:
    """After the line of its launch, what is neither the agent's nor Ray's is the driver's, saving too."""
    launch = agent(0, "Launching the training driver: python train.py")
    evidence = ended(
        *STAGING, *STAGED, launch, other(0, "Traceback"), other(0, f"{prefix}ValueError: no"),
        other(0, f"{prefix}[ray] leaving"), agent(0, f"Stopping: {reason}: it is over"),
        other(0, "[rlaunch-slurm] job=1 link=1/1 attempt=1 failed"), other(1, "a worker's"),
        reason=reason,
    )  # fmt: skip
    assert reasons(evidence)[1] == "the driver's last line: `ValueError: no`"


def test_a_driver_that_printed_nothing_is_not_quoted() -> None:
    """What staging printed is not put into its mouth."""
    launch = agent(0, "Launching the training driver: python train.py")
    told = reasons(ended(*STAGING, *STAGED, launch, reason="driver-exit", code=1))
    assert "last line" not in str(told)


def test_nothing_is_concluded_from_an_older_launchers_silence() -> None:
    """Its last line is quoted as what it is; with its line of the launch it is the driver's."""
    texts = [*log.bring_up(), log.finelog("09:20:00", 0, "OSError: gone")]
    told = judge((), log.evidence(texts, State.FAILED), ()).reasons
    assert told[1] == "the last line of rank 0: `OSError: gone`"
    texts.insert(-1, log.finelog("09:19:00", 0, f"{log.CTL}Launching the training driver"))
    told = judge((), log.evidence(texts, State.FAILED), ()).reasons
    assert told[1] == "the driver's last line: `OSError: gone`"


def test_rungs_that_an_ended_run_had_left_behind_keep_their_word() -> None:
    """A line that was lost below a rung that was reached is not an end."""
    launch = agent(0, "Launching the training driver: python train.py")
    evidence = ended(*STAGED[1:2], launch, other(0, log.start_up()[-1]), reason="driver-exit")
    says = absences(evidence)
    assert "did not start" in says[2]
    assert "had ended before" not in says[2]
