"""When a running SkyRL run does not move, or moves without work: rules for wedge and starvation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice

from rlaunch.codes import rule
from rlaunch.model import Finding, LogLine, State
from rlaunch.skyrl import sightings
from rlaunch.skyrl.sightings import Report, Sightings

SILENT_S = 2400.0
"""A running gang prints something at least this often, while it generates."""
SILENT_TRAINING_S = 5400.0
"""One training step of 131k tokens was measured at up to 55 minutes."""
FROZEN_S = 600
"""A buffer that does not move for this long; one trial of 131k tokens comes every minute or so."""
STAGING_S = 600.0
ENOUGH = 3
"""Reports of an engine that make a pattern."""
CROWDED = 4
"""Requests waiting for each one running, from which an engine is oversubscribed."""

_GENERATING = frozenset({"step", "generate", "wait_for_generation_buffer"})
_IDLE_STATES = frozenset({State.PENDING, State.WAITING, State.UNKNOWN})


def _goes_on(seen: Sightings) -> bool:
    states = seen.evidence.states
    return bool(states) and not states[-1].state.ended and states[-1].state not in _IDLE_STATES


def _trains(seen: Sightings) -> bool:
    """True while a phase is open in which engines have nothing to do."""
    return bool(set(seen.open_phases) - _GENERATING)


@rule("skyrl.ranks-missing", level="warning")
def ranks_missing(seen: Sightings) -> Iterator[Finding]:
    """Some ranks have not begun to stage their data, while others have.

    Seconds after the start that is normal; the ranks are named so that one can look.
    """
    missing = _missing(seen)
    ended = any(status.state.ended for status in seen.evidence.states[-1:])
    if missing and not _overdue(seen) and "gang" not in seen and not ended:
        yield Finding("warning", "skyrl.ranks-missing", f"no line yet from {_ranks(missing)}")


@rule("skyrl.wedge-ranks-missing")
def ranks_lost(seen: Sightings) -> Iterator[Finding]:
    """Some ranks have printed nothing for ten minutes, while others have staged their data.

    The others wait at the rendezvous until it times out, half an hour in.
    """
    missing = _missing(seen)
    if missing and _overdue(seen) and "gang" not in seen and _goes_on(seen):
        message = f"no line from {_ranks(missing)}, while {len(seen.staging)} others wait"
        yield Finding(
            "error",
            "skyrl.wedge-ranks-missing",
            message,
            hint="look at that node: image, disk, proxy",
        )


def _missing(seen: Sightings) -> list[int]:
    return [r for r in range(seen.nodes) if r not in seen.staging] if seen.staging else []


def _overdue(seen: Sightings) -> bool:
    """True where staging began, by the lines' own times, long before now."""
    first = next(iter(seen.staging.values()))
    age = seen.age_s(first)
    return age is not None and age >= STAGING_S


@rule("skyrl.wedge-silent")
def silent(seen: Sightings) -> Iterator[Finding]:
    """The run is running and has printed nothing, on any rank, for far too long.

    40 minutes while it generates; 90 while a training phase is open, since one step at 131k tokens
    takes up to 55. Take stacks (`py-spy dump`) before stopping it.
    """
    age = seen.silent_s()
    limit = SILENT_TRAINING_S if _trains(seen) else SILENT_S
    if age is not None and age >= limit and _goes_on(seen):
        message = f"no rank has printed a line for {age / 60:.0f} minutes, while it is running"
        yield Finding(
            "error",
            "skyrl.wedge-silent",
            message,
            hint="take stacks (`py-spy dump`) before stopping",
        )


@rule("skyrl.wedge-engines-stalled")
def engines_stalled(seen: Sightings) -> Iterator[Finding]:
    """Engines have requests and generate nothing, report after report."""
    reports = _all_recent(seen, lambda report: report.speed == 0 and report.running > 0)
    if reports and _goes_on(seen):
        yield _engines("skyrl.wedge-engines-stalled", "engines have requests and generate nothing",
                       reports)  # fmt: skip


@rule("skyrl.starvation-engines-idle")
def engines_idle(seen: Sightings) -> Iterator[Finding]:
    """All engines are idle, report after report, and no training phase is open.

    They are up, and nobody sends them work: the cause lies in the pipeline before them (the
    coordinators' CPUs, the staleness limit), not in the sandboxes.
    """
    reports = _all_recent(seen, lambda report: report.speed == 0 and not report.running)
    if reports and _goes_on(seen) and not _trains(seen) and sightings.END not in seen:
        yield _engines("skyrl.starvation-engines-idle", "engines are up and get no work", reports)


@rule("skyrl.starvation-oversubscribed")
def oversubscribed(seen: Sightings) -> Iterator[Finding]:
    """Far more requests wait than run, and the throughput does not grow.

    The engines are the bottleneck: more engines, or fewer concurrent trials.
    """
    crowded = [
        reports[-1]
        for reports in seen.engines.values()
        if len(reports) >= 2
        and all(report.waiting >= CROWDED * max(report.running, 1) for report in _recent(reports))
        and max(report.speed for report in _recent(reports))
        <= 1.2 * min(report.speed for report in _recent(reports))
    ]
    if crowded and 2 * len(crowded) >= len(seen.engines) and _goes_on(seen):
        yield _engines("skyrl.starvation-oversubscribed", "far more requests wait than run", crowded,
                       "lower `n_concurrent_trials`, or give more engines")  # fmt: skip


@rule("skyrl.wedge-buffer-frozen")
def buffer_frozen(seen: Sightings) -> Iterator[Finding]:
    """The generation buffer stands at the same count while its clock goes on, for ten minutes.

    With idle engines that is starvation (`skyrl.starvation-engines-idle`), and said there.
    """
    last = seen.buffer[-1] if seen.buffer else None
    if last is None or last.done >= last.size or _trains(seen) or not _goes_on(seen):
        return
    same = [fill for fill in seen.buffer if (fill.done, fill.size) == (last.done, last.size)]
    frozen = last.elapsed_s - min(fill.elapsed_s for fill in same)
    if frozen >= FROZEN_S and not any(engines_idle(seen)):
        message = (
            f"no trial has completed for {frozen // 60} minutes: `{last.line.text.strip()[-300:]}`"
        )
        yield Finding("error", "skyrl.wedge-buffer-frozen", message)


def _recent(reports: Iterable[Report]) -> list[Report]:
    return list(islice(reversed(tuple(reports)), ENOUGH))


def _all_recent(seen: Sightings, holds: Callable[[Report], bool]) -> list[Report]:
    """Return the newest report of every engine where `holds` for the last few of all of them."""
    recent = [_recent(reports) for reports in seen.engines.values()]
    if recent and all(len(few) == ENOUGH and all(map(holds, few)) for few in recent):
        return [few[0] for few in recent]
    return []


def _engines(code: str, says: str, reports: list[Report], hint: str = "") -> Finding:
    line: LogLine = reports[0].line
    place = "" if line.rank is None else f"rank {line.rank}"
    message = f"{says} ({len(reports)} engines): `{line.text.strip()[-400:]}`"
    return Finding("error", code, message, place, hint)


def _ranks(ranks: list[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))


RULES: tuple[Callable[[Sightings], Iterator[Finding]], ...] = (
    ranks_missing,
    ranks_lost,
    silent,
    engines_stalled,
    engines_idle,
    oversubscribed,
    buffer_frozen,
)
