"""Credentials that stand anywhere in a recipe or an override: at any depth, in mappings and lists. Pure.

`env` judges the variables of the job. What goes to the trainer inside its own configuration (`env` blocks
of sandboxes, `runtime_env.env_vars`) reaches processes all the same, so the absolute refusals hold there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from rlaunch import env
from rlaunch.model import Finding, Plan, Recipe, Run
from rlaunch.skyrl.overrides import Override, parse
from rlaunch.survey import NULL

_INNOCENT = re.compile(
    r"(?:[a-z_]*_)?(?:bos|eos|pad|unk|sep|cls|mask|stop|start|end|begin|image|video|audio|special|think"
    r"|per|new|tool|vision)_token\Z"
    r"|(?:[a-z_]*_)?(?:prompt|input|output|question|label|answer|response|reward|dataset|data|sort|group"
    r"|images?|videos?|messages|text|chat|uid|primary|foreign|partition|metric|env|model)_key\Z|key\Z"
)
"""Keys of trainers that end as a secret's do: tokens of a tokenizer, columns of a data set."""
_REFERENCE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[^{}]*\})\Z")
_ASSIGNED = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(\S+)\s*\Z")
_STORE = re.compile("aws_|r2_|fsspec_s3", re.IGNORECASE)
"""What an argument has to hold before it is worth reading: most plans have none."""
_WITHIN = re.compile(r"\b((?:AWS|R2|FSSPEC_S3)_[A-Z0-9_]+)(?:=|[\"']?[ \t]*:[ \t]*)([^\s,}]+)")
_NO_KEY = "EMPTY"
"""What vLLM's documentation gives a client as the key of a server that asks for none."""
_TWIN = re.compile(r"(?:APPTAINER|SINGULARITY)ENV_")


def of_recipe(recipe: Recipe) -> Iterator[Finding]:
    """Yield the credentials that a recipe names outside its variables, which `env.gather` judges.

    A null is not sent, and so is not judged.
    """
    for path, name, value in _named(recipe.body):
        head, _, variable = path.rpartition(".")
        its_own = name == variable and head in {"extra_env", "container.extra_env"}
        if value is None or its_own:
            continue
        if found := _judge(name, value, ""):
            yield found._replace(place=recipe.at(path))


def of_override(override: Override) -> Iterator[Finding]:
    """Yield the credentials that an override names, in its key or anywhere in its value."""
    key, value = override.key, override.value
    for part in re.split(r"[./@]", key):
        if found := _judge(part, value, f"--skyrl_override {key}"):
            yield found
    for path, name, inner in _named(value, key):
        if found := _judge(name, inner, f"--skyrl_override {path}"):
            yield found


def of_plan(run: Run, plan: Plan) -> Iterator[Finding]:
    """Yield the credentials of a plan's recipe, overrides and arguments, whoever wrote the plan."""
    yield from of_recipe(run.recipe)
    for word in dict.fromkeys((*run.overrides, *plan.command.argv)):
        if _STORE.search(word) or word in run.overrides:
            try:
                override = parse(word)
            except (
                ValueError
            ):  # another program's argument, or an override that is refused elsewhere
                continue
            yield from of_override(override)


def _judge(name: str, value: Any, place: str) -> Finding | None:
    """Return what is wrong with one name; the value is looked at and never shown.

    Numbers are no secrets under a lower-case name (`input_cost_per_token`); the name of another variable
    and a reference (`${…}`) are no literals.
    """
    plain = _TWIN.sub("", name)
    if env.refused(plain) or env.holds_keys(plain, str(value)):
        return env.refusal(name, place)
    if env.looks_secret(plain) and not _INNOCENT.match(plain) and _is_literal(plain, value):
        return env.literal(name, place)
    return None


def _named(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield `(path, name, value)` of all below a value that may name a variable.

    That is every key of a mapping, `{name: N, value: V}`, the text `N=V`, and the cluster's own names with a
    value inside any text, a command line or JSON.
    """
    if isinstance(value, Mapping):
        name = value.get("name")
        if isinstance(name, str) and "value" in value:
            yield path, name, value["value"]
        for key, item in value.items():
            inner = f"{path}.{key}" if path else str(key)
            yield from ((inner, part, item) for part in str(key).split("."))
            yield from _named(item, inner)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _named(item, f"{path}[{index}]")
    elif isinstance(value, str):
        if found := _ASSIGNED.match(value):
            yield path, found[1], found[2]
        else:
            yield from ((path, found[1], found[2]) for found in _WITHIN.finditer(value))


def _is_literal(name: str, value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_is_literal(name, item) for item in value)
    if not isinstance(value, str):
        return isinstance(value, int | float) and not isinstance(value, bool) and name.isupper()
    named = value.isupper() and value.isascii() and value.isidentifier() and env.looks_secret(value)
    return value not in {"", NULL, _NO_KEY} and not named and not _REFERENCE.match(value)
