"""Port one recipe file: read it, translate it, write it anew, and check what came out."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from rlaunch import reading, recipes
from rlaunch.checking import Bench, judge
from rlaunch.choose import choose
from rlaunch.errors import RlaunchError, named
from rlaunch.model import Finding, Recipe
from rlaunch.porting.changes import Change
from rlaunch.porting.rewrite import rewrite
from rlaunch.porting.translate import translate

if TYPE_CHECKING:
    from rlaunch.world import World


class Ported(NamedTuple):
    """A recipe for another cluster."""

    recipe: Recipe
    """As it was."""
    source: str
    target: str
    """Names of the two profiles."""
    text: str | None
    """The new recipe; None where the port was refused."""
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]
    """What kept it from being made, or what `check` says of it on the target; errors first."""

    @property
    def refused(self) -> bool:
        """True where there is no new recipe, or one that the target would refuse."""
        return any(found.level == "error" for found in self.findings)


def port(
    world: World,
    path: str,
    source: str,
    target: str,
    *,
    accept: Iterable[str] = (),
    allow: tuple[str, ...] = (),
    output: str = "",
) -> Ported:
    """Translate a recipe between two clusters, given by name or profile file.

    `output` is only the name that findings about the new recipe carry. Raises RlaunchError for a recipe or
    cluster that cannot be read, and for a recipe that cannot be changed in place.
    """
    with named("--rl_config", "RECIPE"):
        recipe = recipes.read(path)
    with named("--cluster", "--from"):
        theirs = choose(world, source)
    with named("--cluster", "--to"):
        bench = Bench.open(world, target, allow=allow)
    assert bench.chosen is not None  # noqa: S101  # a name was given
    ours = bench.chosen.layered.profile
    made = translate(recipe, ours.facts(), theirs.layered.profile.facts(), accept)
    names = theirs.layered.profile.name, ours.name
    found = (*theirs.findings, *bench.findings, *made.findings)
    if made.refused:
        return Ported(recipe, *names, None, made.changes, _sorted(found))
    text = rewrite(_text(path), recipe, made.body, made.changes)
    judged = judge(bench, recipes.parse(text.encode(), output or path))
    return Ported(recipe, *names, text, made.changes, _sorted((*found, *judged.findings)))


def _text(path: str) -> str:
    return reading.read(path).decode("utf-8-sig")


def _sorted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    from rlaunch.launching import tidy

    return tidy(findings)


def save(text: str, output: str, *, force: bool = False) -> None:
    """Write the new recipe in one step. Raises RlaunchError `port.exists` or `core.output`.

    A file that is there is never written over without `force`.
    """
    from rlaunch.writing import write

    try:
        write(output, text, fresh=not force)
    except FileExistsError:
        raise exists(output) from None


def exists(output: str) -> RlaunchError:
    """Return the refusal of a name that is taken."""
    return RlaunchError.of(
        "port.exists", f"`{output}` is there already, and would be lost", place="--output",
        hint="give another name, or `--force` to write over it",
    )  # fmt: skip
