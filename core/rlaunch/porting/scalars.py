"""Values as they are written into a recipe: plain where YAML reads them back so, else quoted. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlaunch.skyrl.emit import escaped


def scalar(value: Any) -> str:
    """Return one value as YAML 1.1 reads it back."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _number(value)
    if isinstance(value, Mapping | list):
        return flow(value)
    text = str(value)
    return text if _plain(text) else '"' + "".join(escaped(letter) for letter in text) + '"'


def flow(value: Any) -> str:
    """Return a list or mapping on one line."""
    if isinstance(value, list):
        return f"[{', '.join(flow(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(key)}: {flow(item)}" for key, item in value.items()) + "}"
    return scalar(value)


def _number(value: float) -> str:
    text = repr(value).replace("inf", ".inf").replace("nan", ".nan")
    if "e" in text and "." not in text:
        text = text.replace("e", ".0e")  # `1e-06` is text in YAML 1.1
    return text


def _plain(text: str) -> bool:
    """Tell whether text may stand without quotes, in lists and braces too."""
    if (
        not text.isascii()
        or not text.isprintable()
        or text != text.strip()
        or set(text) & set("#,[]{}'\"\\!&*%@`|>?")
    ):
        return False
    import yaml

    try:
        return bool(yaml.safe_load(f"[{text}]") == [text]) and bool(
            yaml.safe_load(f"k: {text}") == {"k": text}
        )
    except yaml.YAMLError:
        return False
