"""How the trainer starts: its argv, what is staged, the files it needs, the fate of every key. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlaunch.model import Command, File, OwnCheckpoint, Run
from rlaunch.skyrl import derive as derivation
from rlaunch.skyrl import emit as emission
from rlaunch.skyrl import entrypoints
from rlaunch.skyrl import ledger as bookkeeping
from rlaunch.skyrl.overrides import Override, apply, parse
from rlaunch.skyrl.tree import look


def command(run: Run) -> Command | None:
    """Return the command of a SkyRL or toy recipe; None when the entry point is another trainer's.

    Total: what is wrong with a recipe is a finding elsewhere, and the command shows what it would be.
    """
    entrypoint = look(run.recipe.body, "entrypoint")
    toy = entrypoint == entrypoints.TOY
    if not toy and not entrypoints.is_skyrl(entrypoint):
        return None
    overrides = readable(run.overrides)
    derived = derivation.derive(run, overrides)
    body = derivation.decided(run.recipe.body, derived)
    emitted = emission.emit(body, frozenset(run.recipe.quoted))
    files, extra = _files(run, emitted)
    arguments = (
        *extra[:1],
        *(argument.text for argument in emitted.groups),
        *extra[1:],
        *(argument.text for argument in emitted.arguments if argument.text),
        *run.overrides,
    )
    tool = "rlaunch-smoke.pyz" if toy else "rlaunch-node.pyz"
    program = f"{run.paths.artifacts}/{tool}"
    start = (
        (run.python, program) if toy else (run.python, "-m", entrypoints.module(str(entrypoint)))
    )
    names = tuple(dict.fromkeys((*run.train_data, *run.val_data)))
    stage = (run.python, program, "stage", "--data-root", run.paths.data, *names) if names else ()
    return Command(
        argv=(*start, *arguments),
        stage=stage,
        artifacts=(tool,),
        files=files,
        ledger=bookkeeping.ledger(run, emitted, derived, overrides),
        own=_own(apply(body, overrides)),
    )


def _own(body: Mapping[str, Any]) -> OwnCheckpoint | None:
    """Return how attempts go on that follow one that started from another run's checkpoint."""
    place = look(body, "trainer.ckpt_path")
    if look(body, "trainer.resume_mode") != "from_path" or not isinstance(place, str):
        return None
    return OwnCheckpoint(place, ("trainer.resume_mode=latest",))


def readable(texts: tuple[str, ...]) -> tuple[Override, ...]:
    """Return the overrides that can be read; the others are findings elsewhere."""
    found = []
    for text in texts:
        try:
            found.append(parse(text))
        except ValueError:
            continue
    return tuple(found)


def _files(run: Run, emitted: emission.Emitted) -> tuple[tuple[File, ...], tuple[str, ...]]:
    """Return the file of values that no argument can carry, and the two arguments that load it."""
    if not emitted.filed:
        return (), ()
    folder, _, _ = emission.FILE.partition("/")
    text = emission.file_text(emitted.filed)
    file = File(emission.FILE, "run-dir", 0o644, text)
    return (file,), (f"--config-dir={run.paths.run_dir}/{folder}", "+rlaunch=values")
