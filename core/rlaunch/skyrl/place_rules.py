"""Rules of paths: retired roots, other runs' directories, personal and foreign paths. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from rlaunch.codes import rule
from rlaunch.porting.here import no_container
from rlaunch.skyrl.case import Case, Fault
from rlaunch.skyrl.derive import ADAPTED, retired
from rlaunch.skyrl.tree import look

_OUTPUTS = ("terminal_bench.trials_dir", "trainer.ckpt_path", "trainer.export_path")
_PERSONAL = re.compile(r"(?:~|/home/|/Users/|/root(?:/|\Z))")
_EVERYWHERE = ("/tmp", "/opt", "/app", "/dev/shm", "/usr", "/etc")  # noqa: S108  # named, not used


def _written(case: Case) -> Iterator[tuple[str, Any]]:
    """Yield the texts of the recipe and of overrides that reach the trainer, as they were written."""
    for key, value in case.leaves:
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, str):
                yield key, item
    for override in case.overrides:
        for item in _texts(override.value):
            yield f"--skyrl_override {override.text}", item


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


@rule("skyrl.retired-root")
def retired_roots_are_not_typed(case: Case) -> Iterator[Fault]:
    """An override names a storage root that the cluster no longer serves.

    Writes there stall without an error. In a recipe such a path is moved to the profile's root; what was
    typed by hand is not changed behind your back.
    """
    for key, text in _written(case):
        if key.startswith("--") and (found := retired(text, case.run.profile)):
            yield Fault(key, f"`{found[0]}` is a retired storage root", f"write `{found[1]}`")


@rule("skyrl.root-moved", level="note")
def retired_roots_are_moved(case: Case) -> Iterator[Fault]:
    """A path of the recipe lies under a retired storage root, and was moved to the profile's root."""
    for item in case.derived:
        if item.why.startswith("moved: "):
            yield Fault(
                item.key, f"{item.why.removeprefix('moved: ')}; the path is now `{item.value}`"
            )


@rule("skyrl.adapted", level="note")
def recipes_of_other_clusters_are_adapted(case: Case) -> Iterator[Fault]:
    """A value of the recipe cannot be had on this cluster, and was changed to one that can.

    A recipe that was written for another cluster is no error: what follows from the profile is done at
    launch. `rlaunch port` writes such changes into a recipe of their own.
    """
    for item in case.derived:
        if item.why.startswith(ADAPTED) and case.value(item.key) == item.value:
            written = look(case.run.recipe.body, item.key)
            why = item.why.removeprefix(ADAPTED)
            message = f"`{item.key}` is `{item.value}` instead of `{written}`: {why}"
            hint = f"`--skyrl_override {item.key}=VALUE` sets another one"
            yield Fault(item.key, message, "" if item.key.startswith("terminal_bench") else hint)


@rule("skyrl.no-container", level="note")
def containers_are_used_where_there_are_any(case: Case) -> Iterator[Fault]:
    """The recipe has a `container` block, and the cluster starts no images of recipes.

    Image and mounts are left out; the block's variables are sent like those of the top level.
    """
    if case.value("container") and (why := no_container(case.run.profile)):
        yield Fault("container", f"image and mounts of the recipe are left out: {why}")


@rule("skyrl.foreign-run", level="warning")
def outputs_belong_to_this_run(case: Case) -> Iterator[Fault]:
    """An output path in the recipe that does not name this run: two runs would write to one place.

    Recipes are copied with their paths; one real recipe wrote its trials into another run's directory. A null
    path is the run's own.
    """
    for key in _OUTPUTS:
        value = case.value(key)
        if not isinstance(value, str) or not value:
            continue
        parts = re.split(r"[/:]+", value)
        if case.run.id not in parts and case.run.name not in parts:
            message = f"`{value}` does not name this run, so every run of this recipe writes there"
            yield Fault(key, message, f"`{key.rpartition('.')[2]}: null` gives each run its own")


@rule("skyrl.personal-path", level="warning")
def paths_are_not_personal(case: Case) -> Iterator[Fault]:
    """A path in somebody's home directory: it exists for one person on one machine."""
    for key, text in _written(case):
        if _PERSONAL.match(text):
            hint = "put the file into the workspace and write its relative path"
            yield Fault(key, f"`{text}` lies in somebody's home directory", hint)


@rule("skyrl.absolute-path", level="warning")
def paths_exist_here(case: Case) -> Iterator[Fault]:
    """An absolute path that is none of this run's: it exists on the cluster that it was written for.

    Paths below the run's own directories and the profile's binds are fine.
    """
    paths = case.run.paths
    own: tuple[str, ...] = (paths.run_dir, paths.storage, paths.data, paths.artifacts, *_EVERYWHERE)
    own += tuple(str(bind).partition(":")[0] for bind in case.run.profile.get("binds") or ())
    for key, text in _written(case):
        absolute = text.startswith("/") and "\n" not in text
        if (
            absolute
            and not _PERSONAL.match(text)
            and not any(text == o or text.startswith(f"{o}/") for o in own)
        ):
            hint = "put the file into the workspace and write its relative path"
            yield Fault(
                key, f"`{text}` is an absolute path, and nothing says that it exists here", hint
            )


@rule("skyrl.interpolation")
def interpolations_are_closed(case: Case) -> Iterator[Fault]:
    """`${` in a value without its `}`.

    OmegaConf reads `${…}` in every value as an interpolation, in quotes as well, and refuses one that is
    never closed. Closed ones are kept: they are resolved by the trainer.
    """
    for key, text in _written(case):
        if text.count("${") > text.count("}"):
            yield Fault(
                key, "`${` opens an interpolation that is never closed", "close it with `}`"
            )


RULES = (
    retired_roots_are_not_typed, retired_roots_are_moved, recipes_of_other_clusters_are_adapted,
    containers_are_used_where_there_are_any, outputs_belong_to_this_run, paths_are_not_personal,
    paths_exist_here, interpolations_are_closed,
)  # fmt: skip
