"""What each override replaces among the arguments before it, for people who read a plan. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rlaunch.skyrl.emit import leaves
from rlaunch.skyrl.overrides import Override, parse
from rlaunch.skyrl.tree import MISSING


def replaced(
    argv: Sequence[str], overrides: Sequence[str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield `(override, what it replaces)` for the overrides at the end of a trainer's arguments.

    What is replaced is the bare value where the key is the same (`1`), else `key=value` for every key that
    an override of a section decides. It is empty where nothing was sent for the key.
    """
    count = len(overrides)
    if not count or tuple(argv[-count:]) != tuple(overrides):
        return
    sent: dict[str, tuple[str, str]] = {}
    for word in argv[:-count]:
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


def _send(sent: dict[str, tuple[str, str]], override: Override) -> None:
    if override.deletes:
        return
    own = _key(override)
    for key, value in leaves(override.value, own):
        whole = key == own and not isinstance(value, dict)
        shown = override.text.partition("=")[2] if whole else _text(value)
        sent[key] = f"{override.key}{key.removeprefix(own)}", shown


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _shown(entry: tuple[str, str], *, same: bool) -> str:
    return entry[1] if same else "=".join(entry)
