"""A walk over a recipe's YAML nodes before values are built from them: places and what is refused.

Duplicate keys, loops and quotes are visible in the nodes only; in the values the last key has won, a
loop never ends, and `"1e-6"` looks like `1e-6`.
"""

from __future__ import annotations

import math
from typing import Any

from rlaunch.model import Finding

LEAVES = 20_000
"""Keys and items once aliases are written out; the largest real recipe has 300."""
DEPTH = 48
NULL = "!null"
"""Text of a leaf that stands for an explicit null; the tag `!null` in YAML reads as it."""

_YAML = "tag:yaml.org,2002:"
_MERGE, _STR = f"{_YAML}merge", f"{_YAML}str"
_PLAIN = {f"{_YAML}{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq")}
_WORDS = {"seq": "list", "str": "text", "map": "mapping", "int": "number", "float": "number"}
_WORDS |= {"bool": "boolean", "timestamp": "date"}


class Survey:
    """What one walk found. `walk` fills it; the node tree itself is only read.

    `marks`: `(line, column)` from 1 of every key and item by its dotted path; `quoted`: paths of texts
    in quotes that look like a number; `findings`: everything that is refused.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.marks: dict[str, tuple[int, int]] = {}
        self.quoted: set[str] = set()
        self.findings: list[Finding] = []
        self._full = False

    def walk(self, root: Any) -> None:
        """Walk a mapping node and everything below it."""
        self._mapping(root, "", (id(root),))

    def _say(self, code: str, message: str, node: Any, hint: str) -> None:
        mark = node.start_mark
        place = f"{self.path}:{mark.line + 1}:{mark.column + 1}"
        finding = Finding("error", code, message, place, hint)
        if finding not in self.findings:
            self.findings.append(finding)

    def _node(self, node: Any, path: str, above: tuple[int, ...]) -> None:
        if id(node) in above:
            self._say(
                "recipe.alias-loop", f"`{path}` is an alias that holds itself", node,
                "write the value out instead of `*name`",
            )  # fmt: skip
        elif len(self.marks) > LEAVES or len(above) > DEPTH:
            self._too_much(node)
        elif node.tag not in _PLAIN and node.tag != NULL:
            self._say(
                "recipe.unsupported-value", f"`{path}` is a {kind(node)} in YAML", node,
                "quote it, if it is text",
            )  # fmt: skip
        elif node.id == "mapping":
            self._mapping(node, path, (*above, id(node)))
        elif node.id == "sequence":
            inside = (*above, id(node))
            for index, item in enumerate(node.value):
                key = f"{path}[{index}]"
                mark = item.start_mark
                self.marks[key] = (mark.line + 1, mark.column + 1)
                self._node(item, key, inside)
        elif node.tag == _STR:
            self._text(node, path)

    def _mapping(self, node: Any, path: str, above: tuple[int, ...]) -> None:
        seen: dict[Any, Any] = {}
        merged: list[Any] = []
        for key, value in node.value:
            identity = (key.tag, key.value if key.id == "scalar" else id(key))
            if identity in seen:
                self._duplicate(key, seen[identity], path)
                continue
            seen[identity] = key
            if key.tag == _MERGE:
                merged.append(value)
            elif key.tag != _STR or key.id != "scalar":
                said = f"`{key.value}`" if key.id == "scalar" else "of a mapping"
                hint = f'write `"{key.value}":`' if key.id == "scalar" else "use text"
                message = f"the key {said} is a {kind(key)} in YAML, not text"
                self._say("recipe.key-not-text", message, key, hint)
            else:
                self._entry(key, value, f"{path}.{key.value}" if path else key.value, above)
        for value in merged:
            self._merge(value, path, above)

    def _entry(self, key: Any, value: Any, path: str, above: tuple[int, ...]) -> None:
        if path in self.marks:  # a key that is written out wins over a merged one
            return
        mark = key.start_mark
        self.marks[path] = (mark.line + 1, mark.column + 1)
        self._node(value, path, above)

    def _merge(self, value: Any, path: str, above: tuple[int, ...]) -> None:
        for part in value.value if value.id == "sequence" else (value,):
            if id(part) in above:
                message = f"`<<` in `{path}` merges a mapping into itself"
                self._say("recipe.alias-loop", message, part, "merge another mapping")
            elif part.id == "mapping" and len(self.marks) <= LEAVES:
                self._mapping(part, path, (*above, id(part)))

    def _duplicate(self, key: Any, first: Any, path: str) -> None:
        name = f"{path}.{key.value}" if path else str(key.value)
        lines = f"in line {first.start_mark.line + 1} and in line {key.start_mark.line + 1}"
        message = f"`{name}` is written twice, {lines}, and the last one would win silently"
        self._say("recipe.duplicate-key", message, key, "keep one of them")

    def _too_much(self, node: Any) -> None:
        if not self._full:
            message = "the recipe has too many or too deep values once aliases are written out"
            self._say("recipe.too-large", message, node, f"at most {LEAVES} values, {DEPTH} deep")
        self._full = True

    def _text(self, node: Any, path: str) -> None:
        if node.style and _like_number(node.value):
            self.quoted.add(path)
        if any("\ud800" <= letter <= "\udfff" for letter in node.value):
            message = f"`{path}` has half a character (a lone surrogate)"
            self._say("recipe.unsupported-value", message, node, "write the character itself")


def kind(node: Any) -> str:
    """Return the word for a node's type: `list`, `date`, or the tag as it stands."""
    word = str(node.tag).removeprefix(_YAML)
    return _WORDS.get(word, word if word == str(node.tag) else f"`!!{word}`")


def _like_number(text: str) -> bool:
    """Tell whether text reads as a number with an exponent, as `1e-6` does."""
    if "e" not in text.lower():
        return False
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False
