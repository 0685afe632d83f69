"""The local cluster: strings the parts together, holds nothing but what was read last."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rlaunch.cluster import Clock, Cluster, LogQuery, PreflightQuery, Report
from rlaunch.errors import ClusterError
from rlaunch.model import Command, Finding, JobRef, LogLine, Observed, Plan, Run, State, Status
from rlaunch.settled import LazyProfile, Settled
from rlaunch.shell import Shell
from rlaunch_local import places, planning

if TYPE_CHECKING:
    from rlaunch import profiles
    from rlaunch_local.status import Watched


class Local(Cluster):
    """This machine: one node agent per pretended node, and a supervisor that outlives the terminal.

    A run is its directory; its native id is the run id. Every method works from any process of the same
    user.
    """

    Profile = LazyProfile("rlaunch_local.profile", "LocalProfile")
    checks = (
        "no-python", "no-ray", "port-busy", "run-exists", "not-writable", "no-checkpoint", "no-disk",
        "no-memory", "small-shm", "gpus-shared",
    )  # fmt: skip

    def __init__(self, profile: profiles.Profile | Settled, shell: Shell, clock: Clock) -> None:
        super().__init__(profile, shell, clock)
        self._watched: dict[str, Watched] = {}

    def observe(self, run: Run) -> Observed:
        """Find free ports and a free loopback network, and look what the machine has."""
        from rlaunch_local.observe import look

        return look(run, self.clock.now())

    def plan(self, run: Run, command: Command, observed: Observed) -> Plan:
        """Plan the agents' command lines; pure."""
        return planning.plan_run(run, command, observed)

    def preflight(self, query: PreflightQuery) -> Iterable[Finding]:
        """Look at interpreter, ports, directories, disk and memory."""
        from rlaunch_local.preflight import check

        return check(query, self.shell)

    def submit(self, plan: Plan, secrets: Mapping[str, str], report: Report) -> JobRef:
        """Write the run directory and start the supervisor; returns once that lives."""
        from rlaunch_local.submit import submit_plan

        return submit_plan(plan, secrets, report)

    def status(self, refs: Sequence[JobRef]) -> Mapping[JobRef, Status]:
        """Return the state of every ref: the supervisor's word, if it lives or wrote an end."""
        return {ref: self._status(ref) for ref in refs}

    def _status(self, ref: JobRef) -> Status:
        from rlaunch_local.status import Watched

        watched = self._watched.get(ref.native)
        if watched is None:  # the directory is looked for once: a look at a run costs one stat else
            run_dir = self._directory(ref)
            if run_dir is None:
                return Status(ref, State.ABSENT)
            watched = self._watched.setdefault(ref.native, Watched(run_dir))
        seen = watched.status(ref, self.clock.monotonic(), self.clock.now())
        if seen.state is State.ABSENT:
            del self._watched[ref.native]
        return seen

    def logs(self, query: LogQuery) -> Iterator[LogLine]:
        """Yield the run's lines by time. Raises ClusterError `local.absent` for a run that is not here."""
        from rlaunch_local.logs import read

        run_dir = self._directory(query.ref)
        if run_dir is None:
            raise ClusterError.of(
                "local.absent", f"this machine has no run `{query.ref.native}`",
                hint="`rlaunch runs` lists the runs that were started here",
            )  # fmt: skip
        yield from read(
            run_dir, query, lambda: self._status(query.ref).state.ended, self.clock.sleep
        )

    def stop(self, ref: JobRef) -> None:
        """Stop this run and wait until nothing of it is left; an absent or ended one is no error."""
        from rlaunch_local.stopping import stop_run

        if run_dir := self._directory(ref):
            stop_run(run_dir, ref.native)

    def _directory(self, ref: JobRef) -> Path | None:
        return places.find(ref.native, str(self.profile.run_dir))
