"""What an experiment is, as one hash: separate from how and where it is run. Pure.

In: the recipe's science keys and those that nobody has classified, its entry point, the environment
variables that may change results, the model, the data, and overrides of such keys. Out: placement,
parallel sizes, memory shares, paths, loggers, labels, transport and observation; the full list is
`rlaunch.skyrl.classes`. Two runs of one hash are repetitions; another hash under an old name is another
experiment.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rlaunch.model import Recipe

HOW = frozenset({"mechanical", "tuning"})
"""Classes that say how an experiment is run."""


def hash_of(
    recipe: Recipe,
    model_path: str,
    train_data: Sequence[str],
    val_data: Sequence[str],
    overrides: Sequence[str],
) -> str:
    """Return 16 hex digits over the canonical form of the experiment (`content`)."""
    what = content(recipe, model_path, train_data, val_data, overrides)
    text = json.dumps(what, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def content(
    recipe: Recipe,
    model_path: str,
    train_data: Sequence[str],
    val_data: Sequence[str],
    overrides: Sequence[str],
) -> dict[str, Any]:
    """Return what is hashed: `{"keys", "env", "model", "train_data", "val_data", "overrides"}`.

    Null leaves and empty mappings are left out, since the trainer's default applies with or without
    them; `8e-6` and `0.000008` are one number; the order of keys does not matter, that of data does.
    Overrides count as changes of their keys; what no recipe can hold, and what cannot be read, stays
    as text.
    """
    from rlaunch.skyrl import overrides as hydra

    body: Mapping[str, Any] = recipe.body
    loose: list[str] = []
    for text in overrides:
        try:
            override = hydra.parse(text)
        except ValueError:
            loose.append(text)
            continue
        after = hydra.apply(body, (override,))
        if after is body and not override.key.startswith("hydra."):
            loose.append(text)
        body = after
    return {
        "keys": _science(body, frozenset(recipe.quoted)),
        "env": _env(body),
        "model": model_path,
        "train_data": list(train_data),
        "val_data": list(val_data),
        "overrides": loose,
    }


def _science(body: Mapping[str, Any], quoted: frozenset[str]) -> dict[str, Any]:
    from rlaunch.skyrl import entrypoints
    from rlaunch.skyrl.classes import classify
    from rlaunch.skyrl.emit import leaves

    found: dict[str, Any] = {}
    for key, value in leaves(body):
        if value is None or value == {} or key.startswith(("extra_env", "container")):
            continue
        if classify(key) not in HOW:
            found[key] = value if key in quoted else _canonical(value)
    if isinstance(found.get("entrypoint"), str):
        found["entrypoint"] = entrypoints.module(found["entrypoint"])
    return found


def _env(body: Mapping[str, Any]) -> dict[str, Any]:
    from rlaunch.skyrl.classes import classify_env

    container = body.get("container")
    parts = (
        container.get("extra_env") if isinstance(container, Mapping) else None,
        body.get("extra_env"),
    )
    found: dict[str, Any] = {}
    for part in parts:
        for name, value in part.items() if isinstance(part, Mapping) else ():
            plain = str(name).removeprefix("APPTAINERENV_")
            if value is not None and classify_env(plain) not in HOW:
                found[plain] = str(int(value)) if isinstance(value, bool) else str(value)
    return found


def _canonical(value: Any) -> Any:
    """Write equal numbers alike: 60 and 60.0, 8e-6 and `8e-6`."""
    from rlaunch.skyrl.grammar import is_exponent

    if isinstance(value, str) and is_exponent(value):
        value = float(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    return value
