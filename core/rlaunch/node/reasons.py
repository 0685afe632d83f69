"""Why a gang ended, in names, and the exit code that goes with each."""

from __future__ import annotations

from typing import Any, NamedTuple

SUCCEEDED = "succeeded"
FAILED = "failed"

DRIVER_EXIT = "driver-exit"
DRIVER_SIGNAL = "driver-signal"
DRIVER_SILENT = "driver-silent"
STAGING_FAILED = "staging-failed"
RANK_MISSING = "rank-missing"
HEAD_LOST = "head-lost"
WORKER_LOST = "worker-lost"
RAY_FAILED = "ray-failed"
STORE_FAILED = "store-failed"
SUPERVISOR_LOST = "supervisor-lost"
TERMINATED = "terminated"
VERSION_MISMATCH = "version-mismatch"
SUPERSEDED = "superseded"
BAD_FLAGS = "bad-flags"
AGENT_FAILED = "agent-failed"

EXIT_CODES = {
    BAD_FLAGS: 64,
    STAGING_FAILED: 65,
    RANK_MISSING: 66,
    HEAD_LOST: 67,
    WORKER_LOST: 68,
    RAY_FAILED: 69,
    STORE_FAILED: 70,
    SUPERVISOR_LOST: 71,
    VERSION_MISMATCH: 72,
    SUPERSEDED: 73,
    AGENT_FAILED: 79,
    DRIVER_SILENT: 124,
}
"""Exit status of an agent by reason. A driver that exits or is killed, and a signal, bring their own."""


class Outcome(NamedTuple):
    """How an attempt ended, decided by rank 0 and shared by all ranks."""

    outcome: str
    """`succeeded` or `failed`."""
    reason: str = ""
    exit_code: int | None = None
    """The driver's own, where it had one."""
    signal: int | None = None
    """The signal that killed the driver or ended the agent."""
    detail: str = ""
    code: int = 0
    """Exit status of every agent."""
    oom_kills: int = 0
    """Processes that the kernel killed for want of memory, just before, where this was decided."""

    @property
    def succeeded(self) -> bool:
        """True where the driver exited 0."""
        return self.outcome == SUCCEEDED


def succeed() -> Outcome:
    """Return the outcome of a driver that exited 0."""
    return Outcome(SUCCEEDED, DRIVER_EXIT, exit_code=0)


def fail(reason: str, detail: str = "", *, signal: int | None = None) -> Outcome:
    """Return a failure by its reason; `signal` is the one that ended an agent."""
    code = 128 + signal if signal else EXIT_CODES.get(reason, EXIT_CODES[AGENT_FAILED])
    return Outcome(FAILED, reason, signal=signal, detail=detail, code=code)


def judge_driver(status: int) -> Outcome:
    """Translate a driver's wait status as `subprocess` gives it: −N is signal N."""
    if status == 0:
        return succeed()
    if status < 0:
        return fail(DRIVER_SIGNAL, f"the driver was killed by signal {-status}", signal=-status)
    return Outcome(
        FAILED, DRIVER_EXIT, exit_code=status, detail=f"the driver exited {status}", code=status
    )


def read_outcome(body: dict[str, Any]) -> Outcome:
    """Read an outcome from a record or message; unknown values become a plain failure."""
    if body.get("outcome") == SUCCEEDED:
        return succeed()
    code = _integer(body.get("code"))
    exit_code = _integer(body.get("exit_code"))
    return Outcome(
        FAILED,
        str(body.get("reason") or AGENT_FAILED),
        exit_code=exit_code,
        signal=_integer(body.get("signal")),
        detail=str(body.get("detail") or ""),
        code=code or exit_code or EXIT_CODES[AGENT_FAILED],
        oom_kills=_integer(body.get("oom_kills")) or 0,
    )


def _integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def blame_memory(outcome: Outcome, kills: int) -> Outcome:
    """Say of a failure of the driver or of Ray that the kernel killed processes just before it."""
    if not kills or outcome.reason not in (DRIVER_EXIT, DRIVER_SIGNAL, RAY_FAILED, WORKER_LOST):
        return outcome
    text = f"the kernel killed {kills} process(es) of this node for want of memory, then "
    return outcome._replace(detail=text + outcome.detail, oom_kills=kills)


class Ending(Exception):  # noqa: N818  # not an error: the way every role comes to its end
    """Raised inside the loop when the attempt is over for this rank."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome
