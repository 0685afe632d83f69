"""What a port changes, collected with class and reason. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from rlaunch.model import Finding, Level, Recipe
from rlaunch.skyrl.classes import Class, classify
from rlaunch.skyrl.tree import MISSING, look, placed, removed

Action = Literal["set", "add", "remove", "move", "keep"]


class Change(NamedTuple):
    """One key that becomes another value, or the proposal of one that was not accepted (`keep`)."""

    key: str
    action: Action
    before: Any
    """None where the key was absent."""
    after: Any
    kind: Class
    reason: str
    to: str = ""
    """The new key of a move."""


class Translation(NamedTuple):
    """A recipe's body for another cluster. Where an error is among the findings, it is not to be used."""

    body: Mapping[str, Any]
    changes: tuple[Change, ...]
    findings: tuple[Finding, ...]

    @property
    def refused(self) -> bool:
        """True where an error is among the findings."""
        return any(found.level == "error" for found in self.findings)


class Draft:
    """A translation while it is being made.

    `source` is None at a launch, where nobody says what cluster a recipe was written for: then only what
    the target makes necessary is changed.
    """

    def __init__(
        self,
        recipe: Recipe,
        target: Mapping[str, Any],
        source: Mapping[str, Any] | None,
        accept: frozenset[str],
    ) -> None:
        self.recipe, self.body = recipe, recipe.body
        self.target, self.source, self.accept = target, source, accept
        self.changes: list[Change] = []
        self.findings: list[Finding] = []
        self.offered: set[str] = set()

    @property
    def here(self) -> str:
        """The target's name, for messages."""
        return str(self.target["name"])

    @property
    def there(self) -> str:
        """The source's name, for messages."""
        return str(self.source["name"]) if self.source else "another cluster"

    @property
    def elsewhere(self) -> bool:
        """True where the recipe is known to have been written for another cluster."""
        return self.source is not None and self.source.get("name") != self.target.get("name")

    def value(self, key: str) -> Any:
        """Return a key's value as it is now, None where it is absent."""
        return look(self.body, key)

    def say(self, level: Level, code: str, message: str, key: str, hint: str = "") -> None:
        """Add a finding about a key of the recipe as it was written."""
        self.findings.append(Finding(level, code, message, self.recipe.at(key), hint))

    def accepted(self, key: str) -> bool:
        """Tell whether a change that needs consent has it; from now on the key may be accepted."""
        self.offered.add(key)
        return key in self.accept

    def set(self, key: str, value: Any, reason: str) -> None:
        """Give a key a value; nothing happens where it has it already."""
        before = look(self.body, key, MISSING)
        if before is MISSING:
            self._make(Change(key, "add", None, value, classify(key), reason))
        elif before != value or type(before) is not type(value):
            self._make(Change(key, "set", before, value, classify(key), reason))

    def remove(self, key: str, reason: str, kind: Class | None = None) -> None:
        """Take a key out; `kind` where it is another than the key's own."""
        self._make(Change(key, "remove", self.value(key), None, kind or classify(key), reason))

    def move(self, key: str, to: str, value: Any, reason: str) -> None:
        """Give a key another place, and its value another form."""
        self._make(Change(key, "move", self.value(key), value, classify(key), reason, to))

    def propose(self, key: str, value: Any, reason: str) -> None:
        """Make a change that is not necessary where it was accepted, else keep what is written."""
        if self.accepted(key):
            self.set(key, value, reason)
        else:
            change = Change(key, "keep", self.value(key), value, classify(key), reason)
            self.changes.append(change)

    def _make(self, change: Change) -> None:
        safe = change.kind in {"mechanical", "tuning"} or change.action == "move"
        if not safe and not self.accepted(change.key):
            becomes = (
                "would be taken out" if change.action == "remove" else f"would be `{change.after}`"
            )
            self.say(
                "error", "port.needs-accept", f"`{change.key}` {becomes}, which may change the experiment",
                change.key, f"`--accept {change.key}`: {change.reason}",
            )  # fmt: skip
            return
        self.changes.append(change)
        if change.action in {"remove", "move"}:
            self.body = removed(self.body, change.key)
        if change.action != "remove":
            self.body = placed(self.body, change.to or change.key, change.after)
