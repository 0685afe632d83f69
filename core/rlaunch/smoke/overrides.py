"""Hydra's override grammar, as much of it as a launcher sends, without Hydra.

Source of the grammar: `hydra/grammar/OverrideLexer.g4` and `OverrideParser.g4` of hydra-core 1.3.2.
What is accepted here has the value that Hydra gives it (a property test compares the two). Sweeps
(`a=1,2`) and functions (`a=choice(1,2)`) are refused: a run is one run.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

_INT = r"(?:0|[1-9](?:_?[0-9])*)"
_DIGITS = r"[0-9](?:_?[0-9])*"
_POINT = rf"(?:{_INT}?\.{_DIGITS}|{_INT}\.)"
_FLOAT = rf"[+-]?(?:(?:{_POINT}|{_INT})[eE][+-]?{_DIGITS}|{_POINT}|[Ii][Nn][Ff]|[Nn][Aa][Nn])"
_ID = r"[a-zA-Z_][a-zA-Z0-9_-]*"
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
        ("float", _FLOAT),
        ("int", rf"[+-]?{_INT}"),
        ("bool", r"[Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee]"),
        ("null", r"[Nn][Uu][Ll][Ll]"),
        ("char", r"[/\-\\+.$%*@?|]"),
        ("id", _ID),
        ("escape", r"(?:\\[\\()\[\]{}:=, \t])+"),
        ("space", r"[ \t]+"),
        ("quoted", r'"(?:(?:\\\\)*|[\s\S]*?[^\\](?:\\\\)*)"'),
        ("quoted", r"'(?:(?:\\\\)*|[\s\S]*?[^\\](?:\\\\)*)'"),
        ("interpolation", r"\$\{[^}]+\}"),
    )
)
"""In the lexer's order: the longest match wins, the first of equals."""

_KEY_PART = r"(?:[a-zA-Z_$][a-zA-Z0-9_$-]*|0|[1-9](?:_?[0-9])*)"
_DOTTED = rf"(?:[a-zA-Z_$][a-zA-Z0-9_$-]*|{_KEY_PART}(?:\.{_KEY_PART})+)"
_HEAD = re.compile(
    rf"(?P<mark>~|\+\+?)?(?P<key>{_DOTTED}|{_ID}(?:/{_ID})+)(?:@(?P<package>{_DOTTED}))?"
    r"(?:(?P<equal>=)[ \t]*|$)"
)
_WORDS = frozenset({"id", "null", "int", "float", "bool", "char", "escape", "space"})
_ESCAPED_QUOTE = {quote: re.compile(rf"\\+{quote}") for quote in "'\""}
_DEEPEST = 64


class OverrideError(ValueError):
    """An argument that the grammar does not know, or that would start a sweep."""


class Override(NamedTuple):
    """One argument: `key=value`, with `+`, `++` or `~` before it as `mark`."""

    mark: str
    key: str
    package: str | None
    value: Any
    """None, bool, int, float, str, lists and dicts of these; None also for a bare `~key`."""


class _Token(NamedTuple):
    kind: str
    text: str


def parse(argument: str) -> Override:
    """Read one argument; raises `OverrideError` that names the argument and what is wrong."""
    head = _HEAD.match(argument)
    if head is None or not (head["equal"] or head["mark"] == "~"):
        raise OverrideError(f"`{argument}` is not `key=value`")
    try:
        value = _Reader(argument[head.end() :]).value() if head["equal"] else None
    except OverrideError as error:
        raise OverrideError(f"`{argument}`: {error}") from None
    return Override(head["mark"] or "", head["key"], head["package"], value)


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    place = 0
    while place < len(text):
        best = _Token("", "")
        for kind, pattern in _TOKENS:
            found = pattern.match(text, place)
            if found is not None and len(found[0]) > len(best.text):
                best = _Token(kind, found[0])
        if not best.text:
            raise OverrideError(f"`{text[place]}` needs quotes around the value")
        tokens.append(best)
        place += len(best.text)
    return tokens


class _Reader:
    """Walks the tokens of one value from left to right."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._place = 0

    def value(self) -> Any:
        """Return the value of the whole text; nothing at all is the empty string."""
        if not self._tokens:
            return ""
        value = self._element(0)
        if self._kind() == ",":
            raise OverrideError("would become a sweep over several runs: quote it, or put it in []")
        if self._kind():
            raise OverrideError(f"does not expect `{self._tokens[self._place].text}`: quote it")
        return value

    def _kind(self, ahead: int = 0) -> str:
        place = self._place + ahead
        return self._tokens[place].kind if place < len(self._tokens) else ""

    def _take(self) -> _Token:
        if self._place >= len(self._tokens):
            raise OverrideError("ends too early")
        self._place += 1
        return self._tokens[self._place - 1]

    def _expect(self, kind: str) -> None:
        token = self._take()
        if token.kind != kind:
            raise OverrideError(f"expects `{kind}` and not `{token.text}`: quote it")

    def _element(self, depth: int) -> Any:
        kind = self._kind()
        if depth > _DEEPEST:
            raise OverrideError(f"is nested more than {_DEEPEST} deep")
        if kind == "[":
            return self._list(depth)
        if kind == "{":
            return self._dict(depth)
        if kind == "id" and self._kind(1) == "(":
            raise OverrideError("is a function or a sweep of Hydra: quote it")
        if kind == "quoted":
            return _unquote(self._take().text)
        return self._words(_WORDS | {":", "interpolation"})

    def _list(self, depth: int) -> list[Any]:
        self._expect("[")
        items: list[Any] = []
        while self._kind() != "]":
            if items:
                self._expect(",")
            items.append(self._element(depth + 1))
        self._expect("]")
        return items

    def _dict(self, depth: int) -> dict[Any, Any]:
        self._expect("{")
        pairs: dict[Any, Any] = {}
        first = True
        while self._kind() != "}":
            if not first:
                self._expect(",")
            first = False
            key = self._words(_WORDS)
            self._expect(":")
            pairs[key] = self._element(depth + 1)
        self._expect("}")
        return pairs

    def _words(self, allowed: frozenset[str]) -> Any:
        words: list[_Token] = []
        while self._kind() in allowed:
            words.append(self._take())
        if not words:
            found = self._take().text
            raise OverrideError(f"expects a value and not `{found}`: quote it")
        if words[0].kind == "space":
            words = words[1:]
        if words and words[-1].kind == "space":
            words = words[:-1]
        if not words:
            raise OverrideError("has a value of blanks only: quote it")
        if len(words) == 1:
            return _convert(words[0])
        return "".join(w.text[1::2] if w.kind == "escape" else w.text for w in words)


def _convert(token: _Token) -> Any:
    if token.kind == "int":
        return int(token.text)
    if token.kind == "float":
        return float(token.text)
    if token.kind == "bool":
        return token.text.lower() == "true"
    if token.kind == "null":
        return None
    return token.text[1::2] if token.kind == "escape" else token.text


def _unquote(text: str) -> str:
    """Drop the quotes; a backslash is an escape only before a quote or at the end of the string."""
    halved = _ESCAPED_QUOTE[text[0]].sub(lambda found: found[0][1::2], text[1:])
    # an even number of backslashes before the closing quote has swallowed it already
    return halved if text[-2] == "\\" else halved[:-1]
