"""Every code that rlaunch can say, each with its page (`rlaunch explain CODE`).

A module that says codes lists them in `CODES`; a rule is a function whose docstring is its page, and
carries its code in the attribute `code`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from rlaunch.model import Level

F = TypeVar("F", bound=Callable[..., Any])


class Code(NamedTuple):
    """One code: its level, its page, and whether `--allow CODE` lets it pass."""

    code: str
    """`owner.slug`, never reused for another meaning."""
    page: str
    """What, why (with evidence) and how to mend it; the first line is the summary."""
    level: Level = "error"
    waivable: bool = False


def rule(code: str, *, level: Level = "error", waivable: bool = False) -> Callable[[F], F]:
    """Mark a function as the rule behind `code`; its docstring becomes the page."""

    def mark(function: F) -> F:
        page = inspect.cleandoc(function.__doc__ or "")
        if not page:
            raise TypeError(f"rule `{code}` has no docstring: it is its page")
        function.code = Code(code, page, level, waivable)  # type: ignore[attr-defined]  # functions take attributes
        return function

    return mark
