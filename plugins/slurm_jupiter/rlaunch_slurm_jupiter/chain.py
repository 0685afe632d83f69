"""Call sbatch once for each link of a run's chain. What is uncertain is looked up by name, never repeated."""

from __future__ import annotations

from collections.abc import Mapping

from rlaunch.cluster import Clock
from rlaunch.errors import ClusterError, UnclearSubmitError
from rlaunch.model import Finding, Plan, State
from rlaunch.shell import Done
from rlaunch_slurm_jupiter import queries
from rlaunch_slurm_jupiter.site import Site
from rlaunch_slurm_jupiter.ssh import LOST
from rlaunch_slurm_jupiter.states import Link
from rlaunch_slurm_jupiter.wording import last_words

NOT_TAKEN = (
    "Unable to contact slurm controller",
    "Connection refused",
    "temporarily unable to accept job",
)
"""What is said where the request did not get through: it may be sent again once nobody knows the job."""
UNCLEAR = ("Socket timed out", "Zero Bytes were")
"""What sbatch says when the request went out and no answer came."""
LOOKS_S = (0.0, 2.0, 5.0)
"""Pauses before each look for a job whose sbatch gave no clear answer."""
RETRIES = 5
RETRY_S = 5.0


def send_links(site: Site, clock: Clock, plan: Plan) -> list[str]:
    """Send every link; return the job ids. Where a later link fails the earlier ones are cancelled again.

    Raises ClusterError `refused` where SLURM has nothing of the run, UnclearSubmitError where it may have.
    """
    jobs: list[str] = []
    for link in range(1, plan.native["links"] + 1):
        try:
            jobs.append(_send(site, clock, plan, link, jobs[-1] if jobs else None))
        except ClusterError as error:
            if jobs:
                _take_back(site, plan.run.id, jobs, error)
            raise
    return jobs


def link_argv(plan: Plan, link: int, after: str | None) -> tuple[str, ...]:
    """Return the command of one link: the plan's own, with its number and what it waits for."""
    program, *options, script = plan.native["argv"]
    wait = [f"--dependency=afterany:{after}"] if after else []
    return (program, *options, *wait, script, str(link))


def _send(site: Site, clock: Clock, plan: Plan, link: int, after: str | None) -> str:
    """Send one link until SLURM has it, refuses it, or nobody knows."""
    argv = link_argv(plan, link, after)
    for left in range(RETRIES, -1, -1):
        done = site.batch(argv, timeout=120)
        job = queries.read_submitted(done.out) if done.code == 0 else None
        if job is None and _ambiguous(done):
            job = _find(site, clock, plan.run.id, after)
        if job is not None:
            return job
        if not _ambiguous(done):
            if (job := _glance(site, plan.run.id, after)) is not None:
                return job  # whatever sbatch said then
            break
        if not _has(done, NOT_TAKEN):
            raise unknown(plan.run.id, f"SLURM has no such job yet, after: {last_words(done)}")
        if left:
            clock.sleep(RETRY_S)
    raise refused(done)


def _ambiguous(done: Done) -> bool:
    """Tell whether the job may have been taken although sbatch did not say so."""
    return done.code in (0, 124, LOST) or done.code < 0 or _has(done, (*NOT_TAKEN, *UNCLEAR))


def _has(done: Done, words: tuple[str, ...]) -> bool:
    return any(word in done.err for word in words)


def _glance(site: Site, run: str, after: str | None) -> str | None:
    """Look once for a link that sbatch says it did not send; None where none is seen."""
    done = site.run(queries.ask_named((run,)))
    try:
        return _fresh(queries.read_queue(done.out), after) if done.code == 0 else None
    except queries.NotAnswered:
        return None


def _fresh(found: Mapping[str, Link], after: str | None) -> str | None:
    """Return the newest job that is none of an earlier link, nor of a try that was taken back."""
    jobs = [
        job
        for job, seen in found.items()
        if (after is None or int(job) > int(after)) and seen.meaning.state is not State.KILLED
    ]
    return max(jobs, key=int, default=None)


def _find(site: Site, clock: Clock, run: str, after: str | None) -> str | None:
    """Look a link up by its name, which is the run id; None where SLURM says that it has none.

    A cancelled job is one of an earlier try that was taken back. Raises UnclearSubmitError where the last
    look got no answer.
    """
    trouble = ""
    for pause in LOOKS_S:
        if pause:
            clock.sleep(pause)
        done = site.run(queries.ask_named((run,)))
        try:
            if done.code != 0:
                raise queries.NotAnswered(last_words(done))
            found = queries.read_queue(done.out)
        except queries.NotAnswered as error:
            trouble = f"and squeue cannot be asked: {error}"
            continue
        trouble = ""
        if (job := _fresh(found, after)) is not None:
            return job
    if trouble:
        raise unknown(run, f"sbatch gave no answer, {trouble}")
    return None


def _take_back(site: Site, run: str, jobs: list[str], error: ClusterError) -> None:
    """Cancel the links that were sent, by id and by name. Raises UnclearSubmitError where that failed too."""
    site.run(("scancel", "--quiet", *jobs), timeout=30)
    done = site.run(("scancel", "--quiet", f"--name={run}"), timeout=30)
    if done.code != 0 and not isinstance(error, UnclearSubmitError):
        said = f"{error.findings[0].message}; and its earlier job(s) {', '.join(jobs)}"
        raise unknown(run, f"{said} could not be cancelled: {last_words(done)}") from None


def refused(done: Done) -> ClusterError:
    """Return the error of a submission that SLURM did not take, in its own words."""
    finding = Finding(
        "error", "slurm_jupiter.refused", f"SLURM did not take the job: {last_words(done)}", "sbatch",
        "see `scontrol show partition` and `sacctmgr show assoc user=$USER`",
    )  # fmt: skip
    return ClusterError(finding, transient=_ambiguous(done))


def unknown(run: str, why: str) -> UnclearSubmitError:
    """Return the error of a submission of which nobody knows whether it arrived."""
    return UnclearSubmitError.of(
        "slurm_jupiter.submit-unknown", f"nobody knows whether `{run}` was submitted: {why}", place=run,
        hint=f"`rlaunch status {run}` asks again, `rlaunch stop {run}` ends what is there; "
        "do not send it a second time before that",
    )  # fmt: skip
