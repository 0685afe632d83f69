"""Stop a run: its whole chain, the driver first, confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from rlaunch.cluster import Clock
from rlaunch.errors import ClusterError
from rlaunch.model import JobRef
from rlaunch_slurm_jupiter.questions import Questions, Unanswered, jobs_of
from rlaunch_slurm_jupiter.site import Parcel, Site
from rlaunch_slurm_jupiter.states import Link
from rlaunch_slurm_jupiter.status import not_asked

POLL_S = 0.5
CONFIRM_S = 5.0


def stop_run(site: Site, clock: Clock, ref: JobRef, *, grace_s: float, kill_wait_s: float) -> None:
    """Stop every job of the run and wait until none is left; an ended or absent run is no error.

    Waiting links go first, so that none starts; then the batch script is told, which ends the driver
    through rank 0's agent; what is left after `grace_s` is cancelled and killed as a whole. A job that
    rlaunch did not start is cancelled, and SLURM kills it after `kill_wait_s`.

    Raises ClusterError `host`, `not-asked` or `not-stopped`.
    """
    begin = clock.monotonic()
    live = _live(site, ref)
    if not live:
        return
    jobs = jobs_of(ref) or tuple(link.job for link in live)
    folder = next((link.work_dir for link in live if link.work_dir.startswith("/")), "")
    if ref.run_id and folder:
        with suppress(ClusterError):  # its directory may be gone; the jobs are not
            site.put(folder, [Parcel("stop", 0o600, b"stop\n")])
    waiting = [link.job for link in live if not link.started or link.word.startswith("PENDING")]
    running = [link.job for link in live if link.job not in waiting]
    if waiting:
        _scancel(site, waiting)
    if running and ref.run_id:
        _scancel(site, ["--batch", "--signal=TERM", *running])
        live = _wait(site, clock, ref, begin + grace_s)
    if live or not ref.run_id:
        _scancel(site, list(jobs))
        if ref.run_id:  # they had their grace
            _scancel(site, ["--signal=KILL", *jobs])
    if left := _wait(site, clock, ref, begin + kill_wait_s + CONFIRM_S):
        raise ClusterError.of(
            "slurm_jupiter.not-stopped", f"{len(left)} job(s) are still there: {left[0].job} {left[0].word}",
            place=str(ref), hint=f"`scancel --signal=KILL {' '.join(x.job for x in left)}`",
        )  # fmt: skip
    if ref.run_id and folder:
        site.run(("rm", "-f", "--", f"{folder}/secrets.json"))


def _live(site: Site, ref: JobRef) -> list[Link]:
    """Return the run's jobs that have not ended: by id, or by name where no id was recorded."""
    questions = Questions(site)
    try:
        found = questions.jobs([ref])[ref]
    except Unanswered as error:
        raise not_asked(str(error)) from None
    if found is None:
        raise not_asked(questions.trouble)
    return [link for link in found if not link.meaning.ended]


def _wait(site: Site, clock: Clock, ref: JobRef, until: float) -> list[Link]:
    while live := _live(site, ref):
        if clock.monotonic() >= until:
            return live
        clock.sleep(POLL_S)
    return []


def _scancel(site: Site, words: Sequence[str]) -> None:
    """Cancel; a job that ended meanwhile is no error, and whatever else went wrong is seen by asking."""
    site.run(("scancel", "--quiet", *words), timeout=30)
