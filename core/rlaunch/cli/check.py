"""`rlaunch check`: judge recipes offline, many at once."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import TYPE_CHECKING, Annotated

import typer

from rlaunch.cli.flags import Json, clusters

if TYPE_CHECKING:
    from rlaunch.checking import Bench, Checked
    from rlaunch.cli.speak import Voice

_NONE: list[str] = []


def command(  # over 40 lines: each flag is a parameter
    *,
    recipes: Annotated[list[str], typer.Argument(metavar="RECIPE…", help="YAML files, wherever they lie.")],
    cluster: Annotated[
        str,
        typer.Option(
            "--cluster", metavar="NAME|FILE", autocompletion=clusters,
            help="Judge them for this cluster. [by what holds on every one]",
        ),
    ] = "",
    model_path: Annotated[
        str | None,
        typer.Option("--model-path", metavar="MODEL", help="The model that they will be launched with."),
    ] = None,
    allow: Annotated[
        list[str],
        typer.Option("--allow", metavar="CODE", help="Let one waivable code pass; repeatable."),
    ] = _NONE,
    json: Json = False,
    sarif: Annotated[
        bool, typer.Option("--sarif", help="Print one SARIF 2.1.0 log on stdout and nothing else.")
    ] = False,
) -> int:  # fmt: skip
    """Judge recipes offline, many at once.

    Nothing is sent and no cluster is looked at. The exit code is 3 where one has an error.
    """
    from rlaunch.checking import Bench, check
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.speak import Voice

    voice = Voice(json=json or sarif)
    world = world_for(voice, artifacts=False)
    bench = Bench.open(world, cluster, model=model_path, allow=tuple(allow))
    voice.show(bench.findings)
    checked = []
    for recipe in check(bench, recipes):
        checked.append(recipe)
        if not (json or sarif):
            voice.say(_line(recipe))
            voice.show(recipe.findings)
    if sarif:
        _sarif(voice, bench, checked)
    elif json:
        from rlaunch.documents import plain

        voice.document(plain(_document(bench, checked)))
    elif len(checked) > 1:
        voice.say(_total(checked))
    return 3 if any(recipe.refused for recipe in checked) else 0


def _line(recipe: "Checked") -> str:
    word = "refused" if recipe.refused else "ok"
    size = f", {recipe.nodes} × {recipe.gpus_per_node} GPUs" if recipe.nodes else ""
    counts = [_counted(recipe.count(level), level) for level in ("error", "warning", "note")]
    told = ", ".join(text for text in counts if text)
    return f"{recipe.path}: {word}{size}{f' ({told})' if told else ''}"


def _counted(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number > 1 else ''}" if number else ""


def _total(checked: "list[Checked]") -> str:
    refused = sum(1 for recipe in checked if recipe.refused)
    return f"{len(checked)} recipes: {len(checked) - refused} ok, {refused} refused"


def _document(bench: "Bench", checked: "list[Checked]") -> object:
    from rlaunch.recipe_shapes import CheckDocument, CheckedRecipe

    return CheckDocument(
        "rlaunch.check/1",
        cluster=bench.chosen.name if bench.chosen else None,
        ok=not any(recipe.refused for recipe in checked),
        errors=sum(recipe.count("error") for recipe in checked),
        warnings=sum(recipe.count("warning") for recipe in checked),
        notes=sum(recipe.count("note") for recipe in checked),
        recipes=tuple(
            CheckedRecipe(r.path, not r.refused, r.nodes, r.gpus_per_node, r.findings)
            for r in checked
        ),
        findings=bench.findings,
    )


def _sarif(voice: "Voice", bench: "Bench", checked: "list[Checked]") -> None:
    from rlaunch import explain
    from rlaunch import sarif as writing

    codes = explain.codes(bench.plugins.modules)
    voice.document(writing.log(checked, codes, bench.world.context.version))
