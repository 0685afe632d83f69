"""Small readers of nested mappings: one value by its dotted path, and typed numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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


def updated(body: Mapping[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of `body` as `path=value` leaves it by Hydra's rules (`OmegaConf.update`).

    A mapping is merged into the mapping that is there; lists and single values replace. A number in the
    path is an item of a list that is there. What Hydra would refuse replaces.
    """
    return dict(_updated(body, path.split("."), value))


def _updated(node: Any, parts: list[str], value: Any) -> Any:
    if not parts:
        return _merged(node, value)
    head, rest = parts[0], parts[1:]
    if isinstance(node, list) and head.isdecimal() and int(head) < len(node):
        index = int(head)
        return [*node[:index], _updated(node[index], rest, value), *node[index + 1 :]]
    inside = node if isinstance(node, Mapping) else {}
    return {**inside, head: _updated(inside.get(head), rest, value)}


def _merged(there: Any, value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    base = dict(there) if isinstance(there, Mapping) else {}
    for key, item in value.items():
        base[key] = _merged(base.get(key), item)
    return base


def names(value: Any, path: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield `(path, name, value)` of every key at any depth, in mappings and in lists (`a.b[0].c`)."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            inner = f"{path}.{name}" if path else str(name)
            yield inner, str(name), item
            yield from names(item, inner)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from names(item, f"{path}[{index}]")


def removed(body: Mapping[str, Any], path: str) -> dict[str, Any]:
    """Return a copy of `body` without the value at a dotted path."""
    head, _, rest = path.partition(".")
    copy = dict(body)
    if not rest:
        copy.pop(head, None)
    elif isinstance(copy.get(head), Mapping):
        copy[head] = removed(copy[head], rest)
    return copy
