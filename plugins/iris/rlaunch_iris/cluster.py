"""The Iris cluster: strings the parts together, holds one connection and what was seen missing."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from rlaunch.cluster import Clock, Cluster, LogQuery, PreflightQuery, Report
from rlaunch.errors import ClusterError
from rlaunch.model import Command, Finding, JobRef, LogLine, Observed, Plan, Run, State, Status
from rlaunch.shell import Shell
from rlaunch_iris import planning
from rlaunch_iris.profile import IrisProfile

if TYPE_CHECKING:
    from rlaunch_iris.adapter import Controller
    from rlaunch_iris.views import JobView, TaskView

GONE_S = 2.0
"""Where pods cannot be counted, a job is absent when the controller says so twice, so far apart."""


WELL_S = 1.0
"""A controller that was well so recently is not asked for its health again."""
LOOK_S = 30.0
"""While many jobs are watched, the ranks of one that waits are looked at so often."""


class Look(NamedTuple):
    """The ranks of a job as they were seen, and what the job itself was then."""

    mark: JobView
    at: float
    tasks: tuple[TaskView, ...]


def shared_beginning(ids: Sequence[str]) -> str:
    """Return the characters that all ids begin with."""
    low, high = min(ids), max(ids)
    same = next(
        (i for i, pair in enumerate(zip(low, high, strict=False)) if pair[0] != pair[1]), None
    )
    return low if same is None else low[:same]


class Iris(Cluster):
    """Whole nodes behind an Iris controller. A job's native id is Iris's own, `/user/name`.

    The connection (a port-forward on CoreWeave) is opened by the first question and lives as long as this
    object; a question that fails closes it, so that the next one opens a fresh one.
    """

    Profile = IrisProfile
    checks = ("controller", "running", "kubernetes", "storage")

    def __init__(self, profile: IrisProfile, shell: Shell, clock: Clock) -> None:
        super().__init__(profile, shell, clock)
        self._facts = profile.facts()
        self._controller: Controller | None = None
        self._opening = threading.Lock()
        self._looks: dict[str, Look] = {}
        self._well_at = 0.0

    def observe(self, run: Run) -> Observed:
        """Pack the workspace, compare MarinSkyRL with the image, list the nodes."""
        from rlaunch_iris.observe import look

        return look(run, self.shell, self.clock.now())

    def plan(self, run: Run, command: Command, observed: Observed) -> Plan:
        """Plan the request and what it carries; pure."""
        return planning.plan_run(run, command, observed)

    def preflight(self, query: PreflightQuery) -> Iterable[Finding]:
        """Ask controller, Kubernetes, store and keyring, all at once."""
        from rlaunch_iris.preflight import check

        return check(query, self.connect, self.clock.now())

    def submit(self, plan: Plan, secrets: Mapping[str, str], report: Report) -> JobRef:
        """Launch the job once; returns when the controller has it."""
        from rlaunch_iris.submit import submit_plan

        return submit_plan(
            plan, secrets, report, shell=self.shell, connect=self.connect, sleep=self.clock.sleep
        )

    def status(self, refs: Sequence[JobRef]) -> Mapping[JobRef, Status]:
        """Return every state: one question for all jobs, and one more for a job whose ranks have changed.

        A controller that cannot be asked gives `UNKNOWN`, never `ABSENT`.
        """
        if not refs:
            return {}
        try:
            jobs = self._jobs(refs)
            many = len(refs) > 1
            return {ref: self._judge(ref, jobs.get(ref.native), many) for ref in refs}
        except ClusterError as error:
            self.close()
            return {ref: Status(ref, State.UNKNOWN, str(error)) for ref in refs}

    def _jobs(self, refs: Sequence[JobRef]) -> Mapping[str, JobView | None]:
        controller = self.connect()
        ids = [ref.native for ref in refs]
        if len(set(ids)) == 1:
            return {ids[0]: controller.job(ids[0])}
        return controller.jobs(shared_beginning(ids))

    def _judge(self, ref: JobRef, job: JobView | None, many: bool) -> Status:
        from rlaunch_iris.states import judge

        if job is None:
            return self._missing(ref)
        return judge(ref, job, self._tasks(ref.native, job, many))

    def _tasks(self, job_id: str, job: JobView, many: bool) -> tuple[TaskView, ...]:
        """Return a job's ranks: what was seen last where they cannot have changed, or, of many jobs, where
        the job itself has not and the look is not old.
        """
        mark = job._replace(counts=tuple(sorted(job.counts.items())))  # type: ignore[arg-type]  # to compare
        known = self._looks.get(job_id)
        now = self.clock.monotonic()
        if known is not None and known.mark == mark:
            running = job.counts.get("running", 0) == job.tasks
            if job.ended or (many and (running or now - known.at < LOOK_S)):
                return known.tasks
        tasks = self.connect().tasks(job_id)
        self._looks[job_id] = Look(mark, now, tasks)
        return tasks

    def _missing(self, ref: JobRef) -> Status:
        """Make sure that a job is not there: no record and no pods, or no record twice."""
        from rlaunch_iris.kube import open_kube
        from rlaunch_iris.states import judge

        try:
            api = open_kube(self._facts)
            count = api.count_pods(ref.native, self.profile.namespace) if api else None
        except ClusterError:
            count = None
        if count:
            reason = f"the controller has no record of it, and {count} pods carry its label"
            return Status(ref, State.UNKNOWN, reason)
        if count is None:
            self.clock.sleep(GONE_S)
            controller = self.connect()
            job = controller.job(ref.native)
            if job is not None:
                return judge(ref, job, controller.tasks(ref.native))
        return Status(ref, State.ABSENT)

    def logs(self, query: LogQuery) -> Iterator[LogLine]:
        """Yield the job's lines as the controller has them, in pages, by cursor."""
        from rlaunch_iris.logs import read

        job = self._known(query.ref)
        yield from read(
            self.connect, query, lambda: self._is_over(query.ref), self.clock.sleep,
            self.clock.monotonic, fresh=job.ended and self._ended_just_now(job),
        )  # fmt: skip

    def _ended_just_now(self, job: JobView) -> bool:
        """Tell whether the job's last lines may still be on their way; by two clocks, so generously."""
        from rlaunch_iris.logs import FRESH_S, milliseconds

        return milliseconds(self.clock.now()) - job.finished_ms < FRESH_S * 1000

    def _known(self, ref: JobRef) -> JobView:
        job = self.connect().job(ref.native)
        if job is None:
            raise ClusterError.of(
                "iris.absent", f"the controller has no job `{ref.native}`",
                hint="`rlaunch runs` lists the runs; a finished job is forgotten after seven days",
            )  # fmt: skip
        return job

    def _is_over(self, ref: JobRef) -> bool:
        job = self.connect().job(ref.native)
        return job is None or job.ended

    def stop(self, ref: JobRef) -> None:
        """End this job, with whatever it started, and nothing else; an ended or absent one is no error."""
        controller = self.connect()
        job = controller.job(ref.native)
        if job is not None and not job.ended:
            controller.cancel(ref.native)

    def connect(self) -> Controller:
        """Return the open connection, opening it first where there is none. Raises ClusterError.

        One that was opened is asked for its health now and then: the client itself would go on asking a
        controller that is gone for half an hour.
        """
        from rlaunch_iris.connect import check_health, open_controller

        with self._opening:
            now = self.clock.monotonic()
            if self._controller is None:
                self._controller = open_controller(self._facts)
            elif now - self._well_at > WELL_S:
                check_health(self._controller.url)
            self._well_at = now
            return self._controller

    def close(self) -> None:
        """Close the connection; the next question opens another."""
        controller, self._controller = self._controller, None
        if controller is not None:
            controller.close()
