"""Shipped profiles that were validated beforehand.

Loading pydantic and building a profile's model is a third of a dry run. A profile that a plugin ships
cannot have changed since its tests, so its validated facts may lie beside it as JSON
(`FACTS: {name: path}` in the plugin module, written by `tools/settle.py` and kept current by a test).
They are used as long as only settings are laid on them whose readers judge the value by themselves;
everything else takes the way through pydantic.

A plugin may say `FACTS` when none of its own profile fields is a model inside the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlaunch.settings import SETTINGS

if TYPE_CHECKING:
    from rlaunch.profiles import Profile


class Settled:
    """Stands for a profile: its fields are attributes, `facts()` gives them all."""

    def __init__(self, facts: Mapping[str, Any], written: Iterable[str]) -> None:
        self._facts = dict(facts)
        self.model_fields_set = frozenset(written)
        """Fields that the profile's file has; the others are defaults."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_facts"][name]
        except KeyError:
            raise AttributeError(name) from None

    def facts(self) -> dict[str, Any]:
        """Return the profile as JSON-able data."""
        return dict(self._facts)


class LazyProfile:
    """The class attribute `Profile` of a cluster, imported when somebody validates with it."""

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __get__(self, instance: object, owner: type | None = None) -> type[Profile]:
        found: type[Profile] = getattr(import_module(self._module), self._name)
        return found


def judged(names: Iterable[str]) -> bool:
    """Tell whether every setting has a reader that judges its value without the profile's model."""
    return all(name in SETTINGS for name in names)


def read(path: str) -> Mapping[str, Any]:
    """Read a settled profile: `{"facts": {field: value}, "written": [field…]}`."""
    import json
    from pathlib import Path

    found: Mapping[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return found


def settle(profile: Profile) -> dict[str, Any]:
    """Return the document of a validated profile."""
    return {"facts": profile.facts(), "written": sorted(profile.model_fields_set)}
