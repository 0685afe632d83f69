"""`rlaunch diagnose`: the ladder, with the literal lines as evidence, and a verdict."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rlaunch.cli.flags import Json
from rlaunch.cli.jobs import Job, find

if TYPE_CHECKING:
    from rlaunch.watching import Diagnosis

SHOWN = 3
"""Lines of evidence that are printed for each rung; `--json` has all that were kept."""


def command(job: Job, json: Json = False) -> int:
    """Say how far a run has come, with the lines that prove it."""
    from rlaunch import flow
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.speak import Voice

    voice = Voice(json=json)
    world = world_for(voice, artifacts=False, strict=True)
    target = find(world, job)
    found = flow.diagnose(world, target)
    if json:
        voice.document(_document(found))
    else:
        voice.put("\n".join(_lines(found)) + "\n")
    return 0


def _lines(found: "Diagnosis") -> Iterator[str]:
    from rlaunch.cli import summary
    from rlaunch.cli.speak import status_line
    from rlaunch.render import finding

    word, reasons = summary.verdict(found)
    yield f"verdict: {word}"
    yield from (f"  {reason}" for reason in reasons)
    yield from (f"  no evidence: {what}" for what in found.evidence.missing)
    yield ""
    yield from (status_line(status) for status in found.evidence.states)
    for rung in summary.rungs(found):
        yield f"[{'x' if rung.reached else ' '}] {rung.rung} {rung.name}: {rung.proves}"
        yield from (f"      {line}" for line in rung.evidence[:SHOWN])
        if rung.missing:
            yield f"      missing on rank {', '.join(map(str, rung.missing))}"
        if rung.absence:
            yield f"      not seen: {rung.absence}"
    for one in found.findings:
        yield ""
        yield finding(one)


def _document(found: "Diagnosis") -> dict[str, object]:
    from rlaunch.cli import summary
    from rlaunch.documents import plain, status_document
    from rlaunch.shapes import DiagnosisDocument

    evidence, (word, reasons) = found.evidence, summary.verdict(found)
    states = tuple(status_document(status) for status in evidence.states)
    document = DiagnosisDocument(
        "rlaunch.diagnosis/1",
        job=str(evidence.facts.ref) if evidence.facts.ref is not None else "",
        run=evidence.facts.run_id,
        verdict=word,
        reasons=reasons,
        rungs=summary.rungs(found),
        findings=found.findings,
        states=states,
        lines=len(evidence.lines),
        trials=evidence.trials,
        missing=evidence.missing,
    )
    return dict(plain(document))
