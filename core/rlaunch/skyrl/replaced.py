"""What each override replaces among the arguments before it, for people who read a plan. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rlaunch.skyrl.emit import leaves
from rlaunch.skyrl.overrides import Override, parse
from rlaunch.skyrl.tree import MISSING

IN_FILE = "in the file that travels"
_Sent = dict[str, tuple[str, str | None]]
"""A recipe's key -> the key as it is sent, and the value; None where it travels in the file."""


def replaced(
    argv: Sequence[str], overrides: Sequence[str], filed: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield `(override, what it replaces)` for the overrides, wherever they stand in a trainer's arguments.

    What is replaced is the bare value where the key is the same (`1`), else `key=value` for every key that
    an override of a section decides. It is empty where nothing was sent for the key. `filed` are the values
    that travel in a file, by Hydra's names; of them it is only said that they do.
    """
    at = _place(tuple(argv), tuple(overrides))
    if at is None:
        return
    sent: _Sent = {}
    for key, _ in leaves(filed) if filed else ():
        sent[Override("", key, None, "").recipe_key] = key, None
    for word in argv[:at]:
        if (found := _read(word)) is not None:
            _send(sent, found)
    for text in overrides:
        override = _read(text)
        if override is None:
            continue
        lost = [key for key in sent if _decides(override, key)]
        yield text, tuple(_shown(sent[key], same=key == _key(override)) for key in lost)
        for key in lost:
            del sent[key]
        _send(sent, override)


def _place(argv: tuple[str, ...], overrides: tuple[str, ...]) -> int | None:
    """Return where the overrides begin, the last place where all of them stand together."""
    count = len(overrides)
    places = range(len(argv) - count, -1, -1) if count else ()
    return next((at for at in places if argv[at : at + count] == overrides), None)


def _read(word: str) -> Override | None:
    try:
        return parse(word)
    except ValueError:  # the program, or an option of Hydra's
        return None


def _key(override: Override) -> str:
    """Return the key, the choice of a group apart from the section of the same name."""
    return f"@{override.recipe_key}" if override.chooses else override.recipe_key


def _decides(override: Override, key: str) -> bool:
    if override.chooses:
        return key == _key(override)
    return override.value_at(key) is not MISSING or override.recipe_key.startswith(f"{key}.")


def _send(sent: _Sent, override: Override) -> None:
    if override.deletes:
        return
    own = _key(override)
    for key, value in leaves(override.value, own):
        whole = key == own and not isinstance(value, dict)
        shown = override.text.partition("=")[2] if whole else _text(value)
        sent[key] = f"{override.key}{key.removeprefix(own)}", shown


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(entry: tuple[str, str | None], *, same: bool) -> str:
    key, value = entry
    if value is None:
        return IN_FILE if same else f"{key} {IN_FILE}"
    return value if same else f"{key}={value}"
