"""After submit: find, status, watch, logs, diagnose, stop. Liveness is a state poll, never a log line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlaunch.choose import Chosen, choose, reopen
from rlaunch.codes import Code
from rlaunch.errors import RlaunchError
from rlaunch.launching import facts_of, tell
from rlaunch.model import (
    Event,
    EventKind,
    Evidence,
    Finding,
    JobRef,
    LogLine,
    Plan,
    RunFacts,
    State,
    Status,
)

if TYPE_CHECKING:
    from rlaunch.ladder import Rung, Verdict
    from rlaunch.runs import Row
    from rlaunch.world import World


class Job(NamedTuple):
    """A job that can be asked about."""

    ref: JobRef
    facts: RunFacts
    row: Row | None
    """None for a job that rlaunch did not start here."""
    chosen: Chosen

    @property
    def unsent(self) -> Status | None:
        """How a run stands that no scheduler ever had, so that none is asked; None for any other."""
        if self.row is None or not self.row.unsent:
            return None
        return Status(self.ref, State.ABSENT, f"not sent: {self.row.failure}")


class Diagnosis(NamedTuple):
    """What a run's states and lines come to."""

    verdict: Verdict
    rungs: tuple[Rung, ...]
    findings: tuple[Finding, ...]
    evidence: Evidence


def find(world: World, target: str) -> Job:
    """Find a job by name (the newest), run id, or `cluster:id` for one that was started elsewhere.

    Raises RlaunchError `run.unknown`: what no record knows and no cluster was asked about is neither
    there nor absent. Reports `run.unrecorded` for a run that nobody recorded as sent.
    """
    runs = world.open_runs()
    row = runs.find(target)
    if row is None and ":" in target:
        try:
            ref = JobRef.parse(target)
        except ValueError as error:
            raise RlaunchError.of(
                "run.reference", str(error), hint="`local:RUN-ID`; `rlaunch runs` shows it"
            ) from None
        row = runs.by_ref(ref)
        if row is None:
            chosen = choose(world, ref.cluster)
            profile = chosen.layered.profile.facts()
            return Job(ref, RunFacts(ref, profile=profile), None, chosen)
    if row is None:
        raise RlaunchError.of(
            "run.unknown", f"the run record has no run `{target}`",
            hint="`rlaunch runs` lists them; `CLUSTER:ID` asks a cluster about any job",
        )  # fmt: skip
    from rlaunch.documents import plan_from_json

    plan = plan_from_json(row.plan)
    if not row.native and row.failed_at is None:
        world.report(
            f"warning[run.unrecorded]: `{row.run_id}` was not recorded as sent: its launch was cut off, or "
            f"still goes on; jobs may be missing, and `rlaunch stop {row.run_id}` ends those that are there"
        )
    ref = JobRef(row.cluster, row.native or expected_id(plan), row.run_id)
    return Job(ref, facts_of(plan, ref), row, reopen(world, row.cluster, plan.run.profile))


def expected_id(plan: Plan) -> str:
    """Return what a cluster finds a run by whose scheduler's id was never recorded: its submit was
    interrupted, or the answer was lost.

    A cluster that chooses the id itself puts it into the plan (`native["job"]`); else it is the run id,
    which travels with every job.
    """
    return str(plan.native.get("job") or plan.run.id)


def job_of(world: World, plan: Plan, ref: JobRef) -> Job:
    """Return the job of a plan that was just submitted, whether or not the record could be written."""
    row = world.open_runs().find(plan.run.id)
    chosen = reopen(world, plan.run.cluster, plan.run.profile)
    return Job(ref, facts_of(plan, ref), row, chosen)


def status(world: World, jobs: Sequence[Job]) -> dict[JobRef, Status]:
    """Return the state of every job, with one question to each cluster. Ends are recorded.

    A run that was not sent is `ABSENT` without a question, for good, and its row stays as it is.
    """
    groups: dict[tuple[str, str], list[Job]] = {}
    answers = {job.ref: job.unsent for job in jobs if job.unsent is not None}
    for job in (job for job in jobs if job.ref not in answers):
        key = (job.ref.cluster, str(job.facts.profile.get("name")))
        groups.setdefault(key, []).append(job)
    for group in groups.values():
        refs = [job.ref for job in group]
        try:
            answers.update(group[0].chosen.cluster.status(refs))
        except RlaunchError as error:
            reason = "; ".join(finding.message for finding in error.findings)
            answers.update({ref: Status(ref, State.UNKNOWN, reason) for ref in refs})
        for job in group:
            _record(world, job, answers[job.ref])
    return answers


def _record(world: World, job: Job, seen: Status) -> None:
    if job.row is not None and seen.state.ended and job.row.state != seen.state.value:
        world.open_runs().ended(job.row.run_id, seen.state, seen.exit_code, world.clock.now())


def watch(
    world: World,
    jobs: Sequence[Job],
    *,
    interval: float = 5.0,
    once: bool = False,
    admission_timeout: float | None = None,
    unknown_timeout: float = 600.0,
) -> Iterator[Status]:
    """Yield a status whenever a job's state, reason or attempt changes, until all have ended.

    `interval` in seconds. `once` yields the present states and returns. With `admission_timeout`
    (seconds) a job that is still PENDING or WAITING is left there, and watching ends. A job whose
    cluster could not be asked for `unknown_timeout` seconds is no longer watched either.
    """
    last: dict[JobRef, Status] = {}
    waiting: dict[JobRef, float] = {}
    silent: dict[JobRef, float] = {}
    live = list(jobs)
    while live:
        answers = status(world, live)
        for job in live:
            seen = answers[job.ref]
            if _key(last.get(job.ref)) != _key(seen):
                last[job.ref] = seen
                kind: EventKind = "ended" if seen.state.ended else "state"
                tell(world, job.chosen, Event(kind, world.clock.now(), job.facts, seen))
                yield seen
        live = [job for job in live if not answers[job.ref].state.ended]
        if once or not live:
            return
        overdue = _Overdue(world.clock.monotonic(), answers)
        if admission_timeout is not None:
            live = overdue.drop(live, (State.PENDING, State.WAITING), waiting, admission_timeout)
        live = overdue.drop(live, (State.UNKNOWN,), silent, unknown_timeout)
        if not live:
            return
        world.clock.sleep(interval)


def _key(seen: Status | None) -> tuple[Any, ...] | None:
    return None if seen is None else (seen.state, seen.reason, seen.attempt)


class _Overdue(NamedTuple):
    """Drops jobs that have been in some state for too long."""

    now: float
    answers: Mapping[JobRef, Status]

    def drop(
        self, jobs: list[Job], states: tuple[State, ...], since: dict[JobRef, float], limit: float
    ) -> list[Job]:
        """Return the jobs that are not in one of `states`, or not yet `limit` seconds."""
        for job in jobs:
            if self.answers[job.ref].state in states:
                since.setdefault(job.ref, self.now)
            else:
                since.pop(job.ref, None)
        return [job for job in jobs if self.now - since.get(job.ref, self.now) < limit]


def logs(world: World, job: Job, **wanted: Any) -> Iterator[LogLine]:
    """Yield the lines of a job; `wanted` are the fields of LogQuery but `ref`. Raises `run.unsent`."""
    from rlaunch.cluster import LogQuery

    if (never := job.unsent) is not None:
        what = f"`{job.facts.run_id}` was {never.reason}"
        raise RlaunchError.of("run.unsent", what, hint="launch it again: its name is free")
    yield from job.chosen.cluster.logs(LogQuery(job.ref, **wanted))


def diagnose(world: World, job: Job) -> Diagnosis:
    """Gather the evidence and judge it: rungs, findings, a verdict with its reasons."""
    from rlaunch import ladder, longlog

    seen = status(world, [job])[job.ref]
    missing: list[str] = []
    lines: Sequence[LogLine] = ()
    try:
        lines = longlog.gather(logs(world, job))
    except RlaunchError as error:
        missing.append(f"logs: {error}")
    if seen.state is State.UNKNOWN:
        missing.append(f"state: {seen.reason}")
    trials = count_trials(job.facts)
    evidence = Evidence(job.facts, (seen,), lines, world.clock.now(), trials, tuple(missing))
    plugins = job.chosen.plugins
    rungs = ladder.climb(plugins.milestones(job.facts), evidence)
    findings = plugins.diagnose(evidence)
    return Diagnosis(ladder.judge(rungs, evidence, findings), rungs, findings, evidence)


def count_trials(facts: RunFacts) -> int | None:
    """Count completed trials (`result.json`) where the trials directory is on this machine."""
    for argument in facts.arguments:
        key, _, value = argument.lstrip("+").partition("=")
        if key == "terminal_bench_config.trials_dir":
            folder = Path(value.strip("'\""))
            if folder.is_absolute() and folder.is_dir():
                return sum(1 for _ in folder.glob("*/result.json"))
    return None


def stop(world: World, job: Job) -> Status:
    """Stop one job and return its state afterwards. Idempotent."""
    if job.unsent is not None:
        return job.unsent
    job.chosen.cluster.stop(job.ref)
    seen = status(world, [job])[job.ref]
    tell(world, job.chosen, Event("stopped", world.clock.now(), job.facts, seen))
    return seen


def exit_code(statuses: Sequence[Status]) -> int:
    """Return the exit code of several runs, the worst of them: 0 succeeded, 1 failed or left waiting
    at an admission time-out, 2 absent, 3 could not be told, 4 still going."""
    return max((_code(s.state) for s in statuses), key=_WORST.index, default=0)


_WORST = (0, 4, 1, 2, 3)
"""From best to worst: not to know is worse than to know of a failure."""


def _code(state: State) -> int:
    if state is State.SUCCEEDED:
        return 0
    if state is State.ABSENT:
        return 2
    if state is State.UNKNOWN:
        return 3
    return 1 if state.ended else 4


CODES = (
    Code(
        "run.reference",
        "A reference to a job is not `CLUSTER:ID`.\n\n"
        "The cluster is a name that `rlaunch clusters` lists, the id is the scheduler's own.",
    ),
    Code(
        "run.unrecorded",
        "A run whose launch never recorded that the cluster took it.\n\n"
        "The launch was killed, lost its answer, or is still going on. The cluster is asked for the run by\n"
        "its id, so `status` and `stop` reach every job that is there; but of a chain some may never have\n"
        "been sent. Stop it and launch again with `--if-exists new`.",
        "warning",
    ),
    Code(
        "run.unsent",
        "The run was refused before anything was sent.\n\n"
        "No scheduler ever had it: it has no log, its name is free, and `rlaunch runs` says `not sent`.",
    ),
    Code(
        "run.unknown",
        "The run record has no such run, and no cluster was named.\n\n"
        "A missing record is not an absent job: it may have been started on another machine. "
        "`CLUSTER:ID` asks the cluster itself.",
    ),
)
