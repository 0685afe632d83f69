"""What a SkyRL run has shown: known lines by name, and the rules that weigh several of them.

Pure. The first word of a code's slug is the verdict that it supports (`rlaunch.ladder.judge`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from rlaunch.codes import Code, rule
from rlaunch.model import Evidence, Finding, Level
from rlaunch.skyrl import sightings, stalls
from rlaunch.skyrl.sightings import Sighting, Sightings
from rlaunch.skyrl.signatures import SIGNATURES

ENOUGH = 3
"""Failed trials that make a pattern where nobody could count all of them."""

Rule = Callable[[Sightings], Iterator[Finding]]


def diagnose(evidence: Evidence) -> Iterable[Finding]:
    """Yield a finding for every known line, and for what the lines and the state amount to."""
    seen = Sightings(evidence)
    for signature in SIGNATURES:
        if signature.code in seen:
            yield _line(signature.level, signature.code, signature.says, seen[signature.code],
                        signature.hint)  # fmt: skip
    for one in RULES:
        yield from one(seen)


def _line(level: Level, code: str, says: str, sighting: Sighting, hint: str = "") -> Finding:
    """Make a finding that shows its first line literally."""
    line = sighting.first
    times = "once" if sighting.times == 1 else f"{sighting.times} times"
    place = "" if line.rank is None else f"rank {line.rank}"
    message = f"{says}; seen {times}: `{line.text.strip()[:400]}`"
    return Finding(level, code, message, place, hint)


@rule("skyrl.fatal-collective-timeout")
def collective_timeout(seen: Sightings) -> Iterator[Finding]:
    """A collective operation timed out and took its process down.

    NCCL's watchdog names the operation and how long it ran. One such remark alone is benign (see
    `skyrl.benign-watchdog`); with an abort, or from several ranks, a rank has stopped taking part.
    """
    if sightings.TIMEOUT in seen or _aborted(seen):
        name = sightings.TIMEOUT if sightings.TIMEOUT in seen else sightings.WATCHDOG
        yield _line(
            "error", "skyrl.fatal-collective-timeout", "a collective operation timed out",
            seen[name], "look for the rank that printed something else last",
        )  # fmt: skip


@rule("skyrl.benign-watchdog", level="note")
def lone_watchdog(seen: Sightings) -> Iterator[Finding]:
    """NCCL's watchdog remarked on one slow operation, and nothing was aborted."""
    if sightings.WATCHDOG in seen and not _aborted(seen):
        yield _line(
            "note", "skyrl.benign-watchdog", "one collective operation was slow",
            seen[sightings.WATCHDOG],
        )  # fmt: skip


def _aborted(seen: Sightings) -> bool:
    if sightings.WATCHDOG not in seen:
        return False
    return sightings.ABORT in seen or seen[sightings.WATCHDOG].times > 1


@rule("skyrl.fatal-no-weights")
def no_weights(seen: Sightings) -> Iterator[Finding]:
    """The model's weights could not be found, and nothing says that it is tried again.

    The same error with "retrying" is benign; without it the run ends about a minute into its start.
    A later line that the models are done takes this back.
    """
    if sightings.NO_WEIGHTS in seen:
        yield _line(
            "error", "skyrl.fatal-no-weights", "the model has no weights",
            seen[sightings.NO_WEIGHTS], "check the name of the model and the token for it",
        )  # fmt: skip


@rule("skyrl.fatal-no-sandbox")
def no_sandbox(seen: Sightings) -> Iterator[Finding]:
    """No trial's sandbox was ever built: every trial ended in `AddTestsDirError`.

    The run goes on, burns its GPUs, and every reward is 0.
    """
    if _all_trials(seen, sightings.NO_TESTS):
        yield _line(
            "error", "skyrl.fatal-no-sandbox", "no trial could set up its sandbox",
            seen[sightings.NO_TESTS], "check the sandbox provider, its image and its quota",
        )  # fmt: skip


@rule("skyrl.fatal-not-verified")
def not_verified(seen: Sightings) -> Iterator[Finding]:
    """No trial was verified: every trial ended in `VerificationNotCompletedError`.

    Seen when the credentials of the sandbox provider did not reach the job.
    """
    if _all_trials(seen, sightings.NOT_VERIFIED):
        yield _line(
            "error", "skyrl.fatal-not-verified", "no trial was verified",
            seen[sightings.NOT_VERIFIED], "check that the sandbox credentials reach the job",
        )  # fmt: skip


@rule("skyrl.trial-errors", level="warning")
def trial_errors(seen: Sightings) -> Iterator[Finding]:
    """Some trials ended in an error of their sandbox; others did not, or too few are known to tell."""
    for name in (sightings.NO_TESTS, sightings.NOT_VERIFIED):
        if name in seen and not _all_trials(seen, name):
            yield _line("warning", "skyrl.trial-errors", "trials ended in an error", seen[name])


def _all_trials(seen: Sightings, name: str) -> bool:
    """True where every trial failed so: as many as have completed, or nothing shows another end."""
    if name not in seen or any(reward > 0 for reward in seen.rewards):
        return False
    trials = seen.evidence.trials
    return seen[name].times >= (ENOUGH if trials is None else max(trials, 1))


@rule("skyrl.slow-network", level="warning")
def slow_network(seen: Sightings) -> Iterator[Finding]:
    """NCCL talks over sockets and not over InfiniBand: right, and many times slower."""
    if sightings.SOCKETS in seen:
        yield _line(
            "warning", "skyrl.slow-network", "NCCL uses sockets", seen[sightings.SOCKETS],
            "check NCCL_IB_HCA, NCCL_SOCKET_IFNAME and NCCL_IB_DISABLE",
        )  # fmt: skip


RULES: tuple[Rule, ...] = (
    collective_timeout,
    lone_watchdog,
    no_weights,
    no_sandbox,
    not_verified,
    trial_errors,
    slow_network,
    *stalls.RULES,
)

CODES: tuple[Code, ...] = (
    *(signature.page for signature in SIGNATURES),
    *(one.code for one in RULES),  # type: ignore[attr-defined]  # set by @rule
)
