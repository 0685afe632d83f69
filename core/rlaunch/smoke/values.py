"""The values that fit no argument: `--config-dir=DIR +rlaunch=values` names `DIR/rlaunch/values.yaml`.

The launcher writes it in one shape of YAML: a line `"key": VALUE` per section, values in flow style,
every text in double quotes. Just that shape is read here, for the job's Python may have no YAML library.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .overrides import OverrideError

FOLDER = "--config-dir="
CHOICE = "+rlaunch=values"
_FILE = "rlaunch/values.yaml"
_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_PLAIN = re.compile(r"[^\s,:\[\]{}\"]+")
_BLANK = re.compile(r"(?:[ \n]|#[^\n]*\n)*")
_ESCAPE = re.compile(r'\\(?:(["\\])|x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))')
_WORDS = {
    "null": None, "true": True, "false": False,
    ".inf": float("inf"), "-.inf": float("-inf"), ".nan": float("nan"),
}  # fmt: skip


def load(arguments: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """Return the arguments without the two that name a file, and the values in it.

    Raises `OverrideError` for one without the other, and for a file that cannot be read.
    """
    folders = [word[len(FOLDER) :] for word in arguments if word.startswith(FOLDER)]
    rest = [word for word in arguments if word != CHOICE and not word.startswith(FOLDER)]
    chosen = CHOICE in arguments
    if not folders and not chosen:
        return rest, {}
    if not folders or not chosen:
        raise OverrideError(f"`{FOLDER}DIR` and `{CHOICE}` come together")
    path = Path(folders[-1], _FILE)
    try:
        return rest, parse(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise OverrideError(f"`{path}` cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise OverrideError(f"`{path}`: {error}") from None


def parse(text: str) -> dict[str, Any]:
    """Return the mapping of a values file; raises ValueError for any other shape."""
    reader = _Reader(text)
    found: dict[str, Any] = {}
    while not reader.ended():
        key = reader.value()
        reader.expect(":")
        found[str(key)] = reader.value()
    return found


class _Reader:
    """Walks the text from left to right."""

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0

    def ended(self) -> bool:
        self._skip()
        return self._place >= len(self._text)

    def value(self) -> Any:
        self._skip()
        first = self._text[self._place : self._place + 1]
        if first == '"':
            return _unescape(self._take(_TEXT)[1:-1])
        if first == "[":
            return [self.value() for _ in self._items("]")]
        if first == "{":
            return dict(self._pair() for _ in self._items("}"))
        return _plain(self._take(_PLAIN))

    def expect(self, letter: str) -> None:
        self._skip()
        if not self._text.startswith(letter, self._place):
            raise ValueError(f"expects `{letter}` at character {self._place}")
        self._place += 1

    def _pair(self) -> tuple[Any, Any]:
        key = self.value()
        self.expect(":")
        return key, self.value()

    def _items(self, end: str) -> Any:
        """Yield once before each item of a list or mapping, and pass its closing bracket."""
        self._place += 1
        self._skip()
        more = not self._text.startswith(end, self._place)
        while more:
            yield
            self._skip()
            more = self._text.startswith(",", self._place)
            self._place += more
        self.expect(end)

    def _skip(self) -> None:
        found = _BLANK.match(self._text, self._place)
        self._place = found.end() if found else self._place

    def _take(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self._text, self._place)
        if found is None:
            raise ValueError(f"expects a value at character {self._place}")
        self._place = found.end()
        return found[0]


def _unescape(text: str) -> str:
    return _ESCAPE.sub(lambda m: m[1] or chr(int(m[2] or m[3] or m[4], 16)), text)


def _plain(word: str) -> Any:
    if word in _WORDS:
        return _WORDS[word]
    try:
        return int(word)
    except ValueError:
        return float(word)
