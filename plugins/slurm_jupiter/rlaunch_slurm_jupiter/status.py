"""The state of many runs, in one question to SLURM (a second one for those that its memory lost)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, Rank, State, Status
from rlaunch.shell import Done
from rlaunch_slurm_jupiter import nodelist, queries, records
from rlaunch_slurm_jupiter.records import Traces
from rlaunch_slurm_jupiter.site import Site
from rlaunch_slurm_jupiter.states import Link, Verdict, combine

CLOSE_LOOK = 32
"""Up to so many runs at once their ranks are read too: a directory and a file for each node."""
LATE = 8
"""For at most so many jobs that ended just now the controller is asked once more, for their exit codes."""
Rendezvous = Callable[[str, str], str]
"""(run id, run directory) -> the run's rendezvous directory."""


def jobs_of(ref: JobRef) -> tuple[str, ...]:
    """Return the job ids of a run, in the order of its chain: `101+102+103`."""
    parts = ref.native.split("+")
    return tuple(parts) if all(p.isdecimal() for p in parts) else ()


class Unanswered(Exception):  # noqa: N818  # says what it is
    """SLURM could not be asked; the message says why."""


class Questions:
    """SLURM, asked by commands on a site."""

    def __init__(self, site: Site) -> None:
        self.site = site

    def look(self, jobs: Sequence[str]) -> dict[str, Link]:
        """Return what is known of each job; one that is not there is left out. Raises Unanswered."""
        found = self._queue(jobs)
        lost = [job for job in jobs if job not in found or found[job].meaning.ended]
        if not lost:
            return found
        kept = self._accounting(lost)
        if kept is None:  # this cluster keeps none: the controller's word is all there is
            return self._late(found, [job for job in lost if job in found])
        late = []
        for job in lost:
            if job in kept and (kept[job].meaning.ended or job not in found):
                found[job] = kept[job]
            elif job in found:
                late.append(job)
        return self._late(found, late)

    def _queue(self, jobs: Sequence[str]) -> dict[str, Link]:
        done = self.site.run(queries.ask_queue(jobs))
        if done.code != 0:
            if queries.is_unknown_job(done.err):
                return {}
            raise Unanswered(_said("squeue", done))
        try:
            return queries.read_queue(done.out)
        except queries.NotAnswered as error:
            raise Unanswered(f"squeue: {error}") from None

    def _accounting(self, jobs: Sequence[str]) -> dict[str, Link] | None:
        done = self.site.run(queries.ask_accounting(jobs))
        if done.code != 0:
            if queries.is_no_accounting(done.err + done.out):
                return None
            raise Unanswered(_said("sacct", done))
        try:
            return queries.read_accounting(done.out)
        except queries.NotAnswered as error:
            raise Unanswered(f"sacct: {error}") from None

    def _late(self, found: dict[str, Link], jobs: Iterable[str]) -> dict[str, Link]:
        for job in list(jobs)[:LATE]:
            done = self.site.run(queries.ask_job(job))
            seen = queries.read_job(done.out) if done.code == 0 else None
            if seen is not None and seen.meaning.ended:
                found[job] = seen
        return found


def _said(tool: str, done: Done) -> str:
    lines = done.err.strip().splitlines() or done.out.strip().splitlines()
    why = lines[-1][:200] if lines else "no answer in time" if done.code == 124 else "no word"
    return f"{tool} failed ({done.code}): {why}"


def status_of(
    site: Site, refs: Sequence[JobRef], rendezvous: Rendezvous, now: str
) -> dict[JobRef, Status]:
    """Return the state of every ref. SLURM decides; the shared directory only tells more about it."""
    if not refs:
        return {}
    jobs = {ref: jobs_of(ref) for ref in refs}
    asked = tuple(dict.fromkeys(job for several in jobs.values() for job in several))
    try:
        seen = Questions(site).look(asked) if asked else {}
    except Unanswered as error:
        return {ref: Status(ref, State.UNKNOWN, str(error)) for ref in refs}
    verdicts = {ref: combine([seen[j] for j in jobs[ref] if j in seen]) for ref in refs}
    traces = _traces(site, verdicts, rendezvous, now)
    return {ref: describe(ref, jobs[ref], verdicts[ref], traces.get(ref, Traces())) for ref in refs}


def describe(ref: JobRef, jobs: Sequence[str], verdict: Verdict, traces: Traces) -> Status:
    """Return a status from SLURM's verdict and what the run left behind. Pure."""
    state, reason = verdict.state, verdict.reason
    code, signal = (verdict.link.exit_code, verdict.link.signal) if verdict.link else (None, None)
    if (
        state.ended and traces.outcome
    ):  # the driver's own, where SLURM has what the batch script made of it
        code, signal = (_whole(traces.outcome.get(name)) for name in ("exit_code", "signal"))
    elif state.ended and traces.ending and traces.ending[2]:  # SLURM writes 143 down as 15
        code = traces.ending[2]
        signal = code - 128 if 128 < code <= 192 else None
    if state.ended and state is not State.ABSENT and traces.outcome.get("outcome") == "succeeded":
        # the driver was done; SLURM's limit, a node or a cancellation met only what was left of the gang
        state, reason, code, signal = State.SUCCEEDED, "", 0, None
    elif state is State.FAILED and reason == "job-failed":
        state, reason = _failure(traces, reason)
    elif state is State.KILLED and traces.ending and traces.ending[1] == "stopped":
        reason = "stopped"
    elif state is State.RUNNING and traces.ranks and not reason:
        reason = _phase(traces.ranks)
    native = {} if verdict.link is None else _native(jobs, verdict)
    return Status(
        ref, state, reason, verdict.since, traces.attempt, code if state.ended else None,
        signal if state.ended else None, traces.ranks, native,
    )  # fmt: skip


def _failure(traces: Traces, reason: str) -> tuple[State, str]:
    named = str(traces.outcome.get("reason") or "")
    if traces.ending is not None:
        kind, why, _ = traces.ending
        if kind == "cut":
            return (State.FAILED, "time-limit") if why == "wall-limit" else (State.KILLED, why)
        named = named or why
    if _whole(traces.outcome.get("oom_kills")):  # what accounting says, where there is none
        return State.FAILED, "out-of-memory"
    worker = named == "worker-lost"
    return State.WORKER_FAILED if worker else State.FAILED, named or reason


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _phase(ranks: Sequence[Rank]) -> str:
    phases = {rank.phase for rank in ranks if rank.phase}
    return phases.pop() if len(phases) == 1 and phases != {"running"} else ""


def _native(jobs: Sequence[str], verdict: Verdict) -> dict[str, object]:
    link = verdict.link
    if link is None:
        return {}
    native: dict[str, object] = {
        "job": link.job,
        "state": link.word,
        "link": verdict.at,
        "links": len(jobs),
    }
    if link.reason not in ("", "None"):
        native["reason"] = link.reason
    if link.nodes and not link.nodes.startswith("None"):
        native["nodes"] = link.nodes
    if link.work_dir.startswith("/") and link.work_dir.endswith(f"/{link.name}"):
        native["run_dir"] = link.work_dir
    if verdict.state in (State.PENDING, State.WAITING) and link.start:
        native["expected_start"] = link.start
    return native


class Place(NamedTuple):
    """Where a run lies on the shared file system."""

    run: str
    folder: str
    rendezvous: str


def _traces(
    site: Site, verdicts: Mapping[JobRef, Verdict], rendezvous: Rendezvous, now: str
) -> dict[JobRef, Traces]:
    """Read what the runs left: two commands for all of them; only of runs that have begun."""
    places = {}
    for ref, verdict in verdicts.items():
        run = ref.run_id or (verdict.link.name if verdict.link else "")
        folder = verdict.link.work_dir if verdict.link else ""
        if run and folder.startswith("/") and verdict.state not in (State.PENDING, State.UNKNOWN):
            places[ref] = Place(run, folder, rendezvous(run, folder))
    if not places:
        return {}
    try:
        texts = site.cat([p for where in places.values() for p in (_last(where), _done(where))])
        lasts = {ref: records.read_last(texts.get(_last(w), "")) for ref, w in places.items()}
        ranks = (
            site.cat([_ranks(w, lasts[ref][0]) for ref, w in places.items()])
            if len(places) <= CLOSE_LOOK
            else {}
        )
    except ClusterError:
        return {}
    found = {}
    for ref, where in places.items():
        attempt, ending = lasts[ref]
        outcome = records.read_outcome(texts.get(_done(where)), where.run, attempt)
        own = _own_ranks(ranks, _ranks(where, attempt))
        seen = records.read_ranks(own, where.run, _nodes(verdicts[ref]), now) if own else ()
        found[ref] = Traces(attempt, ending, outcome, seen)
    return found


def _last(where: Place) -> str:
    return f"{where.folder}/last"


def _done(where: Place) -> str:
    return f"{where.rendezvous}/ray_head.done"


def _ranks(where: Place, attempt: int | None) -> str:
    return f"{where.rendezvous}/ranks/{attempt or 0}/*"


def _own_ranks(texts: Mapping[str, str], pattern: str) -> dict[int, str]:
    own = {}
    for path, text in texts.items():
        name = path.removeprefix(pattern[:-1]).removesuffix(".json")
        if path.startswith(pattern[:-1]) and name.isdecimal():
            own[int(name)] = text
    return own


def _nodes(verdict: Verdict) -> tuple[str, ...]:
    try:
        return nodelist.expand(verdict.link.nodes) if verdict.link else ()
    except ValueError:
        return ()


def run_dir_of(site: Site, ref: JobRef) -> str | None:
    """Return the run directory of a job as SLURM knows it; None where it knows none.

    Raises ClusterError `not-asked`.
    """
    jobs = jobs_of(ref)
    try:
        found = Questions(site).look(jobs[:1]) if jobs else {}
    except Unanswered as error:
        raise not_asked(str(error)) from None
    folder = found[jobs[0]].work_dir if jobs and jobs[0] in found else ""
    return folder if folder.startswith("/") else None


def not_asked(why: str) -> ClusterError:
    """Return the error of a SLURM that could not be asked."""
    finding = ClusterError.of(
        "slurm_jupiter.not-asked", f"SLURM could not be asked: {why}", place="squeue",
        hint="try again; `scontrol ping` says whether its controller lives",
    ).findings[0]  # fmt: skip
    return ClusterError(finding, transient=True)
