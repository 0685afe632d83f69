"""The ledger: every leaf of a recipe ends as exactly one thing, and unknown keys are errors. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlaunch.model import Entry, Finding, Recipe, Run
from rlaunch.porting import here
from rlaunch.skyrl import entrypoints
from rlaunch.skyrl.derive import Derived
from rlaunch.skyrl.emit import SECTIONS, Emitted, leaves
from rlaunch.skyrl.overrides import Override
from rlaunch.skyrl.tree import MISSING, look

MAPPINGS = (
    "config_groups", "trainer", "generator", "data", "rollout", "teacher", "terminal_bench", "extra_env",
    "container",
)  # fmt: skip
TOP = ("entrypoint", *MAPPINGS)
"""Top-level keys of a recipe for agentic runs."""
CONTAINER = ("sif", "binds", "overlays", "pydeps", "extra_env")
SETTINGS = ("model_num_attention_heads",)
"""Top-level keys that rlaunch itself reads."""
NEWER = {
    "context_budget": "write the lengths out: `generator.engine_init_kwargs.max_model_len`, "
    "`generator.sampling_params.max_generate_length`, `generator.max_turns`, …",
    "policy_chat_template": "write `generator.engine_init_kwargs.custom_chat_template_chat_completion_path`",
}
"""Top-level keys of a newer recipe schema that derive other keys -> what to write instead."""


def check_keys(recipe: Recipe) -> tuple[Finding, ...]:
    """Return what is wrong with a recipe's keys and shapes, without knowing where it will run.

    A recipe whose entry point belongs to another trainer is that trainer's to judge.
    """
    entrypoint = recipe.body.get("entrypoint")
    if not isinstance(entrypoint, str) or not entrypoint:
        return (_entrypoint(recipe, entrypoint), *_top(recipe, entrypoint))
    if entrypoint != entrypoints.TOY and not entrypoints.is_skyrl(entrypoint):
        return ()
    return (*_top(recipe, entrypoint), *_shapes(recipe), *_container(recipe))


def _entrypoint(recipe: Recipe, entrypoint: Any) -> Finding:
    said = "has no `entrypoint`" if entrypoint is None else f"has `{entrypoint}` as entry point"
    hint = "`entrypoint: terminal_bench`, or a module such as `skyrl_train.entrypoints.main_base`"
    message = f"the recipe {said}, so nothing says what to start"
    return Finding("error", "recipe.entrypoint", message, recipe.at("entrypoint"), hint)


def _known(entrypoint: Any) -> tuple[str, ...]:
    more: tuple[str, ...] = ("smoke",) if entrypoint == entrypoints.TOY else ()
    more += () if entrypoints.is_agentic(entrypoint) else ("environment",)
    return (*TOP, *SETTINGS, *more)


def _top(recipe: Recipe, entrypoint: Any) -> Iterator[Finding]:
    known = _known(entrypoint)
    for key in recipe.body:
        if key in known:
            continue
        if key in NEWER or key == "environment":
            message = f"`{key}` belongs to a newer schema of recipes, and would derive other keys"
            hint = NEWER.get(
                key, "write the trainer's own keys; `environment` is for non-agentic entry points"
            )
            yield Finding("error", "skyrl.newer-schema", message, recipe.at(key), hint)
        else:
            yield _unknown(recipe, key, key, known)


def _unknown(recipe: Recipe, path: str, name: str, known: Iterable[str]) -> Finding:
    near = difflib.get_close_matches(name.lower(), known, 1)
    hint = (
        f"did you mean `{near[0]}`?" if near else f"known are {', '.join(f'`{k}`' for k in known)}"
    )
    message = f"there is no key `{name}` here, and it would reach nobody"
    return Finding("error", "recipe.unknown-key", message, recipe.at(path), hint)


def _shapes(recipe: Recipe) -> Iterator[Finding]:
    for key in (*MAPPINGS, "environment", "smoke"):
        value = recipe.body.get(key)
        if value is not None and not isinstance(value, Mapping) and key != "extra_env":
            message = f"`{key}` is not a mapping of keys to values"
            yield Finding(
                "error",
                "recipe.wrong-shape",
                message,
                recipe.at(key),
                f"write `{key}:` and its keys below",
            )
    groups = recipe.body.get("config_groups")
    for group, name in groups.items() if isinstance(groups, Mapping) else ():
        if name is not None and not isinstance(name, str | list):
            message = f"the configuration group `{group}` is chosen by `{name}`, which is no name"
            place = recipe.at(f"config_groups.{group}")
            yield Finding("error", "recipe.wrong-shape", message, place, f"write `{group}: NAME`")


def _container(recipe: Recipe) -> Iterator[Finding]:
    container = recipe.body.get("container")
    for key in container if isinstance(container, Mapping) else ():
        if key not in CONTAINER:
            yield _unknown(recipe, f"container.{key}", str(key), CONTAINER)


def ledger(
    run: Run, emitted: Emitted, derived: tuple[Derived, ...], overrides: tuple[Override, ...]
) -> tuple[Entry, ...]:
    """Return one entry for every leaf of the recipe, in the recipe's order."""
    return tuple(_Books(run, emitted, derived, overrides).entries())


class _Books:
    def __init__(
        self,
        run: Run,
        emitted: Emitted,
        derived: tuple[Derived, ...],
        overrides: tuple[Override, ...],
    ) -> None:
        self.run = run
        self.sent = {argument.key: argument for argument in (*emitted.groups, *emitted.arguments)}
        self.derived = {item.key: item for item in derived}
        self.overrides = overrides
        self.sections = {section.recipe for section in SECTIONS} | {"config_groups"}
        self.known = _known(look(run.recipe.body, "entrypoint"))

    def entries(self) -> Iterator[Entry]:
        for key, value in leaves(self.run.recipe.body):
            head = key.partition(".")[0]
            if head not in self.known:
                yield Entry(key, "error", "unknown top-level key")
            elif head in self.sections:
                yield self._trainer(key, value)
            elif head == "extra_env" or key.startswith("container.extra_env"):
                yield self._variable(key, value)
            else:
                yield self._setting(key, value)

    def _trainer(self, key: str, value: Any) -> Entry:
        item = self.derived.get(key)
        if item is not None:
            fate, detail = "derived", f"{self._sent(key)} ({item.why})"
        elif value is None or value == {}:
            fate, detail = "dropped", self._empty(value)
        elif found := self._sent(key):
            fate, detail = "argument", found
        else:
            fate, detail = "error", "it has no place in its section"
        for override in self.overrides:
            if override.value_at(key) is not MISSING:
                detail += f"; then overridden by `{override.text}`"
        return Entry(key, fate, detail)  # type: ignore[arg-type]  # the four literals above

    def _sent(self, key: str) -> str:
        """Return the argument of a leaf, or of the mapping that carries it whole."""
        probe = key
        while probe:
            argument = self.sent.get(probe)
            if argument is not None:
                return argument.text or "in the file `values.yaml` that travels with the run"
            probe = probe.rpartition(".")[0]
        return ""

    @staticmethod
    def _empty(value: Any) -> str:
        if value is None:
            return "null-leaf: the trainer's default applies; `!null` sends null"
        return "empty-mapping: nothing to send"

    def _variable(self, key: str, value: Any) -> Entry:
        name = key.rpartition("extra_env.")[2]
        if value == {} or key.endswith("extra_env"):
            return Entry(key, "dropped", "empty-mapping: nothing to send")
        setting = self.run.provenance.get(f"env.{name}")
        if setting is not None and setting.reason.startswith("folded"):
            return Entry(key, "environment", setting.reason)
        plain = name.removeprefix("APPTAINERENV_")
        if plain in self.run.env:
            return Entry(key, "environment", plain)
        if value is None:
            return Entry(key, "dropped", "null-leaf: not set")
        reason = setting.reason if setting is not None else ""
        return Entry(
            key,
            "dropped",
            f"environment-rule: {reason.removeprefix('dropped: ') or 'see findings'}",
        )

    def _setting(self, key: str, value: Any) -> Entry:
        if key == "entrypoint":
            return Entry(key, "setting", f"python -m {entrypoints.module(str(value))}")
        head = key.partition(".")[0]
        why = (self.run.profile.get("unsupported") or {}).get(head)
        if head == "container":
            why = here.no_container(self.run.profile)
        if why:
            return Entry(key, "dropped", f"no-{head}-here: {why}")
        if value is None or value == {}:
            return Entry(
                key, "dropped", self._empty(value).replace("the trainer's", "the cluster's")
            )
        return Entry(key, "setting", f"{key}, read by the launcher")
