"""All rules of SkyRL, and the one function that asks them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rlaunch.model import Finding, Plan, Run
from rlaunch.skyrl import (
    base_keys,
    entrypoints,
    override_rules,
    parallel_rules,
    place_rules,
    training_rules,
)
from rlaunch.skyrl.case import Rule, case_of, judge
from rlaunch.skyrl.tree import look

ALL: tuple[Rule, ...] = (
    *parallel_rules.RULES,
    *training_rules.RULES,
    *place_rules.RULES,
    *override_rules.RULES,
    *base_keys.RULES,
)
TOY: tuple[Rule, ...] = (
    training_rules.database_stays_unregistered,
    training_rules.attempts_resume,
    training_rules.resume_stays_in_the_run,
    *place_rules.RULES,
    *override_rules.RULES,
    *base_keys.RULES,
)
"""Rules that mean something for the toy trainer: it has no model, no engines and no logger."""


def check(run: Run, plan: Plan) -> Iterable[Finding]:
    """Return what is wrong with a planned run; nothing for a recipe of another trainer."""
    entrypoint = look(run.recipe.body, "entrypoint")
    if entrypoint == entrypoints.TOY:
        return tuple(judge(case_of(run, plan), TOY))
    if not entrypoints.is_skyrl(entrypoint):
        return ()
    return tuple(judge(case_of(run, plan), ALL))
