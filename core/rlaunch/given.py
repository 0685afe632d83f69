"""Rules about what the operator gave, whatever the cluster and the trainer. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlaunch.codes import Code, rule
from rlaunch.hooks import hookimpl
from rlaunch.model import Finding, Plan, Run
from rlaunch.texts import shown, trouble, troubles

CODE = "core.not-text"
HINT = "write it in UTF-8, without `\\0`: an argument, a path or a variable holds nothing else"
_FLAGS = {
    "train_data": "data.train_data",
    "val_data": "data.val_data",
    "model_path": "trainer.policy.model.path",
}
"""Fields that a flag gives, or else a key of the recipe."""
_PATHS = ("path", "_dir")
"""Ends of a recipe's keys whose values are paths."""


def fault(name: str, why: str, place: str) -> Finding:
    """Return the finding for something that cannot be sent; `name` is what it is."""
    return Finding("error", CODE, f"`{shown(name)}` {why}", shown(place), HINT)


@rule(CODE)
def texts_can_be_sent(run: Run, plan: Plan) -> Iterable[Finding]:
    """A value has a NUL byte, or bytes that are not UTF-8.

    Arguments, paths and environment variables end at a NUL byte, and the documents that rlaunch writes are
    UTF-8: such a value would arrive cut off, or not at all. A recipe's other values may hold a NUL byte,
    since they can travel in a file.
    """
    told: list[str] = []
    for name, text, why, place in _bad(run):
        told.append(text)
        yield fault(name, why, place)
    for key, text, why in troubles(dict(plan.env)):
        if "\0" not in text:  # `env.nul` says that
            yield fault(f"env.{key}", why, _variable(run, key))
    for part, words in (("argv", plan.command.argv), ("stage", plan.command.stage)):
        for index, word in enumerate(words):
            if (why := trouble(word)) and not any(text in word for text in told):
                key = word.partition("=")[0].lstrip("+~")
                known = run.recipe.marks.get(key) is not None
                told.append(word)
                yield fault(key if known else f"{part}[{index}]", why, run.recipe.at(key))
    told += (text for _, text, _ in troubles(dict(plan.env)))
    for name, text, why in troubles({"user": run.user, "native": plan.native}):
        if "\0" not in text and not any(known in text for known in told):
            yield fault(name, why, "$USER" if name == "user" else name)


def _bad(run: Run) -> Iterator[tuple[str, str, str, str]]:
    """Yield name, text, trouble and place of all that is wrong with what was given."""
    for field, key in _FLAGS.items():
        setting = run.provenance.get(field)
        typed = setting is None or setting.source == "command line"
        place = f"--{field}" if typed else run.recipe.at(key)
        for name, text, why in troubles(getattr(run, field), field):
            yield name, text, why, place
    for text in run.overrides:
        if why := trouble(text):
            yield text.partition("=")[0], text, why, "--skyrl_override"
    for name, text, why in troubles({"resume": run.resume, "skyrl_ref": run.skyrl_ref}):
        yield name, text, why, f"--{name}"
    for name, text, why in troubles({"recipe": run.recipe.path, "workspace": run.workspace.root}):
        yield name, text, why, text
    settled: Mapping[str, Any] = {**run.profile, **run.paths._asdict(), "python": run.python}
    for name, text, why in troubles(settled):
        yield name, text, why, name
    for name, text, why in troubles(run.recipe.body):
        if name.endswith(_PATHS) and name not in _FLAGS.values():
            yield name, text, why, run.recipe.at(name)


def _variable(run: Run, name: str) -> str:
    key = f"extra_env.{name}"
    return run.recipe.at(key) if key in run.recipe.marks else f"env.{name}"


@rule("core.data-twice", level="warning")
def data_is_named_once(run: Run, plan: Plan) -> Iterable[Finding]:
    """A data set is named twice.

    Its rows would count twice in every epoch, which is hardly meant; where it is, the run goes ahead.
    """
    for field, names in (("train_data", run.train_data), ("val_data", run.val_data)):
        for name, count in Counter(names).items():
            if count > 1:
                setting = run.provenance.get(field)
                typed = setting is None or setting.source == "command line"
                yield Finding(
                    "warning", "core.data-twice", f"`{field}` names `{shown(name)}` {count} times",
                    f"--{field}" if typed else run.recipe.at(_FLAGS[field]), "name it once",
                )  # fmt: skip


RULES = (texts_can_be_sent, data_is_named_once)


@hookimpl
def rlaunch_check(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ask every rule."""
    for check in RULES:
        yield from check(run, plan)


CODES: tuple[Code, ...] = tuple(r.code for r in RULES)  # type: ignore[attr-defined]  # set by @rule
