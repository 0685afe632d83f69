"""What a rule of SkyRL looks at, and what it says. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from rlaunch.codes import Code
from rlaunch.model import Finding, Plan, Run
from rlaunch.skyrl import derive as derivation
from rlaunch.skyrl import entrypoints, models
from rlaunch.skyrl.emit import SECTIONS, leaves
from rlaunch.skyrl.overrides import Override, apply
from rlaunch.skyrl.tree import MISSING, count, look, truth


class Fault(NamedTuple):
    """One thing that a rule found; the rule has the code and the level."""

    key: str
    """The recipe's key, or `--skyrl_override TEXT` as it stands."""
    message: str
    hint: str = ""


class Case(NamedTuple):
    """A run as the trainer will see it."""

    run: Run
    env: Mapping[str, str]
    """The job's environment."""
    body: Mapping[str, Any]
    """The recipe with derived values and overrides: what the trainer gets, null leaves still null."""
    overrides: tuple[Override, ...]
    derived: tuple[derivation.Derived, ...]
    facts: models.Facts
    leaves: tuple[tuple[str, Any], ...] = ()
    """`(key, value)` of every leaf of the trainer's sections, as the recipe wrote them."""

    @property
    def toy(self) -> bool:
        """True for the toy trainer, which loads no model."""
        return bool(self.value("entrypoint") == entrypoints.TOY)

    @property
    def colocated(self) -> bool:
        """True where policy and engines share GPUs (SkyRL's default)."""
        return self.truth("trainer.placement.colocate_all", True)

    def value(self, key: str) -> Any:
        """Return the value of a key, None where it is null or absent."""
        return look(self.body, key)

    def count(self, key: str, default: int = 1) -> int:
        """Return a whole number of at least 1."""
        return count(self.body, key, default)

    def truth(self, key: str, default: bool = False) -> bool:
        """Return a boolean."""
        return truth(self.body, key, default)

    def place(self, key: str) -> str:
        """Return where a finding about a key points: an override that sets it, else the recipe."""
        if key.startswith("--"):
            return key
        for override in reversed(self.overrides):
            if override.value_at(key) is not MISSING:
                return f"--skyrl_override {override.text}"
        return self.run.recipe.at(key)


Rule = Callable[[Case], Iterable[Fault]]


def case_of(run: Run, plan: Plan) -> Case:
    """Put together what the rules look at."""
    from rlaunch.skyrl.command import readable

    overrides = readable(run.overrides)
    derived = derivation.derive(run, overrides)
    body = apply(derivation.decided(run.recipe.body, derived), overrides)
    written = tuple(
        leaf
        for section in SECTIONS
        if section.recipe in run.recipe.body
        for leaf in leaves(run.recipe.body[section.recipe], section.recipe)
    )
    env = {**run.env, **plan.env}
    return Case(run, env, body, overrides, derived, models.facts(run), written)


def judge(case: Case, rules: Iterable[Rule]) -> Iterator[Finding]:
    """Yield the findings of rules, with the code and level that each rule carries."""
    for rule in rules:
        code: Code = rule.code  # type: ignore[attr-defined]  # set by @rule
        for fault in rule(case):
            yield Finding(code.level, code.code, fault.message, case.place(fault.key), fault.hint)
