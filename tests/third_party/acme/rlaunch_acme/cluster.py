"""The six methods: each asks one command of the queue and reads its answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from rlaunch import (
    Cluster,
    Command,
    Finding,
    JobRef,
    LogLine,
    LogQuery,
    Observed,
    Plan,
    PreflightQuery,
    Profile,
    Report,
    Run,
    State,
    Status,
)
from rlaunch_acme import queue


class Acme(Cluster):
    """One machine behind the batch queue `queue`; a job's native id is the queue's number."""

    Profile = Profile

    def plan(self, run: Run, command: Command, observed: Observed) -> Plan:
        """Return the request that `queue submit` gets; secrets are added to it at submit."""
        request = queue.request(command.argv, run.env)
        return Plan(
            run=run,
            command=command,
            env=dict(run.env),
            secrets=run.secrets,
            files=(),
            artifacts=(),
            secret_files=(),
            native={"command": ["queue", "submit"], "request": request},
            observed=observed,
        )

    def preflight(self, query: PreflightQuery) -> Iterable[Finding]:
        """Ask the queue whether it is there."""
        done = self.shell.run(queue.show([]), timeout=10)
        if done.code != 0:
            yield Finding(
                "error", "acme.queue-failed", "the queue cannot be asked", hint="try `queue show`"
            )

    def submit(self, plan: Plan, secrets: Mapping[str, str], report: Report) -> JobRef:
        """Send the planned request."""
        argv, env = queue.read_request(plan.native["request"])
        text = queue.request(argv, {**env, **secrets})
        report("sending the request")
        number = queue.read_submit(self.shell.run(plan.native["command"], stdin=text))
        return JobRef(plan.run.cluster, number, plan.run.id)

    def status(self, refs: Sequence[JobRef]) -> Mapping[JobRef, Status]:
        """Ask about all jobs at once."""
        if not refs:
            return {}
        rows = queue.read_show(self.shell.run(queue.show([ref.native for ref in refs])))
        return {ref: self._status(ref, rows.get(ref.native)) for ref in refs}

    def _status(self, ref: JobRef, row: queue.Row | None) -> Status:
        if row is None:
            return Status(ref, State.ABSENT)
        state = queue.STATES.get(row.word, State.UNKNOWN)
        return Status(ref, state, reason=f"queue: {row.word}", exit_code=row.code)

    def logs(self, query: LogQuery) -> Iterator[LogLine]:
        """Yield what the job printed."""
        while query.follow and not self.status([query.ref])[query.ref].state.ended:
            self.clock.sleep(5)
        if query.rank not in (None, 0):
            return
        done = self.shell.run(["queue", "log", query.ref.native])
        for line in queue.checked(done).splitlines():
            yield LogLine(line, rank=0)

    def stop(self, ref: JobRef) -> None:
        """Cancel the job; one that the queue does not know (code 4) is no error."""
        done = self.shell.run(["queue", "cancel", ref.native])
        if done.code != 4:
            queue.checked(done)
