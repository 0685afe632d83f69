"""Write one value in Hydra's override grammar. Pure; no Hydra at run time.

The rule, checked against hydra-core 1.3.2 by property tests: text goes in single quotes unless it is a
plain word; `'` becomes `\\'`; a backslash is doubled only where it stands before a quote or at the end;
newlines and tabs stay raw; null is `null`. A mapping can be written inline only while its keys are
bare words, since the grammar has no quoted keys.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

LONGEST = 96 * 1024
"""Bytes of one argument; Linux refuses 128 KiB for a single one."""

_BARE = re.compile(r"[A-Za-z_/][A-Za-z0-9_./-]*\Z|\.{1,2}/[A-Za-z0-9_./-]*\Z", re.ASCII)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z", re.ASCII)
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z_][A-Za-z0-9_-]*)*\Z", re.ASCII)
_TYPED = {"true", "false", "null", "inf", "nan"}
_EXPONENT = re.compile(
    r"[-+]?(?:(?:0|[1-9][0-9]*)(?:\.[0-9]*)?|\.[0-9]+)[eE][-+]?[0-9]+\Z", re.ASCII
)


class Unwritable(ValueError):  # noqa: N818  # it is a fact about a value, not a failure
    """The grammar has no way to write this value; it needs a configuration file."""


def write(value: Any) -> str:
    """Return a value as Hydra's parser reads it back, type for type.

    Raises Unwritable for mappings whose keys are no bare words and for NUL bytes.
    """
    return _write(value)


def fits(text: str) -> bool:
    """Tell whether text is short enough for one argument."""
    return len(text) <= LONGEST // 4 or len(text.encode("utf-8", "surrogatepass")) <= LONGEST


def _write(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key(k)}:{_write(v)}" for k, v in value.items()) + "}"
    return "[" + ",".join(_write(item) for item in value) + "]"


def key(name: Any) -> str:
    """Return the key of an inline mapping; raises Unwritable unless it is a bare word."""
    if not isinstance(name, str) or not _WORD.match(name) or name.lower() in _TYPED:
        raise Unwritable(f"the key `{name}` is no bare word")
    return name


def quote(text: str, mark: str = "") -> str:
    """Return text as a bare word where it reads back as that text, else in single quotes.

    With `mark`, one of the two quotes, it always stands in those.
    """
    if "\0" in text:
        raise Unwritable("it has a NUL byte, which no argument can carry")
    if not mark and _BARE.match(text) and text.lower() not in _TYPED:
        return text
    mark = mark or "'"
    escaped = re.sub(rf"(\\*){mark}", lambda found: f"{found[1] * 2}\\{mark}", text)
    tail = len(escaped) - len(escaped.rstrip("\\"))
    return f"{mark}{escaped}{chr(92) * tail}{mark}"


def is_exponent(text: str) -> bool:
    """Tell whether text is a number with an exponent, which YAML 1.1 takes for text (`1e-6`).

    Unquoted, Hydra reads every such text as that float.
    """
    return _EXPONENT.match(text) is not None


def writable_key(dotted: str) -> bool:
    """Tell whether every part of a dotted key can stand on the left of `=`."""
    return _KEY.match(dotted) is not None
