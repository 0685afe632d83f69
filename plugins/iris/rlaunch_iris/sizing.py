"""Memory and disk of one node: what was asked for, or `auto` from what was seen free. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rlaunch.model import Run
from rlaunch.settings import size_in_bytes

GIB = 1024**3


class Size(NamedTuple):
    """Bytes of one resource, and how they came about."""

    amount: int
    why: str


def decide(run: Run, resource: str, facts: Mapping[str, Any]) -> Size:
    """Return what a node asks for of `memory` or `disk`.

    `auto` is the profile's share of the smallest allocatable among the nodes of the right shape, bounded
    by what the last of the N emptiest nodes has free; without an observation the profile's node stands in.
    """
    written = run.memory if resource == "memory" else run.disk
    if written and written != "auto":
        return Size(size_in_bytes(written), "as asked")
    profile = run.profile
    share = float(profile[f"{resource}_share"])
    seen = facts.get("nodes") or {}
    smallest, free = seen.get(f"smallest_{resource}"), seen.get(f"free_{resource}")
    base = int(smallest or size_in_bytes(profile[f"node_{resource}"]))
    source = "smallest allocatable seen" if smallest else "profile's node"
    amount, why = int(base * share), f"{share:.0%} of the {source} ({show(base)})"
    if free and int(free) < amount:
        amount, why = int(free), f"free on the last of the {run.nodes} emptiest nodes"
    return Size(max(GIB, amount // GIB * GIB), why)


def show(amount: int) -> str:
    """Return bytes as people read them."""
    return f"{amount / 1024**4:.1f} TiB" if amount >= 10 * 1024**4 else f"{amount / GIB:.0f} GiB"
