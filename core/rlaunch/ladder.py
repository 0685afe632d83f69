"""The ladder: how far a run has come, by the lines that prove it, and what that amounts to.

Pure. `climb` looks for milestones, `judge` weighs rungs, state and findings. Neither guesses: what
could not be obtained is "no evidence", and a run in which nothing has finished is never "healthy".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rlaunch import logscan, phases
from rlaunch.model import Evidence, Finding, LogLine, Milestone, State
from rlaunch.texts import brief

PROGRESSING = "progressing"
"""Trials complete or steps advance."""
EXECUTING = "executing"
"""It climbs, nothing is wrong that can be seen, and no completed trial is known of: none, where they
could be counted; else neither said nor denied, and the reasons say so."""
WEDGE = "wedge"
"""It is running and does not move."""
STARVATION = "starvation"
"""It moves, but its engines have no work or far too much."""
FAILED = "failed"
SUCCEEDED = "succeeded"
NO_EVIDENCE = "no evidence"
"""What would be needed for a verdict could not be obtained."""

WORDS = (PROGRESSING, EXECUTING, WEDGE, STARVATION, FAILED, SUCCEEDED, NO_EVIDENCE)

_KEPT = 3
"""Lines that a rung keeps where one would do: the first two and the newest."""


_BEFORE = "the run had ended before"


class Rung(NamedTuple):
    """A milestone, and what a run has shown of it."""

    milestone: Milestone
    """Its `absence` names the missing ranks where some are missing."""
    reached: bool
    lines: tuple[LogLine, ...] = ()
    """The literal lines that prove it, with their ranks; the newest of each rank where every one
    counts."""
    seen: int = 0
    """All lines that matched, those that Ray folded into one included."""
    missing: tuple[int, ...] = ()
    """Ranks that have not shown it, where every rank counts."""


class Verdict(NamedTuple):
    """What it all amounts to."""

    word: str
    """One of `WORDS`."""
    reasons: tuple[str, ...]


def climb(milestones: Iterable[Milestone], evidence: Evidence) -> tuple[Rung, ...]:
    """Return the rungs that apply to a run, lowest first, with the lines that prove them.

    Only lines of the newest attempt count. A rung that does not apply is left out, unless its line
    is there all the same.
    """
    ladder = sorted(milestones, key=lambda milestone: (milestone.rung, milestone.name))
    owners = [place for place, milestone in enumerate(ladder) for _ in milestone.patterns]
    patterns = [pattern for milestone in ladder for pattern in milestone.patterns]
    lines = logscan.newest_attempt(evidence)[1]
    found = [_Found(milestone) for milestone in ladder]
    nodes = evidence.facts.nodes
    if (
        nodes is None
    ):  # a job that rlaunch did not start: its staging lines say how many ranks it has
        patterns.append(logscan.SIZE)
    for hit in logscan.search(lines, patterns):
        if hit.key < len(owners):
            found[owners[hit.key]].add(hit.line)
        else:
            nodes = logscan.nodes_told(hit.line) or nodes
    made = (one.rung(nodes, evidence.trials) for one in found)
    rungs = tuple(rung for rung in made if rung.milestone.when or rung.reached)
    return _over(rungs, evidence) if _failed(evidence) else rungs


def _failed(evidence: Evidence) -> bool:
    """True for a run that has ended and did not succeed."""
    state = evidence.states[-1].state if evidence.states else State.UNKNOWN
    return state.ended and state not in (State.SUCCEEDED, State.ABSENT)


def _over(rungs: tuple[Rung, ...], evidence: Evidence) -> tuple[Rung, ...]:
    """Say of the rungs that an ended run did not reach how it ended there, or that it had ended before."""
    lacking = [rung for rung in rungs if not rung.reached]
    early = any(rung.milestone.phases for rung in lacking)
    told = phases.read(logscan.newest_attempt(evidence)[1]) if early else {}
    last = max((rung.milestone.rung for rung in rungs if rung.reached), default=-1)
    made, over = [], False
    for rung in rungs:
        milestone = rung.milestone
        absence = milestone.absence
        if not rung.reached:
            why = phases.failed_in(milestone.phases, evidence.states[-1], told)
            absence = _ended_on(rung, why) if why else _BEFORE if over else absence
            over = over or milestone.rung > last
        made.append(rung._replace(milestone=milestone._replace(absence=absence)))
    return tuple(made)


def _ended_on(rung: Rung, why: Mapping[int, str]) -> str:
    """Say why ranks ended on the way to a rung, and which others are missing."""
    others = [rank for rank in rung.missing if rank not in why]
    first = next(iter(why.values()))
    told = f"{_ranks(tuple(why))} ended there: {first}"
    return f"{told}; no line from {_ranks(others)}, for the run was over" if others else told


class _Found:
    """Collects the lines of one milestone."""

    def __init__(self, milestone: Milestone) -> None:
        self._milestone = milestone
        self._lines: list[LogLine] = []
        self._by_rank: dict[int, LogLine] = {}
        self._count = 0
        self._folded = 0

    def add(self, line: LogLine) -> None:
        self._folded += logscan.repeats(line)
        self._count += 1
        if self._milestone.every_rank and line.rank is not None:
            self._by_rank[line.rank] = line
            return
        self._lines = [*self._lines[: _KEPT - 1], line]

    def rung(self, nodes: int | None, trials: int | None) -> Rung:
        milestone = self._milestone
        if not milestone.every_rank:
            reached = bool(self._lines) or (milestone.by_trials and bool(trials))
            return Rung(milestone, reached, tuple(self._lines), self._count + self._folded)
        wanted = nodes or 0
        missing = tuple(rank for rank in range(wanted) if rank not in self._by_rank)
        if len(missing) <= self._folded:  # Ray folded that many lines of other ranks into one
            missing = ()
        lines = (*(self._by_rank[rank] for rank in sorted(self._by_rank)), *self._lines)
        if missing and lines:
            absence = f"no line from {_ranks(missing)}: {milestone.absence}"
            milestone = milestone._replace(absence=absence)
        seen = self._count + self._folded
        return Rung(milestone, bool(lines) and not missing, lines, seen, missing)


def judge(rungs: Sequence[Rung], evidence: Evidence, findings: Iterable[Finding]) -> Verdict:
    """Return the verdict on a run, and its reasons.

    How a run ended is told by its state alone. While it runs, findings decide before rungs: the
    first word of a code's slug says which verdict a finding supports, for any plugin's findings:
    `fatal-…`, `wedge-…` and `starvation-…`, when their level is error.
    """
    told = tuple(findings)
    state = evidence.states[-1].state if evidence.states else State.UNKNOWN
    if state is State.SUCCEEDED:
        return Verdict(SUCCEEDED, (_state(evidence), *_gaps(rungs)))
    fatal = tuple(_supporting(told, "fatal"))
    if state.ended and state is not State.ABSENT:
        return Verdict(
            FAILED,
            (_state(evidence), *(fatal or phases.last_words(evidence)), *_next(rungs, ended=True)),
        )
    if fatal:
        return Verdict(FAILED, (_state(evidence), *fatal))
    if state in (State.UNKNOWN, State.ABSENT):
        return Verdict(NO_EVIDENCE, tuple(_ignorance(rungs, evidence)))
    for word in (WEDGE, STARVATION):
        reasons = tuple(_supporting(told, word))
        if reasons:
            return Verdict(word, (_state(evidence), *reasons))
    if not logscan.newest_attempt(evidence)[1] and not evidence.trials:
        return Verdict(NO_EVIDENCE, tuple(_ignorance(rungs, evidence)))
    return _going(rungs, evidence)


def _going(rungs: Sequence[Rung], evidence: Evidence) -> Verdict:
    """Judge a run that goes on and shows nothing wrong."""
    reached = [rung for rung in rungs if rung.reached]
    top = reached[-1] if reached else None
    done = bool(evidence.trials) or (top is not None and top.milestone.by_trials)
    count = f"{evidence.trials} trials completed" if evidence.trials else ""
    if done:
        shown = (_proof(top),) if top is not None and top.lines else ()
        return Verdict(PROGRESSING, (_state(evidence), *filter(None, (count,)), *shown))
    at = (_proof(top),) if top is not None else ("no rung of the ladder is reached yet",)
    return Verdict(EXECUTING, (_state(evidence), _no_trial(evidence), *at, *_next(rungs)))


def _no_trial(evidence: Evidence) -> str:
    """Say that no trial has completed, or that nobody can tell."""
    if evidence.trials is None:
        return "trials not counted, and the log shows no completed one"
    return "0 trials completed yet"


def _supporting(findings: Iterable[Finding], word: str) -> Iterator[str]:
    for finding in findings:
        slug = finding.code.partition(".")[2]
        if finding.level == "error" and slug.split("-", 1)[0] == word:
            yield f"{finding.code}: {finding.message}"


def _state(evidence: Evidence) -> str:
    if not evidence.states:
        return "the state was not asked for"
    status = evidence.states[-1]
    parts = [f"state {status.state.value}"]
    if status.reason:
        parts.append(f"({status.reason})")
    if status.exit_code is not None:
        parts.append(f"exit code {status.exit_code}")
    if status.signal is not None:
        parts.append(f"signal {status.signal}")
    if status.attempt:
        parts.append(f"attempt {status.attempt}")
    detail = brief(status.native.get("detail"))
    return " ".join(parts) + (f": {detail}" if detail else "")


def _ignorance(rungs: Sequence[Rung], evidence: Evidence) -> Iterator[str]:
    """Say what is not known, and what was seen all the same."""
    yield _state(evidence)
    state = evidence.states[-1].state if evidence.states else State.UNKNOWN
    if state is State.ABSENT:
        yield "the scheduler does not know the job: how it ended cannot be told from here"
    yield from (f"could not be obtained: {what}" for what in evidence.missing)
    attempt, lines = logscan.newest_attempt(evidence)
    if not lines:
        which = "" if attempt is None else f" of attempt {attempt}"
        yield f"there is no log line{which}"
    for rung in [rung for rung in rungs if rung.reached and rung.lines][-1:]:
        yield f"last seen: {_proof(rung)}"


def _gaps(rungs: Sequence[Rung]) -> Iterator[str]:
    lost = [str(rung.milestone.rung) for rung in rungs if not rung.reached]
    if lost:
        yield f"the log has no line for rung {', '.join(lost)}"


def _next(rungs: Sequence[Rung], *, ended: bool = False) -> Iterator[str]:
    """Say what the first rung above the highest reached one waits for, or was without at the end."""
    highest = max((place for place, rung in enumerate(rungs) if rung.reached), default=-1)
    partly = [rung for rung in rungs if rung.missing and rung.lines]
    for rung in [*partly, *rungs[highest + 1 : highest + 2]][:1]:
        milestone = rung.milestone
        told = f"not reached: rung {milestone.rung}, {milestone.name}"
        yield told if ended and not rung.missing else f"{told}: {milestone.absence}"


def _proof(rung: Rung) -> str:
    """Quote the newest line of a rung that has lines."""
    milestone = rung.milestone
    line = rung.lines[-1]
    where = "" if line.rank is None else f" (rank {line.rank})"
    return f"rung {milestone.rung}, {milestone.name}{where}: `{line.text.strip()[-300:]}`"


def _ranks(ranks: Sequence[int]) -> str:
    return ("rank " if len(ranks) == 1 else "ranks ") + ", ".join(map(str, ranks))
