"""The state of many runs, in one question to SLURM (a second one for those that its memory lost)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, Rank, State, Status
from rlaunch_slurm_jupiter import nodelist, records
from rlaunch_slurm_jupiter.questions import Questions, Unanswered, jobs_of
from rlaunch_slurm_jupiter.records import Traces
from rlaunch_slurm_jupiter.site import Site
from rlaunch_slurm_jupiter.states import Verdict, combine

CLOSE_LOOK = 32
"""Up to so many runs at once their ranks are read too: a directory and a file for each node."""
Rendezvous = Callable[[str, str], str]
"""(run id, run directory) -> the run's rendezvous directory."""


def status_of(
    site: Site, refs: Sequence[JobRef], rendezvous: Rendezvous, now: str
) -> dict[JobRef, Status]:
    """Return the state of every ref. SLURM decides; the shared directory only tells more about it."""
    if not refs:
        return {}
    questions = Questions(site)
    try:
        told = questions.jobs(refs)
    except Unanswered as error:
        return {ref: Status(ref, State.UNKNOWN, str(error)) for ref in refs}
    links = {ref: several for ref, several in told.items() if several is not None}
    verdicts = {ref: combine(links[ref]) for ref in links}
    traces = _traces(site, verdicts, rendezvous, now)
    chains = {ref: jobs_of(ref) or tuple(link.job for link in links[ref]) for ref in links}
    return {
        ref: describe(ref, chains[ref], verdicts[ref], traces.get(ref, Traces()))
        if ref in links
        else Status(ref, State.UNKNOWN, questions.trouble)
        for ref in refs
    }


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
    native = {} if verdict.link is None else _native(ref, jobs, verdict)
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


def _native(ref: JobRef, jobs: Sequence[str], verdict: Verdict) -> dict[str, object]:
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
    ours = link.name == ref.run_id or link.work_dir.endswith(f"/{link.name}")
    if link.work_dir.startswith("/") and ours:
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
    try:
        found = Questions(site).jobs([ref])[ref]
    except Unanswered as error:
        raise not_asked(str(error)) from None
    folder = found[0].work_dir if found else ""
    return folder if folder.startswith("/") else None


def not_asked(why: str) -> ClusterError:
    """Return the error of a SLURM that could not be asked."""
    finding = ClusterError.of(
        "slurm_jupiter.not-asked", f"SLURM could not be asked: {why}", place="squeue",
        hint="try again; `scontrol ping` says whether its controller lives",
    ).findings[0]  # fmt: skip
    return ClusterError(finding, transient=True)
