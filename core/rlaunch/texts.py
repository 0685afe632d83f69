"""Which texts can be sent: an argument, a path and a variable hold UTF-8 without a NUL byte. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def trouble(text: str) -> str:
    """Return what keeps a text from being sent, in words that follow its name; empty for nothing."""
    if "\0" in text:
        return "has a NUL byte, which ends a text early"
    if text.isascii():
        return ""
    try:
        text.encode()
    except UnicodeEncodeError:  # Python reads other bytes of a command line as surrogates
        return "has bytes that are not UTF-8"
    return ""


def troubles(value: Any, name: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield dotted name, text and trouble of every text in a value, keys of mappings included."""
    if isinstance(value, str):
        if why := trouble(value):
            yield name, value, why
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            below = f"{name}.{key}" if name else str(key)
            if why := trouble(str(key)):
                yield below, str(key), why
            yield from troubles(inner, below)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            yield from troubles(inner, f"{name}[{index}]")


def shown(text: str) -> str:
    """Return a text that can be printed: what is no text stands escaped."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
