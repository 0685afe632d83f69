"""What a run has come to, in a few lines: rewards, rungs, verdict, and where things lie."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlaunch.shapes import RungDocument, Summary

if TYPE_CHECKING:
    from rlaunch.ladder import Rung
    from rlaunch.model import Plan
    from rlaunch.watching import Diagnosis

_REWARD = re.compile(r"\bavg_final_rewards: ([-+0-9.eE]+)")
"""The trainers' own line, once a step."""


def rewards(found: Diagnosis) -> list[float]:
    """Return the mean reward of each step of the last attempt, in order."""
    lines = found.evidence.lines
    last = max((line.attempt or 0 for line in lines), default=0)
    matches = (_REWARD.search(line.text) for line in lines if (line.attempt or 0) == last)
    return [float(match[1]) for match in matches if match]


def of(found: Diagnosis, plan: Plan) -> Summary:
    """Return the summary of a planned run."""
    seen = rewards(found)
    reached, in_all = climbed(found)
    paths = plan.run.paths
    return Summary(
        first_reward=seen[0] if seen else None,
        last_reward=seen[-1] if seen else None,
        steps=len(seen),
        rungs=reached,
        rungs_in_all=in_all,
        verdict=verdict(found)[0],
        run_dir=paths.run_dir,
        storage=paths.storage,
    )


def lines(made: Summary, found: Diagnosis) -> Iterator[str]:
    """Yield the summary for people."""
    yield ""
    if made.first_reward is not None and made.last_reward is not None:
        first, last = f"{made.first_reward:.3f}", f"{made.last_reward:.3f}"
        yield f"reward     {first} at the first step, {last} at the last of {made.steps}"
    yield f"ladder     {made.rungs} of {made.rungs_in_all} rungs: {made.verdict}"
    for reason in verdict(found)[1]:
        yield f"           {reason}"
    yield f"run        {made.run_dir}"
    yield f"checkpoints and trials under {made.storage}"


def verdict(found: Diagnosis) -> tuple[str, tuple[str, ...]]:
    """Return the verdict and its reasons."""
    return found.verdict.word, found.verdict.reasons


def rungs(found: Diagnosis) -> tuple[RungDocument, ...]:
    """Return the ladder in its document's shape."""
    return tuple(_rung(rung) for rung in found.rungs)


def _rung(rung: Rung) -> RungDocument:
    of = rung.milestone
    return RungDocument(
        of.rung,
        of.name,
        of.proves,
        rung.reached,
        evidence=tuple(line.text for line in rung.lines),
        seen=rung.seen,
        missing=rung.missing,
        absence="" if rung.reached else of.absence,
    )


def climbed(found: Diagnosis) -> tuple[int, int]:
    """Return how many rungs were reached, and how many apply to this run."""
    return sum(1 for rung in found.rungs if rung.reached), len(found.rungs)
