"""Refused, unclear and repeated submissions: nothing is sent twice, nothing is left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.core.scripted import make_world
from tests.slurm_jupiter.told import Said, Site, accounting, queue

from rlaunch import flow
from rlaunch.errors import ClusterError, RlaunchError, UnclearSubmitError
from rlaunch.model import State
from rlaunch.secrets import Keyring

RUN = "rl-0a1b2c3d"
REFUSED = (
    1,
    "",
    "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy\n",
)
AWAY = (1, "", "sbatch: error: Unable to contact slurm controller (connect failure)\n")
LOST = (1, "", "sbatch: error: Socket timed out on send/recv\n")
DOWN = (1, "", "slurm_load_jobs error: Unable to contact slurm controller\n")
MINE = f"77|PENDING|None|N/A||{RUN}|/d"


def code_of(here: Site) -> str:
    """Submit in vain and return the code of the error."""
    with pytest.raises(ClusterError) as caught:
        here.submit()
    [found] = caught.value.findings
    unknown = found.code == "slurm_jupiter.submit-unknown"
    assert isinstance(caught.value, UnclearSubmitError) is unknown
    return found.code.removeprefix("slurm_jupiter.")


def left(here: Site) -> set[str]:
    """Which of the files that a failed submit must not leave are there."""
    root = Path(here.plan.run.paths.run_dir)
    return {name for name in ("job.sh", "secrets.json") if (root / name).exists()}


def test_a_refused_link_takes_the_others_back(site: Callable[..., Site]) -> None:
    """When a later link is refused nothing of the run stays in the queue: by id, and by name."""
    here = site(max_retries=1)
    here.say("sbatch", (0, "501\n", ""), REFUSED)
    with pytest.raises(ClusterError, match="Job violates accounting/QOS policy") as caught:
        here.submit()
    assert caught.value.findings[0].code == "slurm_jupiter.refused"
    assert here.calls("scancel") == [("--quiet", "501"), ("--quiet", f"--name={RUN}")]
    assert left(here) == set()


def test_a_link_that_cannot_be_taken_back_is_not_denied(site: Callable[..., Site]) -> None:
    """A refused link whose earlier ones could not be cancelled leaves a run that goes on: it is said."""
    here = site(max_retries=1)
    here.say("sbatch", (0, "501\n", ""), REFUSED)
    here.say("scancel", (1, "", "scancel: error: Unable to contact slurm controller\n"))
    assert code_of(here) == "submit-unknown"
    assert left(here) == {"job.sh", "secrets.json"}


@pytest.mark.parametrize(
    "lost", [AWAY, LOST, (124, "", ""), (0, "?", ""), (255, "", "broken pipe")]
)
@pytest.mark.parametrize(
    "looks", [[queue(MINE)], [queue(), queue(MINE)], [DOWN, DOWN, queue(MINE)]]
)
def test_an_unclear_submission_is_looked_up_not_repeated(
    site: Callable[..., Site], lost: Said, looks: list[Said]
) -> None:
    """When sbatch cannot say whether the job was taken, it is found by its name, at once or later."""
    here = site()
    here.say("sbatch", lost)
    here.say("squeue", *looks)
    assert here.submit().native == "77"
    assert len(here.calls("sbatch")) == 1
    assert f"--name={RUN}" in here.calls("squeue")[0]


@pytest.mark.parametrize("lost", [AWAY, LOST, (124, "", ""), (0, "?", "")])
@pytest.mark.parametrize("silent", [DOWN, (0, "", ""), (255, "", "ssh: no route")])
def test_a_submission_that_cannot_be_looked_up_is_unknown(
    site: Callable[..., Site], lost: Said, silent: Said
) -> None:
    """Without an answer nobody says that the job was refused; it is not sent again, and keeps its files."""
    here = site()
    here.say("sbatch", lost)
    here.say("squeue", silent)
    assert code_of(here) == "submit-unknown"
    assert len(here.calls("sbatch")) == 1
    assert len(here.calls("squeue")) == 3
    assert 1 <= here.clock.monotonic() <= 30
    assert left(here) == {"job.sh", "secrets.json"}


@pytest.mark.parametrize("lost", [LOST, (124, "", ""), (0, "?", "")])
def test_a_request_that_went_out_is_never_repeated(site: Callable[..., Site], lost: Said) -> None:
    """It may still be on its way though SLURM knows no such job yet."""
    here = site()
    here.say("sbatch", lost)
    here.say("squeue", queue())
    assert code_of(here) == "submit-unknown"
    assert len(here.calls("sbatch")) == 1


def test_a_request_that_did_not_get_through_is_sent_again(site: Callable[..., Site]) -> None:
    """A controller that was away for a moment is asked again, once SLURM has said that it has no such job."""
    here = site()
    here.say("sbatch", AWAY, AWAY, (0, "501\n", ""))
    here.say("squeue", queue())
    assert here.submit().native == "501"
    assert len(here.calls("sbatch")) == 3


def test_a_controller_that_stays_away_refuses_in_the_end(site: Callable[..., Site]) -> None:
    """After five retries it is SLURM's own word, transient, and nothing is left."""
    here = site()
    here.say("sbatch", AWAY)
    here.say("squeue", queue())
    with pytest.raises(ClusterError, match="Unable to contact") as caught:
        here.submit()
    assert caught.value.transient
    assert caught.value.findings[0].code == "slurm_jupiter.refused"
    assert len(here.calls("sbatch")) == 6
    assert left(here) == set()


def test_a_job_that_was_taken_back_is_not_found_again(site: Callable[..., Site]) -> None:
    """A cancelled job of an earlier try has the run's name too, and is not the job that was just sent."""
    here = site()
    here.say("sbatch", AWAY, (0, "501\n", ""))
    here.say("squeue", queue(f"77|CANCELLED|None|N/A||{RUN}|/d"))
    assert here.submit().native == "501"


def test_an_unknown_later_link_is_cancelled_by_name(site: Callable[..., Site]) -> None:
    """What may have arrived of a broken chain is cancelled, and the run stays open."""
    here = site(max_retries=1)
    here.say("sbatch", (0, "501\n", ""), LOST)
    here.say("squeue", DOWN)
    assert code_of(here) == "submit-unknown"
    assert here.calls("scancel")[-1] == ("--quiet", f"--name={RUN}")


def test_a_directory_that_cannot_be_written_keeps_no_secret(site: Callable[..., Site]) -> None:
    """A submit that failed half-way through writing removes what it wrote."""
    here = site()
    root = Path(here.plan.run.paths.run_dir)
    (root / "plan.json").mkdir(parents=True)
    assert code_of(here) == "not-written"
    assert left(here) == set()
    assert here.calls("sbatch") == []


def test_a_refused_plan_can_be_sent_again(site: Callable[..., Site], tmp_path: Path) -> None:
    """The same plan that SLURM refused is taken later, under its own id and name."""
    here = site(min_disk="1MiB", min_inodes=1)
    preflight = (0, "", "sbatch: Job 5 to start at 2026-01-02T03:05:00 using 2 processors on n1\n")
    nodes = "".join(f"n{i}|gpu:gh200:4|idle\n" for i in range(8))
    here.say("sinfo", (0, f"NODELIST|GRES|STATE\n{nodes}", ""))
    keyring = Keyring("", {"HF_TOKEN": "s3cr3t"})
    world = make_world(tmp_path)._replace(shell=here.shell, clock=here.clock, keyring=keyring)
    here.say("sbatch", preflight, REFUSED)
    with pytest.raises(RlaunchError, match=r"slurm_jupiter\.refused"):
        flow.submit(world, here.plan)
    row = world.open_runs().find(RUN)
    assert row is not None
    assert row.failed_at is not None
    assert left(here) == set()
    here.say("sbatch", preflight, (0, "501\n", ""))
    assert flow.submit(world, here.plan).native == "501"
    with pytest.raises(RlaunchError, match=r"plan\.submitted"):
        flow.submit(world, here.plan)


def test_an_unknown_submit_stays_open_in_the_record(
    site: Callable[..., Site], tmp_path: Path
) -> None:
    """The record calls it neither failed nor ended; a status asks by name and finds it."""
    here = site(min_disk="1MiB", min_inodes=1)
    nodes = "".join(f"n{i}|gpu:gh200:4|idle\n" for i in range(8))
    here.say("sinfo", (0, f"NODELIST|GRES|STATE\n{nodes}", ""))
    here.say("sbatch", (0, "", ""), LOST)
    here.say("squeue", DOWN)
    keyring = Keyring("", {"HF_TOKEN": "s3cr3t"})
    world = make_world(tmp_path)._replace(shell=here.shell, clock=here.clock, keyring=keyring)
    with pytest.raises(UnclearSubmitError):
        flow.submit(world, here.plan)
    row = world.open_runs().find(RUN)
    assert row is not None
    assert row.open
    job = flow.find(world, RUN)
    assert flow.status(world, [job])[job.ref].state is State.UNKNOWN
    here.say("squeue", queue(MINE))
    here.say("sacct", accounting())
    assert flow.status(world, [job])[job.ref].state is State.PENDING


def test_a_job_that_was_taken_whatever_sbatch_said(site: Callable[..., Site]) -> None:
    """An error that nobody has listed is no refusal while a job of the run is there: its files stay."""
    here = site()
    here.say(
        "sbatch",
        (1, "", "sbatch: error: Batch job submission failed: Unexpected message received\n"),
    )
    name = here.plan.run.id
    here.say("squeue", queue(f"4197|RUNNING|None|2026-01-02T03:04:05|n1|{name}|/none"))
    assert here.submit().native == "4197"
    root = Path(here.plan.run.paths.run_dir)
    assert (root / "job.sh").exists()
    assert (root / "secrets.json").exists()
