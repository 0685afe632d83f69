"""Read `--skyrl_override`: its prefix, key and value, by Hydra's grammar. Pure.

Source of the grammar: `OverrideLexer.g4` and `OverrideParser.g4` of hydra-core 1.3.2; a property test
compares what is read here with the real parser. Sweeps and functions are refused, since one launch
is one run. The toy trainer has a reader of its own, because it travels without rlaunch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from rlaunch.skyrl.tree import MISSING, removed, updated

_PART = r"(?:[a-zA-Z_$][a-zA-Z0-9_$-]*|0|[1-9](?:_?[0-9])*)"
_DOTTED = rf"(?:[a-zA-Z_$][a-zA-Z0-9_$-]*|{_PART}(?:\.{_PART})+)"
_GROUP = r"[a-zA-Z_][a-zA-Z0-9_-]*(?:/[a-zA-Z_][a-zA-Z0-9_-]*)+"
_HEAD = re.compile(rf"(\+\+|\+|~|)((?:{_GROUP}|{_DOTTED})(?:@{_DOTTED})?)(=[ \t]*|\Z)")
SECTIONS = {"terminal_bench_config": "terminal_bench"}
"""Hydra's name of a section -> the recipe's, where they differ."""
_BODY = (
    "trainer", "generator", "data", "terminal_bench", "teacher", "rollout", "environment", "smoke",
)  # fmt: skip


class Override(NamedTuple):
    """One override. `value` is None for null and for a deletion without a value."""

    prefix: str
    """`` (change), `+` (add), `++` (add or change) or `~` (delete)."""
    key: str
    """Dotted, as it was typed; a configuration group keeps its `/` and `@package`."""
    value: Any
    text: str

    @property
    def deletes(self) -> bool:
        """True for `~key`: the key is taken out of the composed configuration."""
        return self.prefix == "~"

    @property
    def recipe_key(self) -> str:
        """The key as a recipe writes it (`terminal_bench.…`)."""
        head, dot, rest = self.key.partition(".")
        return f"{SECTIONS.get(head, head)}{dot}{rest}"

    @property
    def chooses(self) -> bool:
        """True where a configuration group is chosen and no value is set: by `/`, `@`, or a group's name."""
        named = self.key in SECTIONS and not isinstance(self.value, Mapping)
        return named or "/" in self.key or "@" in self.key

    def value_at(self, key: str) -> Any:
        """Return what it makes of a recipe's key; MISSING where it leaves that key as it is.

        A deletion makes None. A mapping decides the keys that it names, as Hydra merges it; any other
        value of a key decides all keys below it.
        """
        own = self.recipe_key
        if self.chooses or not f"{key}.".replace("[", ".").startswith(f"{own}."):
            return MISSING
        node = None if self.deletes else self.value
        for part in key[len(own) :].replace("[", ".").split(".")[1:]:
            if not isinstance(node, Mapping):
                return node if node is MISSING else None
            node = node.get(part, MISSING)
        return node


class OverrideError(ValueError):
    """Text that is no override, or one that would start a sweep; the message has the column."""

    def __init__(self, reason: str, column: int) -> None:
        super().__init__(f"{reason} (column {column + 1})")
        self.column = column + 1


def parse(text: str) -> Override:
    """Read one override. Raises OverrideError, a ValueError, with the column of the fault."""
    head = _HEAD.match(text)
    if head is None:
        raise _no_head(text)
    prefix, key, equals = head.groups()
    if not equals and prefix != "~":
        raise OverrideError("there is no `=`", head.end())
    value = _Reader(text, head.end()).value() if equals else None
    return Override(prefix, key, value, text)


def apply(body: Mapping[str, Any], overrides: Iterable[Override]) -> Mapping[str, Any]:
    """Return a recipe's body as overrides leave it, later ones winning; `body` is not changed.

    A mapping is merged into the mapping that is there, as Hydra does; any other value replaces. Keys of no
    section of a recipe (`hydra.…`, a configuration group) leave it as it is.
    """
    for override in overrides:
        key = override.recipe_key
        if override.chooses or key.partition(".")[0] not in _BODY:
            continue
        body = removed(body, key) if override.deletes else updated(body, key, override.value)
    return body


def _no_head(text: str) -> OverrideError:
    key = re.match(rf"(?:\+\+|\+|~|){_DOTTED}", text)
    column = key.end() if key else 0
    found = f"`{text[column]}`" if column < len(text) else "the end"
    before = f"`{text[:column]}`" if column else "a key is expected"
    return OverrideError(
        f"{before + ' is followed by' if column else before + ', not'} {found}", column
    )


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


_INT = r"(?:0|[1-9](?:_?[0-9])*)"
_DIGITS = r"[0-9](?:_?[0-9])*"
_POINT = rf"(?:{_INT}?\.{_DIGITS}|{_INT}\.)"
_TOKENS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("(", r"[ \t]*\([ \t]*"),
        (",", r"[ \t]*,[ \t]*"),
        (")", r"[ \t]*\)"),
        ("[", r"\[[ \t]*"),
        ("]", r"[ \t]*\]"),
        ("{", r"\{[ \t]*"),
        ("}", r"[ \t]*\}"),
        (":", r"[ \t]*:[ \t]*"),
        ("=", r"[ \t]*=[ \t]*"),
        ("float", rf"[+-]?(?:(?:{_POINT}|{_INT})[eE][+-]?{_DIGITS}|{_POINT}|(?i:inf|nan))"),
        ("int", rf"[+-]?{_INT}"),
        ("bool", r"(?i:true|false)"),
        ("null", r"(?i:null)"),
        ("sign", r"[/\-\\+.$%*@?|]"),
        ("word", r"[a-zA-Z_][a-zA-Z0-9_-]*"),
        ("escape", r"(?:\\[\\()\[\]{}:=, \t])+"),
        ("blank", r"[ \t]+"),
        ("quoted", r'"(?:(?:\\\\)*|[\s\S]*?[^\\](?:\\\\)*)"'),
        ("quoted", r"'(?:(?:\\\\)*|[\s\S]*?[^\\](?:\\\\)*)'"),
        ("interpolation", r"\$\{[^}]+\}"),
    )
)
"""In the lexer's order: the longest match wins, the first of equals."""
_KEY_KINDS = frozenset({"word", "null", "int", "float", "bool", "sign", "escape", "blank"})
_VALUE_KINDS = _KEY_KINDS | {":", "interpolation"}
_DEEPEST = 64


def _tokens(text: str, at: int) -> list[_Token]:
    tokens: list[_Token] = []
    while at < len(text):
        best = _Token("", "", at)
        for kind, pattern in _TOKENS:
            found = pattern.match(text, at)
            if found is not None and len(found[0]) > len(best.text):
                best = _Token(kind, found[0], at)
        if not best.text:
            open_quote = text[at] in "'\""
            reason = (
                "the quote is never closed"
                if open_quote
                else f"`{text[at]}` has to stand in quotes"
            )
            raise OverrideError(reason, at)
        tokens.append(best)
        at += len(best.text)
    return tokens


class _Reader:
    """Walks the tokens of one value from left to right."""

    def __init__(self, text: str, at: int) -> None:
        self.end = len(text)
        self.tokens = _tokens(text, at)
        self.place = 0

    def value(self) -> Any:
        """Return the value of the whole text; no text is the empty string."""
        if not self.tokens:
            return ""
        value = self._element(0)
        if self._kind() == ",":
            raise self._fault(
                "this would become a sweep over several runs; quote it, or write `[…]`"
            )
        if self._kind():
            raise self._fault(
                f"`{self.tokens[self.place].text.strip()}` is not expected here; quote the value"
            )
        return value

    def _kind(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.tokens[place].kind if place < len(self.tokens) else ""

    def _fault(self, reason: str) -> OverrideError:
        at = self.tokens[self.place].at if self.place < len(self.tokens) else self.end
        return OverrideError(reason, at)

    def _take(self, kind: str = "") -> _Token:
        if self.place >= len(self.tokens):
            raise self._fault("the value ends too early")
        if kind and self._kind() != kind:
            raise self._fault(f"`{kind}` is expected, not `{self.tokens[self.place].text.strip()}`")
        self.place += 1
        return self.tokens[self.place - 1]

    def _element(self, depth: int) -> Any:
        if depth > _DEEPEST:
            raise self._fault(f"the value is nested more than {_DEEPEST} deep")
        match self._kind():
            case "[":
                return list(self._items("[", "]", lambda: self._element(depth + 1)))
            case "{":
                return dict(self._items("{", "}", lambda: self._pair(depth + 1)))
            case "quoted":
                return _unquote(self._take().text)
            case "word" if self._kind(1) == "(":
                name = self.tokens[self.place].text
                sweep = name in {"choice", "range", "interval", "glob", "sort", "shuffle", "tag"}
                what = (
                    "this would become a sweep over several runs"
                    if sweep
                    else "functions are not read here"
                )
                raise self._fault(f"`{name}(…)`: {what}; write the value itself, or quote it")
        return self._words(_VALUE_KINDS)

    def _items(self, opening: str, closing: str, read: Any) -> Iterable[Any]:
        self._take(opening)
        first = True
        while self._kind() != closing:
            if not first:
                self._take(",")
            first = False
            yield read()
        self._take(closing)

    def _pair(self, depth: int) -> tuple[Any, Any]:
        key = self._words(_KEY_KINDS)
        self._take(":")
        return key, self._element(depth)

    def _words(self, allowed: frozenset[str]) -> Any:
        start = self.place
        words: list[_Token] = []
        while self._kind() in allowed:
            words.append(self._take())
        if not words:
            found = self._take().text.strip()
            self.place = start
            raise self._fault(f"a value is expected, not `{found}`; quote it")
        if words[0].kind == "blank":
            words = words[1:]
        if words and words[-1].kind == "blank":
            words = words[:-1]
        if not words:
            self.place = start
            raise self._fault("the value is blank; quote it")
        if len(words) == 1:
            return _convert(words[0])
        return "".join(word.text[1::2] if word.kind == "escape" else word.text for word in words)


def _convert(token: _Token) -> Any:
    match token.kind:
        case "int":
            return int(token.text)
        case "float":
            return float(token.text)
        case "bool":
            return token.text.lower() == "true"
        case "null":
            return None
        case "escape":
            return token.text[1::2]
    return token.text


def _unquote(text: str) -> str:
    """Drop the quotes; a backslash is an escape only before a quote or at the end."""
    halved = re.sub(rf"\\+{text[0]}", lambda found: found[0][1::2], text[1:])
    # an even number of backslashes before the closing quote has swallowed it already
    return halved if text[-2] == "\\" else halved[:-1]
