"""What a run left on the shared file system: attempts and how they ended, outcome, ranks. Pure reading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from rlaunch.model import Rank


class Traces(NamedTuple):
    """What was found of one run."""

    attempt: int | None = None
    """The last that began."""
    ending: tuple[str, str, int | None] | None = None
    """Of that attempt: `succeeded`, `failed` or `cut`; the reason; the code."""
    outcome: Mapping[str, Any] = {}
    """`ray_head.done`, of that attempt or a success of any."""
    ranks: tuple[Rank, ...] = ()


def read_object(text: str | None) -> dict[str, Any]:
    """Read a JSON object; anything else is empty."""
    try:
        data = json.loads(text or "")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def read_ending(text: str) -> tuple[str, str, int | None] | None:
    """Read `attempts/N/end`: `failed driver-exit 7`."""
    words = text.split()
    if len(words) != 3 or words[0] not in ("succeeded", "failed", "cut"):
        return None
    return words[0], words[1], int(words[2]) if words[2].isdecimal() else None


def read_outcome(text: str | None, run: str, attempt: int | None) -> dict[str, Any]:
    """Return the outcome that binds this run: of this attempt, or a success of any; else empty."""
    done = read_object(text)
    fits = done.get("run") == run and (
        done.get("attempt") == attempt or done.get("outcome") == "succeeded"
    )
    return done if fits else {}


def read_last(text: str) -> tuple[int | None, tuple[str, str, int | None] | None]:
    """Read `last`: the attempt, and how it ended where it has."""
    first = text.strip().partition("\n")[
        0
    ]  # written over a longer line on a full disk: its end is left
    number, _, ending = first.partition(" ")
    return (int(number) if number.isdecimal() else None), read_ending(ending)


def read_ranks(
    texts: Mapping[int, str], run: str, nodes: tuple[str, ...], now: str
) -> tuple[Rank, ...]:
    """Return each rank's own record of an attempt; ranks without one have only a node."""
    found = []
    for rank in range(max(len(nodes), max(texts, default=-1) + 1)):
        body = read_object(texts.get(rank))
        if body.get("run") != run:
            body = {}
        node = nodes[rank] if rank < len(nodes) else str(body.get("node") or "")
        found.append(
            Rank(
                rank, node, str(body.get("phase") or ""), _seconds(str(body.get("at") or ""), now),
                _number(body.get("exit_code")), _number(body.get("signal")),
            )
        )  # fmt: skip
    return tuple(found)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _seconds(earlier: str, later: str) -> float | None:
    """Return the seconds between two RFC 3339 times; None where one cannot be read."""
    try:
        passed = datetime.fromisoformat(later) - datetime.fromisoformat(earlier)
    except (ValueError, TypeError):
        return None
    return max(0.0, round(passed.total_seconds(), 3))
