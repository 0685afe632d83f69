"""Small readers of nested mappings: one value by its dotted path, and typed numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MISSING: Any = object()


def look(body: Mapping[str, Any], path: str, default: Any = None) -> Any:
    """Return the value at a dotted path, or `default` where there is none."""
    node: Any = body
    for part in path.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return default
        node = node[part]
    return node


def count(body: Mapping[str, Any], path: str, default: int) -> int:
    """Return a whole number of at least 1; absent, null and anything else are `default`."""
    value = look(body, path)
    good = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return value if good else default


def truth(body: Mapping[str, Any], path: str, default: bool = False) -> bool:
    """Return a boolean; absent and null are `default`, texts are read as YAML 1.1 reads them."""
    value = look(body, path)
    if isinstance(value, str):
        return value.strip().lower() in {"true", "yes", "on", "1"}
    return default if value is None else bool(value)


def placed(body: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of `body` with `value` at a dotted path; mappings on the way are made."""
    head, _, rest = path.partition(".")
    inner = body.get(head)
    copy = dict(body)
    copy[head] = placed(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value
    return copy


def removed(body: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a copy of `body` without the value at a dotted path."""
    head, _, rest = path.partition(".")
    copy = dict(body)
    if not rest:
        copy.pop(head, None)
    elif isinstance(copy.get(head), Mapping):
        copy[head] = removed(copy[head], rest)
    return copy
