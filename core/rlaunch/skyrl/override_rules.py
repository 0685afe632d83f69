"""Rules of `--skyrl_override`, and of what the recipe's nulls and variables become. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from rlaunch.codes import rule
from rlaunch.skyrl.case import Case, Fault
from rlaunch.skyrl.derive import Derived
from rlaunch.skyrl.emit import SECTIONS, leaves, prefix
from rlaunch.skyrl.names import ENV_NAMES, FAMILIES
from rlaunch.skyrl.overrides import Override
from rlaunch.skyrl.tree import MISSING, look

_SECTION = {section.recipe: section for section in SECTIONS}


@rule("skyrl.override-derived", level="warning")
def override_replaces_a_decision(case: Case) -> Iterator[Fault]:
    """An override changes a value that rlaunch decides itself; the override wins.

    Paths, data, the model's name and the placement are derived so that they agree with one another.
    """
    for override in case.overrides:
        lost = [item for item in case.derived if _replaces(override, item)]
        if len(lost) == 1:
            said = (
                f"`{lost[0].key}` would be `{lost[0].value}` ({lost[0].why}), and the override wins"
            )
        elif lost:
            keys = ", ".join(f"`{item.key}`" for item in lost)
            said = f"it replaces what rlaunch decides: {keys}; the override wins"
        if lost:
            yield Fault(
                f"--skyrl_override {override.text}", said, "leave it out, unless it is meant"
            )


def _replaces(override: Override, item: Derived) -> bool:
    value = override.value_at(item.key)
    below = override.recipe_key.startswith(f"{item.key}.")
    return below or (value is not MISSING and value != item.value)


@rule("skyrl.override-hydra")
def override_starts_one_run(case: Case) -> Iterator[Fault]:
    """An override, or a configuration group of the recipe, may make several runs of one.

    `hydra.mode=MULTIRUN`, a sweep, a sweeper or a launcher do, on nodes that were counted for one run.
    Hydra's other settings (`hydra.run.dir`, `hydra/job_logging` …) are yours.
    """
    chosen = look(case.run.recipe.body, "config_groups")
    given = [(o.key, o.value, f"--skyrl_override {o.text}") for o in case.overrides]
    given += [
        (name, value, f"config_groups.{name}")
        for name, value in (chosen.items() if isinstance(chosen, dict) else ())
    ]
    for key, value, place in given:
        if any(_multiplies(name, value) for name in key.replace("/", ".").split("@")):
            message = f"`{key}` may make several runs of one, and the nodes are counted for one"
            yield Fault(place, message, "take it out; start one launch for each run")


def _multiplies(name: str, value: Any) -> bool:
    """Tell whether a key, a group or a package is the part of Hydra that starts several runs."""
    if name == "hydra" and isinstance(value, dict):
        return not _SEVERAL.isdisjoint(value)
    head, _, rest = name.partition(".")
    return head == "hydra" and (not rest or rest.split(".")[0] in _SEVERAL)


_SEVERAL = frozenset({"mode", "sweep", "sweeper", "launcher"})


@rule("skyrl.override-group", waivable=True)
def override_chooses_no_group(case: Case) -> Iterator[Fault]:
    """An override chooses a nested configuration group (`a/b=NAME`) or a package (`a@b=NAME`).

    Those of SkyRL's base configuration, such as `megatron_config@trainer.ref.megatron_config`, are known.
    Hydra refuses to compose one that is not there, minutes after the GPUs were given. A trainer of yours
    that has it: `--allow skyrl.override-group`.
    """
    groups = look(case.run.recipe.body, "config_groups") or ()
    for override in case.overrides:
        key = override.key
        named = key in groups or (key in _PACKAGED and not case.toy)
        if re.split(r"[./@]", key)[0] == "hydra" or named or not re.search("[/@]", key):
            continue
        mark = "/" if "/" in key else "@"
        message = (
            f"`{key}` has `{mark}`, so it chooses a configuration group, and the trainer is not known to "
            "have it"
        )
        hint = "`--allow skyrl.override-group` where your trainer has it"
        if "@" not in key:
            hint = f"`{override.prefix}{key.replace('/', '.')}=VALUE` sets a value"
        yield Fault(f"--skyrl_override {override.text}", message, hint)


_PACKAGED = frozenset({
    "deepspeed_config@deepspeed_config.train", "deepspeed_config@deepspeed_config.eval",
    "megatron_config@trainer.policy.megatron_config", "megatron_config@trainer.ref.megatron_config",
})  # fmt: skip
"""Groups with a package in the defaults of `ppo_base_config.yaml` (SkyRL 0.3.1)."""


@rule("skyrl.override-deletes", level="warning")
def override_deletes(case: Case) -> Iterator[Fault]:
    """`~key` takes a key out of the composed configuration, so that the trainer finds none at all.

    That is neither null nor the default: reading the key fails, unless the trainer asks whether it is there.
    """
    for override in case.overrides:
        if override.deletes:
            message = f"`{override.text}` deletes the key; it is neither null nor the default then"
            yield Fault(
                f"--skyrl_override {override.text}", message, f"`{override.key}=null` sends null"
            )


@rule("skyrl.override-exists")
def override_adds_what_exists(case: Case) -> Iterator[Fault]:
    """`+key=value` for a key that the recipe sends already: Hydra refuses to add it twice.

    Lists and mappings it takes: a list replaces, a mapping is merged.
    """
    for override in case.overrides:
        written = look(case.run.recipe.body, override.recipe_key)
        if (
            override.prefix == "+"
            and "." in override.key
            and written is not None
            and not isinstance(written, dict)
            and not isinstance(override.value, dict | list)
        ):
            message = f"`{override.key}` is in the recipe already, and `+` only adds"
            yield Fault(f"--skyrl_override {override.text}", message, f"`++{override.text[1:]}`")


@rule("skyrl.override-adds")
def override_changes_what_is_open(case: Case) -> Iterator[Fault]:
    """A plain override of a key that Hydra has to be allowed to add.

    Below `engine_init_kwargs` and its like, and in `teacher`, the base configuration has no keys, so a plain
    `key=value` fails minutes after the GPUs were given. `++` adds or changes.
    """
    for override in case.overrides:
        section = _SECTION.get(override.recipe_key.partition(".")[0])
        if section is None or override.prefix or "." not in override.key or case.toy:
            continue
        derived = {item.key for item in case.derived}
        for key, _ in leaves(override.value, override.recipe_key):
            sent = look(case.run.recipe.body, key, MISSING) not in (MISSING, None)
            if prefix(section, key) == "++" and not sent and key not in derived:
                named = f"{override.key}{key.removeprefix(override.recipe_key)}"
                message = (
                    f"the base configuration has no `{named}`, so a plain override cannot add it"
                )
                yield Fault(f"--skyrl_override {override.text}", message, f"`++{override.text}`")
                break


@rule("skyrl.override-section")
def override_names_a_section(case: Case) -> Iterator[Fault]:
    """An override of a section that only a recipe has: Hydra does not know it.

    `terminal_bench` is called `terminal_bench_config` there; `container` and `extra_env` are the launcher's.
    """
    for override in case.overrides:
        head, dot, rest = override.key.partition(".")
        if head not in {"terminal_bench", "container", "extra_env", "config_groups"}:
            continue
        hints = {
            "terminal_bench": f"`{override.prefix}terminal_bench_config{dot}{rest}=…`",
            "extra_env": f"`--set env.{rest or 'NAME'}=…`",
        }
        yield Fault(
            f"--skyrl_override {override.text}",
            f"`{head}` is no section of the trainer's configuration",
            hints.get(head, "change the recipe"),
        )


@rule("skyrl.null-default", level="note")
def nulls_become_defaults(case: Case) -> Iterator[Fault]:
    """Null leaves of the recipe are not sent, so the trainer's default applies, which is not null.

    `max_grad_norm: null` stands in 24 real recipes and means 1.0 in effect. `!null` in the recipe, or
    `--skyrl_override KEY=null`, sends null.
    """
    decided = {item.key for item in case.derived}
    nulls = [
        key
        for key, value in case.leaves
        if value is None and key not in decided and key not in _SECTION
        and all(override.value_at(key) is MISSING for override in case.overrides)
    ]  # fmt: skip
    if nulls:
        names = ", ".join(f"`{key}`" for key in nulls)
        yield Fault(
            nulls[0], f"null, so the trainer's default applies: {names}", "`!null` sends null"
        )


@rule("skyrl.served-name", level="note")
def served_name_is_replaced(case: Case) -> Iterator[Fault]:
    """The recipe's `served_model_name` belongs to another model than the one that is launched.

    The trainer asks the engines for the last part of the model's path, so that part is served.
    """
    key = "generator.engine_init_kwargs.served_model_name"
    written = look(case.run.recipe.body, key)
    for item in case.derived:
        if item.key == key and written not in (None, item.value):
            yield Fault(
                key,
                f"`{written}` is replaced by `{item.value}`, the model that is launched",
                "take it out",
            )


@rule("skyrl.env-near-miss", level="warning")
def variables_are_spelt_right(case: Case) -> Iterator[Fault]:
    """A variable that is nearly one that the trainer reads.

    A misspelt guard is not an error for anybody: it is merely never read.
    """
    for name in sorted(case.env):
        if name in ENV_NAMES or not name.upper().startswith(FAMILIES):
            continue
        near = _nearest(name.upper())
        if near and near != name and not _sibling(name, near):
            key = next(
                (
                    s
                    for s in ("extra_env", "container.extra_env")
                    if f"{s}.{name}" in case.run.recipe.marks
                ),
                "",
            )
            place = f"{key}.{name}" if key else f"--set env.{name}"
            yield Fault(
                place,
                f"`{name}` is read by nobody that is known here",
                f"did you mean `{near}`?",
            )


@cache  # `check` asks the same of hundreds of recipes
def _nearest(name: str) -> str:
    """Return the known variable that a name nearly is, or nothing."""
    return next(iter(difflib.get_close_matches(name, ENV_NAMES, 1, 0.9)), "")


def _sibling(name: str, known: str) -> bool:
    """Tell whether two names differ by a whole word, as a family's members do."""
    ours, theirs = name.split("_"), known.split("_")
    return len(ours) != len(theirs) and (set(theirs) < set(ours))


RULES = (
    override_replaces_a_decision, override_starts_one_run, override_chooses_no_group, override_deletes,
    override_adds_what_exists, override_changes_what_is_open, override_names_a_section, nulls_become_defaults,
    served_name_is_replaced, variables_are_spelt_right,
)  # fmt: skip
