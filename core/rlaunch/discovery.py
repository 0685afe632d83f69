"""Which module is `iris`? Names by our own reading of entry points, modules by stevedore.

Two entry-point groups: a module of `rlaunch.clusters` is imported when its name was chosen, those of
`rlaunch.plugins` (notifiers, house rules, another trainer) always. Listing names imports nothing.

stevedore alone would scan all distributions through `importlib.metadata` (35 ms where 300 are
installed), may answer from a cache file whose keys are 128 s coarse, and imports both of two
distributions that claim one name. So the group is read here, and stevedore is given what was read.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, NamedTuple

from rlaunch.codes import Code
from rlaunch.errors import PluginError
from rlaunch.model import Finding

if TYPE_CHECKING:
    from types import ModuleType

CLUSTERS = "rlaunch.clusters"
PLUGINS = "rlaunch.plugins"


class Claim(NamedTuple):
    """One entry point: who says that a name is which module."""

    distribution: str
    module: str


class Failure(NamedTuple):
    """A plugin that did not import: data for `rlaunch doctor`, and everything else works."""

    name: str
    distribution: str
    module: str
    error: str
    """`Type: message` of what it raised."""


def claims(
    group: str = CLUSTERS, path: Sequence[str] | None = None
) -> dict[str, tuple[Claim, ...]]:
    """Return all claims of a group by name, sorted by name; nothing is imported.

    `path` is `sys.path` by default. As in `importlib.metadata`, the first distribution of a name on
    the path hides later ones.
    """
    found: dict[str, list[Claim]] = {}
    seen: set[str] = set()
    for folder in sys.path if path is None else path:
        for distribution, text_file in _metadata(folder or "."):
            key = re.sub(r"[-_.]+", "-", distribution).lower()
            if key in seen:
                continue
            seen.add(key)
            for name, module in _entries(text_file, group):
                found.setdefault(name, []).append(Claim(distribution, module))
    return {name: tuple(found[name]) for name in sorted(found)}


def names() -> dict[str, Claim]:
    """Return cluster name -> its claim (the first where there are two; `load` refuses that name)."""
    return {name: several[0] for name, several in claims().items()}


def load(name: str) -> ModuleType:
    """Return the module of a cluster name.

    Raises `PluginError` with `core.cluster-unknown` (did you mean), `core.plugin-clash` (two
    distributions claim the name; both are named) or `core.plugin-broken` (its import raised).
    """
    known = claims()
    if name not in known:
        raise _unknown(name, known)
    several = known[name]
    if len(several) > 1:
        who = " and ".join(f"`{claim.distribution}`" for claim in several)
        raise PluginError.of(
            "core.plugin-clash",
            f"the cluster name `{name}` is claimed by {who}",
            hint=f"uninstall one of them: `pip uninstall {several[-1].distribution}`",
        )
    return _drive(name, several[0], known)


def always() -> tuple[tuple[ModuleType, ...], tuple[Finding, ...]]:
    """Return the modules of the group `rlaunch.plugins`, and a warning for each that did not import."""
    known = claims(PLUGINS)
    if not known:
        return (), ()
    modules, failures = _load_all(PLUGINS, known)
    return modules, tuple(_warning(failure) for failure in failures)


def broken() -> tuple[Failure, ...]:
    """Import every plugin of both groups and return those that fail (`rlaunch doctor`)."""
    failures: list[Failure] = []
    for group in (CLUSTERS, PLUGINS):
        failures.extend(_load_all(group, claims(group))[1])
    return tuple(failures)


def _warning(failure: Failure) -> Finding:
    return Finding(
        "warning",
        "core.plugin-broken",
        f"the plugin `{failure.name}` of `{failure.distribution}` does not import: {failure.error}",
        hint="see `rlaunch doctor`; everything else works",
    )


def _unknown(name: str, known: Mapping[str, Any]) -> PluginError:
    from difflib import get_close_matches

    near = get_close_matches(name, known, n=1)
    installed = f"installed: {', '.join(known)}" if known else "no cluster plugin is installed"
    hint = f"did you mean `{near[0]}`? {installed}" if near else installed
    return PluginError.of(
        "core.cluster-unknown", f"no cluster `{name}` is installed", place="--cluster", hint=hint
    )


def _drive(name: str, claim: Claim, known: Mapping[str, tuple[Claim, ...]]) -> ModuleType:
    """Import one plugin through stevedore's driver manager."""
    from stevedore.driver import DriverManager

    _fill(CLUSTERS, known)
    try:
        with redirect_stdout(sys.stderr):
            module: ModuleType = DriverManager(CLUSTERS, name).driver
    except _NotImportedError as error:
        cause = error.__cause__ or error
        raise PluginError.of(
            "core.plugin-broken",
            f"the plugin `{name}` of `{claim.distribution}` does not import: {_said(cause)}",
            hint="see `rlaunch doctor`; the other clusters work",
        ) from cause
    return module


def _load_all(
    group: str, known: Mapping[str, tuple[Claim, ...]]
) -> tuple[tuple[ModuleType, ...], tuple[Failure, ...]]:
    """Import a whole group; what fails becomes data."""
    from stevedore.extension import ExtensionManager

    failures: list[Failure] = []

    def note(_manager: object, point: Any, error: BaseException) -> None:
        claim = next(c for c in known[point.name] if c.module == point.value)
        cause = error.__cause__ or error
        failures.append(Failure(point.name, claim.distribution, claim.module, _said(cause)))

    _fill(group, known)
    with redirect_stdout(sys.stderr):
        manager: Any = ExtensionManager(group, on_load_failure_callback=note)
    modules: dict[str, ModuleType] = {e.plugin.__name__: e.plugin for e in manager}
    return tuple(modules.values()), tuple(failures)


class _NotImportedError(Exception):
    """A plugin's import raised its cause."""


def _fill(group: str, known: Mapping[str, tuple[Claim, ...]]) -> None:
    """Give stevedore what we read, so that it neither scans nor trusts its cache file."""
    from importlib.metadata import EntryPoint

    from stevedore.extension import ExtensionManager

    class Point(EntryPoint):
        """An entry point whose import cannot end the process: `sys.exit` in a plugin is its fault too."""

        def load(self) -> Any:
            """Import the module. Raises `_NotImportedError` from whatever the import raised."""
            try:
                return super().load()
            except (KeyboardInterrupt, GeneratorExit):
                raise
            except BaseException as error:
                raise _NotImportedError from error

    points = [
        Point(name=name, value=claim.module, group=group)
        for name, several in known.items()
        for claim in several
    ]
    ExtensionManager.ENTRY_POINT_CACHE[group] = points


def _said(error: BaseException) -> str:
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def _metadata(folder: str) -> Iterator[tuple[str, str]]:
    """Yield (distribution, path of its entry_points.txt) of one folder of the path."""
    try:
        entries = sorted(entry.name for entry in os.scandir(folder))
    except OSError:
        return  # not a folder (a zip, or gone): such a path entry holds no plugin of ours
    for entry in entries:
        stem, _, kind = entry.rpartition(".")
        if kind in {"dist-info", "egg-info"}:
            name = stem.partition("-")[0].replace("_", "-")  # wheels write `_` for `-`
            yield name, f"{folder}/{entry}/entry_points.txt"


def _entries(text_file: str, group: str) -> Iterator[tuple[str, str]]:
    """Yield (name, module) of one group; a file that is not there or unreadable has none."""
    try:
        with open(text_file, encoding="utf-8", errors="replace") as file:  # noqa: PTH123  # pathlib costs a start
            text = file.read()
    except OSError:
        return
    if group not in text:
        return
    inside = False
    for raw in text.splitlines():
        line = raw.strip()
        if line.startswith("["):
            inside = line.strip("[] \t") == group
        elif inside and "=" in line and not line.startswith(("#", ";")):
            name, _, value = line.partition("=")
            yield name.strip(), value.partition("[")[0].strip()


CODES = (
    Code(
        "core.cluster-unknown",
        "The cluster name is not installed.\n\n"
        "`--cluster` takes the name of an entry point of the group `rlaunch.clusters`, or the path of a\n"
        "profile file. `rlaunch clusters` lists the names; installing a plugin adds its names.",
    ),
    Code(
        "core.plugin-broken",
        "A plugin is installed but its import raised an exception.\n\n"
        "The exception is the plugin's own, or one of a library that it needs; `SystemExit` is one that\n"
        "called `sys.exit`. Other clusters work;\n"
        "`rlaunch doctor` lists every plugin that does not import, with its distribution.",
    ),
    Code(
        "core.plugin-clash",
        "Two installed distributions claim the same name.\n\n"
        "Which one would answer depends on the order of the search path, so neither is used. Uninstall\n"
        "one of the two.",
    ),
)
