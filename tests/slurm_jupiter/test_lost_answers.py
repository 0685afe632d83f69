"""Runs whose job ids nobody recorded: interrupted submits and lost answers. They are known by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.slurm_jupiter.told import Site, accounting, queue

from rlaunch.cluster import LogQuery
from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, State
from rlaunch_slurm_jupiter.cluster import Slurm

RUN = "rl-0a1b2c3d"
REF = JobRef("jupiter", RUN, RUN)
"""What the core asks about while it knows no job id."""
DOWN = (1, "", "slurm_load_jobs error: Unable to contact slurm controller\n")


def row(job: int, state: str, name: str = RUN, folder: str = "/none") -> str:
    """A line of squeue."""
    start = "N/A" if state == "PENDING" else "2026-01-02T03:04:05"
    return f"{job}|{state}|None|{start}|{'' if start == 'N/A' else 'n1'}|{name}|{folder}"


def past(job: int, state: str, name: str = RUN) -> str:
    """A line of sacct."""
    return f"{job}|{state}|0:0|2026-01-02T03:04:05|2026-01-02T03:05:05|n1|{name}|/none"


def test_a_run_without_job_ids_is_found_by_name(site: Callable[..., Site]) -> None:
    """Its whole chain is seen, whichever of SLURM's tools remembers which link."""
    here = site()
    here.say("squeue", queue(row(502, "RUNNING"), row(503, "PENDING")))
    here.say("sacct", accounting(past(501, "TIMEOUT"), past(502, "RUNNING")))
    seen = here.cluster.status([REF])[REF]
    assert (seen.state, seen.native["job"], seen.native["link"], seen.native["links"]) == (
        State.RUNNING, "502", 2, 3,
    )  # fmt: skip
    [words] = here.calls("squeue")
    assert f"--name={RUN}" in words
    assert "--me" in words, "another user's job of that name is not the run"
    here.say("squeue", queue())
    here.say("sacct", accounting(past(501, "TIMEOUT"), past(502, "COMPLETED")))
    assert here.cluster.status([REF])[REF].state is State.SUCCEEDED
    assert any(w.startswith("--starttime=") for w in here.calls("sacct")[-1]), "not only today's"


def test_runs_without_job_ids_are_asked_about_together(site: Callable[..., Site]) -> None:
    """One question by name for all of them, beside the one by number; each gets its own jobs."""
    here = site()
    lost = [JobRef("jupiter", f"rl-0000000{n}", f"rl-0000000{n}") for n in range(3)]
    known = JobRef("jupiter", "7", "rl-7")
    rows = {"--jobs=7": [row(7, "RUNNING", "rl-7")], "--name": [row(8, "PENDING", lost[1].run_id)]}
    here.answers["squeue"] = lambda words: queue(
        *rows["--jobs=7" if "--jobs=7" in words else "--name"]
    )
    here.say("sacct", accounting(past(9, "FAILED", lost[2].run_id)))
    seen = here.cluster.status([*lost, known])
    assert [seen[ref].state for ref in (*lost, known)] == [
        State.ABSENT, State.PENDING, State.FAILED, State.RUNNING,
    ]  # fmt: skip
    assert (len(here.calls("squeue")), len(here.calls("sacct"))) == (2, 1)


@pytest.mark.parametrize(
    ("squeue", "sacct", "state"),
    [
        (queue(), accounting(), State.ABSENT),
        (queue(), (1, "", "Slurm accounting storage is disabled\n"), State.ABSENT),
        (queue(), (1, "", "sacct: error: slurmdbd: down\n"), State.UNKNOWN),
        (queue(), (0, "", ""), State.UNKNOWN),
        (DOWN, accounting(), State.UNKNOWN),
        ((0, "", ""), accounting(), State.UNKNOWN),
    ],
)
def test_absent_without_job_ids_needs_a_positive_answer(
    site: Callable[..., Site], squeue: Any, sacct: Any, state: State
) -> None:
    """Only tools that answered and know no job of the name make the run ABSENT."""
    here = site()
    here.say("squeue", squeue)
    here.say("sacct", sacct)
    assert here.cluster.status([REF])[REF].state is state


def test_a_run_id_can_be_asked_about_from_another_machine(site: Callable[..., Site]) -> None:
    """`CLUSTER:RUN-ID` is looked up by name; a word that is no run id is neither job nor run."""
    here = site()
    here.say("squeue", queue(row(501, "RUNNING")))
    here.say("sacct", accounting())
    ref, other = JobRef("jupiter", RUN), JobRef("jupiter", "bash")
    seen = here.cluster.status([ref, other])
    assert (seen[ref].state, seen[other].state) == (State.RUNNING, State.ABSENT)
    assert not [c for c in here.shell.calls if any("bash" in w for w in c)]


def test_stop_cancels_what_it_finds_by_name(site: Callable[..., Site]) -> None:
    """Every job of the run goes, though no id was recorded; without an answer nothing is said to be gone."""
    here = site()
    running, waiting = row(501, "RUNNING"), row(502, "PENDING")
    here.say("squeue", queue(running, waiting), queue(running), queue())
    here.say("sacct", accounting())
    here.cluster.stop(REF)
    assert here.calls("scancel") == [
        ("--quiet", "502"), ("--quiet", "--batch", "--signal=TERM", "501"),
    ]  # fmt: skip
    here.say("squeue", DOWN)
    with pytest.raises(ClusterError, match="could not be asked"):
        here.cluster.stop(REF)


def test_logs_without_job_ids_are_found_by_name(site: Callable[..., Site], tmp_path: Any) -> None:
    """SLURM says where the run of that name lies."""
    here = site()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "job-501.out").write_text("hello\n")
    here.say("squeue", queue(row(501, "RUNNING", folder=f"{tmp_path}/elsewhere")))
    here.say("sacct", accounting())
    assert [line.text for line in here.cluster.logs(LogQuery(REF))] == ["hello"]


def test_an_absent_run_keeps_no_secrets(site: Callable[..., Site]) -> None:
    """What an interrupted submit wrote is removed once SLURM has no such job, unless it is young."""
    here = site()
    here.say("squeue", queue())
    here.say("sacct", accounting())
    secrets = Path(here.plan.run.paths.run_dir, "secrets.json")
    secrets.parent.mkdir(parents=True)
    secrets.write_text("{}")
    assert here.cluster.status([REF])[REF].state is State.ABSENT
    assert secrets.exists(), "another rlaunch may be sending it at this moment"
    os.utime(secrets, (0, 0))
    again = Slurm(here.cluster.profile, here.shell, here.clock)
    assert again.status([REF])[REF].state is State.ABSENT
    assert not secrets.exists()


AWAY = (1, "", "sacct: error: slurm_persist_conn_open: Connection refused\n")
"""slurmdbd is down; squeue and scancel are not."""


@pytest.mark.parametrize(
    ("rows", "state"),
    [
        ([row(7, "CANCELLED"), row(8, "RUNNING")], State.RUNNING),
        ([row(8, "RUNNING")], State.RUNNING),
        ([row(7, "CANCELLED"), row(8, "CANCELLED")], State.KILLED),
        ([row(7, "CANCELLED")], State.UNKNOWN),
        ([], State.UNKNOWN),
    ],
)
def test_the_queue_alone_tells_what_it_knows(
    site: Callable[..., Site], rows: list[str], state: State
) -> None:
    """Without accounting only that is unknown which the queue has forgotten."""
    here = site()
    here.say("squeue", queue(*rows))
    here.say("sacct", AWAY)
    ref = JobRef("jupiter", "7+8", RUN)
    assert here.cluster.status([ref])[ref].state is state


def test_a_chain_is_stopped_without_accounting(site: Callable[..., Site]) -> None:
    """A link that lives is cancelled by the queue's word."""
    here = site()
    here.say(
        "squeue",
        queue(row(7, "CANCELLED"), row(8, "PENDING")),
        queue(row(7, "CANCELLED"), row(8, "CANCELLED")),
    )
    here.say("sacct", AWAY)
    here.cluster.stop(JobRef("jupiter", "7+8", RUN))
    assert any("8" in words for words in here.calls("scancel"))


def test_one_forgotten_run_does_not_hide_the_others(site: Callable[..., Site]) -> None:
    """Of several runs only the one that the accounting would have to tell is unknown."""
    here = site()
    here.say("squeue", queue(row(7, "RUNNING", "rl-7"), row(8, "FAILED", "rl-8")))
    here.say("sacct", AWAY)
    refs = [JobRef("jupiter", f"{n}", f"rl-{n}") for n in (7, 8, 9)]
    seen = here.cluster.status(refs)
    assert [seen[ref].state for ref in refs] == [State.RUNNING, State.FAILED, State.UNKNOWN]
    assert "Connection refused" in seen[refs[2]].reason
