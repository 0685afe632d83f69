"""`rlaunch port`: rewrite a recipe of one cluster for another."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
import json as encoding
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlaunch.cli.flags import Json, clusters

if TYPE_CHECKING:
    from rlaunch.cli.speak import Voice
    from rlaunch.porting.changes import Change
    from rlaunch.porting.porter import Ported

_NONE: list[str] = []


def command(  # over 40 lines: each flag is a parameter
    *,
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="The recipe as it is.")],
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar="NAME|FILE", help="The cluster that it is written for.", autocompletion=clusters
        ),
    ],
    target: Annotated[
        str,
        typer.Option(
            "--to", metavar="NAME|FILE", help="The cluster that it is to run on.", autocompletion=clusters
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the new recipe here. [stdout]"),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over FILE.")] = False,
    accept: Annotated[
        list[str],
        typer.Option("--accept", metavar="KEY", help="Make one change that needs consent; repeatable."),
    ] = _NONE,
    allow: Annotated[
        list[str],
        typer.Option("--allow", metavar="CODE", help="Let one waivable code pass; repeatable."),
    ] = _NONE,
    json: Json = False,
) -> int:  # fmt: skip
    """Rewrite a recipe of one cluster for another.

    Every change has its class and its reason; what may change the experiment needs `--accept`.
    """
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.speak import Voice
    from rlaunch.porting import porter
    from rlaunch.writing import taken

    voice = Voice(json=json)
    if output is not None and not force and taken(output):
        raise porter.exists(output)
    ported = porter.port(
        world_for(voice, artifacts=False), recipe, source, target,
        accept=accept, allow=tuple(allow), output=output or "",
    )  # fmt: skip
    if ported.text is not None and output is not None:
        porter.save(ported.text, output, force=force)
    if json:
        voice.show(ported.findings)
        voice.document(_document(ported, output))
    else:
        _tell(voice, ported, output)
    return 3 if ported.refused else 0


def _tell(voice: "Voice", ported: "Ported", output: str | None) -> None:
    """Print the table and what is wrong; without an output file stdout is the recipe's."""
    say = voice.tell if output is None else voice.say
    for line in _table(ported):
        say(line)
    voice.show(ported.findings)
    if ported.text is None:
        voice.tell(f"`{ported.recipe.path}` was not ported")
    elif output is None:
        voice.put(ported.text)
    else:
        trouble = f"; `{ported.target}` would refuse it, see above" if ported.refused else ""
        voice.say(f"{output}: written{trouble}")


def _table(ported: "Ported") -> Iterator[str]:
    for change in ported.changes:
        yield f"{change.kind:12} {_change(change)}"
        yield f"{'':12} {change.reason}"
    counts = Counter(c.kind for c in ported.changes if c.action != "keep")
    kept = sum(1 for c in ported.changes if c.action == "keep")
    made = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items())) or "none"
    tail = f"; {kept} proposed and kept as they were" if kept else ""
    yield f"{ported.source} → {ported.target}: changes: {made}{tail}"


def _change(change: "Change") -> str:
    before, after = _value(change.before), _value(change.after)
    match change.action:
        case "add":
            return f"{change.key}: {after}, new"
        case "remove":
            return f"{change.key}: {before}, taken out"
        case "move":
            return f"{change.key} → {change.to}: {before} → {after}"
        case "keep":
            return f"{change.key}: {before} stays; `--accept {change.key}` makes it {after}"
        case _:
            return f"{change.key}: {before} → {after}"


def _value(value: Any) -> str:
    return encoding.dumps(value, ensure_ascii=False, default=str)


def _document(ported: "Ported", output: str | None) -> dict[str, Any]:
    from rlaunch.documents import plain
    from rlaunch.recipe_shapes import PortDocument, PortedKey

    document = PortDocument(
        "rlaunch.port/1",
        recipe=ported.recipe.path,
        source=ported.source,
        target=ported.target,
        ok=not ported.refused,
        output=output if ported.text is not None else None,
        text=ported.text,
        changes=tuple(PortedKey(**change._asdict()) for change in ported.changes),
        findings=ported.findings,
    )
    return dict(plain(document))
