"""The contract of a cluster: six abstract methods and one optional observation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from rlaunch.model import Command, Finding, JobRef, LogLine, Observed, Plan, Run, Status

if TYPE_CHECKING:  # pydantic is loaded by the stage that validates a profile, not by this contract
    from rlaunch import profiles
    from rlaunch.settled import Settled
    from rlaunch.shell import Shell

Report = Callable[[str], None]
"""Takes one line of progress; shown on a terminal, printed when piped."""


class Clock(Protocol):
    """Time, injected so that tests decide it."""

    def now(self) -> str:
        """Return the time as RFC 3339 in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class PreflightQuery(NamedTuple):
    """What preflight looks at. `present` has the names of the secrets that are at hand."""

    plan: Plan
    present: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()
    """Names of checks, or codes, that the operator waived."""
    collect: Callable[[], Mapping[str, str]] = dict
    """Gives what `submit` will get as `secrets`, to a check that tries the job's own credentials."""


class LogQuery(NamedTuple):
    """Which lines are wanted; every None means all."""

    ref: JobRef
    follow: bool = False
    rank: int | None = None
    attempt: int | None = None
    since: str | None = None
    """RFC 3339; lines from then on."""


class Cluster(ABC):
    """A place where runs happen: pure until `submit`.

    A plugin subclasses it, sets `Profile` to its subclass of the core's profile model, and returns
    the class from `rlaunch_cluster`. Methods raise `ClusterError` and nothing else for what the
    world did; a bug keeps its own exception.
    """

    Profile: ClassVar[type[profiles.Profile]]
    checks: ClassVar[tuple[str, ...]] = ()
    """Names of the checks that `preflight` leaves out when they stand in `skip`; no others are taken."""

    def __init__(self, profile: profiles.Profile | Settled, shell: Shell, clock: Clock) -> None:
        self.profile: Any = profile
        self.shell = shell
        self.clock = clock

    def observe(self, run: Run) -> Observed:
        """Look at the cluster before planning; read-only, at most 5 s. Default: nothing seen."""
        return Observed()

    @abstractmethod
    def plan(self, run: Run, command: Command, observed: Observed) -> Plan:
        """Return everything that will be sent. Pure, total, deterministic: reads nothing."""

    @abstractmethod
    def preflight(self, query: PreflightQuery) -> Iterable[Finding]:
        """Look whether the plan can work here: access, room, credentials. Read-only, at most 10 s."""

    @abstractmethod
    def submit(self, plan: Plan, secrets: Mapping[str, str], report: Report) -> JobRef:
        """Send the plan as it is. `secrets` has values for names in the plan, no others.

        Raises `UnclearSubmitError` where the job may have been taken although nobody said so.
        """

    @abstractmethod
    def status(self, refs: Sequence[JobRef]) -> Mapping[JobRef, Status]:
        """Return the authoritative state of every ref, in one question to the scheduler.

        An unknown job is `ABSENT`; a scheduler that cannot be asked gives `UNKNOWN`. Of a run whose submit
        was interrupted the native id is the plan's `native["job"]`, or else the run id.
        """

    @abstractmethod
    def logs(self, query: LogQuery) -> Iterator[LogLine]:
        """Yield the job's lines from the first on; with `follow` until the job has ended and drained."""

    @abstractmethod
    def stop(self, ref: JobRef) -> None:
        """Stop this job and nothing else. Idempotent: an ended or absent job is no error."""
