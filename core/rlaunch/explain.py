"""The pages: of every code that rlaunch and its plugins can say, and of every setting."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from rlaunch.codes import Code
from rlaunch.errors import PluginError, RlaunchError

if TYPE_CHECKING:
    from rlaunch.world import World

_ELSEWHERE = frozenset({"rlaunch.node", "rlaunch.smoke", "rlaunch.testing", "rlaunch.__main__"})
"""Parts that run in the job or in tests and say no codes."""


class Page(NamedTuple):
    """One setting of a cluster: its value before any flag, where it comes from, and why."""

    name: str
    about: str
    cluster: str
    value: Any
    source: str
    reason: str


def codes(modules: Iterable[object] = ()) -> Mapping[str, Code]:
    """Return every code by name: of all core modules, and of the plugin `modules` that are given."""
    found: dict[str, Code] = {}
    for module in (*(import_module(name) for name in _core()), *modules):
        for code in said_by(module):
            found.setdefault(code.code, code)
    return dict(sorted(found.items()))


def said_by(module: object) -> tuple[Code, ...]:
    """Return the codes of one module: its `CODES`, and those of the rules in its `RULES`."""
    rules = (rule.code for rule in getattr(module, "RULES", ()) if hasattr(rule, "code"))
    return (*getattr(module, "CODES", ()), *rules)


def find(name: str, modules: Iterable[object] = (), *, place: str = "") -> Code:
    """Return one code's page; looks into `modules` and the plugin whose name is the code's owner.

    Raises RlaunchError `core.code-unknown` with a suggestion; `place` is the flag that named it.
    """
    known = codes(modules)
    if name not in known:
        known = {**known, **codes(_plugins(name.partition(".")[0]))}
    if name in known:
        return known[name]
    from difflib import get_close_matches

    from rlaunch.endings import REASONS

    near = get_close_matches(name, known if place else (*known, *settings(), *REASONS), n=1)
    others = "" if place else ", no setting and no reason"
    usual = "`rlaunch explain` lists them"
    if not place and " " in name:
        usual = "a reason of several words is the scheduler's own; `rlaunch diagnose RUN` weighs it"
    raise RlaunchError.of(
        "core.code-unknown",
        f"there is no code{others} `{name}`",
        place=f"{place} {name}".strip() if place else "",
        hint=f"did you mean `{near[0]}`?" if near else usual,
    )


def _core(package: str = "rlaunch") -> Iterator[str]:
    """Yield the names of the core's modules; packages that say no codes are not even imported."""
    for info in pkgutil.iter_modules(import_module(package).__path__, f"{package}."):
        if info.name in _ELSEWHERE:
            continue
        yield info.name
        if info.ispkg:
            yield from _core(info.name)


def _plugins(owner: str) -> list[object]:
    """Return the modules that may say codes of this owner: the plugin of that name, and house rules."""
    from rlaunch import discovery

    modules: list[object] = list(discovery.always()[0])
    if owner in discovery.names():
        try:
            modules.append(discovery.load(owner))
        except PluginError:
            return modules  # `doctor` tells of it; its pages cannot be read
    return modules


def settings() -> Mapping[str, str]:
    """Return every launch setting and what it is about."""
    from rlaunch.settings import SETTINGS

    return {name: spec.about for name, spec in SETTINGS.items()}


def fields(world: World, cluster: str) -> Mapping[str, str]:
    """Return every field of a cluster's profile and what it is about. Raises as `choose` does."""
    from rlaunch.choose import choose
    from rlaunch.schemas import field_notes

    model = choose(world, cluster).cluster.Profile
    notes = field_notes(model)
    return {name: notes.get(name, "") for name in model.model_fields}


def setting(world: World, name: str, cluster: str) -> Page | None:
    """Return a setting's page for a cluster, None where there is no such setting.

    Raises as `choose` does.
    """
    from rlaunch.choose import choose

    chosen = choose(world, cluster)
    profile = chosen.layered.profile
    facts = profile.facts()
    about = settings().get(name, "") or _note_of(chosen.cluster.Profile, name)
    if name not in facts:
        known = name in settings()
        return Page(name, about, profile.name, None, "derived", _UNSET) if known else None
    written = name in profile.model_fields_set
    source = chosen.layered.sources.get(name, f"profile {profile.name}" if written else "default")
    return Page(name, about, profile.name, facts[name], source, profile.reasons.get(name, ""))


def _note_of(model: type[object], field: str) -> str:
    from rlaunch.schemas import field_notes

    return field_notes(model).get(field, "")


_UNSET = "decided by the recipe or the command line"

CODES = (
    Code(
        "core.code-unknown",
        "There is no code, setting or reason of that name.\n\n"
        "Codes are `owner.slug`; those of a plugin are known while it is installed.",
    ),
)
