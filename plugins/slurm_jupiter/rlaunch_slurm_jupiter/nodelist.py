"""SLURM's node lists: `jwb[0001-0003,0010],login1` → names. Pure."""

from __future__ import annotations

import re

_LIMIT = 100_000
_BRACKETS = 8
_RANGE = re.compile(r"(\d+)(?:-(\d+))?\Z")


def expand(text: str) -> tuple[str, ...]:
    """Return the names of a node list, in its order: ranges, zero padding, several brackets, several
    prefixes. Raises ValueError for anything else, with what is wrong."""
    names: list[str] = []
    for part in _split(text.strip()):
        names.extend(_expand_one(part))
        _bound(len(names))
    return tuple(names)


def _bound(count: int) -> None:
    if count > _LIMIT:
        raise ValueError(f"more than {_LIMIT} nodes")


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        if sign == "[":
            depth += 1
        elif sign == "]":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
        if not 0 <= depth <= 1:
            raise ValueError(f"brackets do not match in `{text[:80]}`")
    if depth:
        raise ValueError(f"brackets do not match in `{text[:80]}`")
    parts.append(text[start:])
    if text and not all(parts):
        raise ValueError(f"an empty name in `{text[:80]}`")
    return [part for part in parts if part]


def _expand_one(part: str) -> list[str]:
    if part.count("[") > _BRACKETS:
        raise ValueError(f"more than {_BRACKETS} brackets in `{part[:80]}`")
    head, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, tail = rest.partition("]")
    tails = _expand_one(tail) if tail else [""]
    numbers = _numbers(inside)
    _bound(len(numbers) * len(tails))  # before they are made
    return [head + number + end for number in numbers for end in tails]


def _numbers(inside: str) -> list[str]:
    numbers: list[str] = []
    for piece in inside.split(","):
        match = _RANGE.match(piece)
        if match is None:
            raise ValueError(f"`{piece}` is no range of numbers")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first) or int(last) - int(first) > _LIMIT:
            raise ValueError(f"`{piece}` is no range of numbers")
        numbers += [str(n).zfill(len(first)) for n in range(int(first), int(last) + 1)]
        _bound(len(numbers))
    return numbers
