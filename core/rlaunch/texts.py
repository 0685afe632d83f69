"""Which texts can be sent (an argument, a path and a variable hold UTF-8 without a NUL byte), and how they
are shown. Pure."""

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
    waiting = [(name, value)]  # no recursion: a value may be nested as deep as JSON allows
    while waiting:
        path, inner = waiting.pop()
        if isinstance(inner, str):
            if why := trouble(inner):
                yield path, inner, why
        elif isinstance(inner, Mapping):
            below = [(f"{path}.{key}" if path else str(key), key) for key in inner]
            for place, key in below:
                if why := trouble(str(key)):
                    yield place, str(key), why
            waiting += [(place, inner[key]) for place, key in reversed(below)]
        elif isinstance(inner, list | tuple):
            waiting += [(f"{path}[{i}]", inner[i]) for i in reversed(range(len(inner)))]


def shown(text: str) -> str:
    """Return a text that can be printed: what is no text stands escaped."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def brief(text: object, most: int = 300) -> str:
    """Return a text in one line, cut to `most` characters."""
    line = " ".join(str(text or "").split())
    return line if len(line) <= most else f"{line[: most - 1]}…"
