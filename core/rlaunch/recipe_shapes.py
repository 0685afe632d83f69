"""The documents of `rlaunch check` and `rlaunch port`; `schemas.py` makes their JSON schemas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from rlaunch.model import Finding


class CheckedRecipe(NamedTuple):
    """One recipe of `check --json`."""

    path: str
    """As it was named."""
    ok: bool
    """False where an error is among the findings."""
    nodes: int | None
    """Nodes that it comes to; null where that could not be told."""
    gpus_per_node: int | None
    """GPUs of each node; null where that could not be told."""
    findings: tuple[Finding, ...]
    """What was found in it."""


class CheckDocument(NamedTuple):
    """`check --json`."""

    schema: Literal["rlaunch.check/1"]
    cluster: str | None
    """Null: judged by what holds on every cluster."""
    ok: bool
    """False where any recipe has an error."""
    errors: int
    """How many, over all recipes."""
    warnings: int
    """How many, over all recipes."""
    notes: int
    """How many, over all recipes."""
    recipes: tuple[CheckedRecipe, ...]
    """In the order in which they were named."""
    findings: tuple[Finding, ...]
    """Of the installation: plugins that do not load."""


class PortedKey(NamedTuple):
    """One row of the table of changes."""

    key: str
    """Dotted, as the old recipe has it."""
    action: Literal["set", "add", "remove", "move", "keep"]
    """`keep`: the other cluster's usual value was proposed, and not accepted."""
    to: str
    """The new key of a move; else empty."""
    before: Any
    """What it was; null where it is new."""
    after: Any
    """What it is now; of `keep`, what was proposed."""
    kind: Literal["mechanical", "tuning", "science", "unclassified"]
    """What a change of this key may do to the experiment."""
    reason: str
    """Why it changes."""


class PortDocument(NamedTuple):
    """`port --json`."""

    schema: Literal["rlaunch.port/1"]
    recipe: str
    """The old recipe's path."""
    source: str
    """The cluster that it was written for."""
    target: str
    """The cluster that it is written for now."""
    ok: bool
    """False where the port was refused, or the new recipe does not pass `check` on the target."""
    output: str | None
    """The file that was written."""
    text: str | None
    """The new recipe; null where the port was refused."""
    changes: tuple[PortedKey, ...]
    """Every change, in the order of the recipe."""
    findings: tuple[Finding, ...]
    """What was found on the way."""


DOCUMENTS: Mapping[str, type[Any]] = {"check": CheckDocument, "port": PortDocument}
"""Name of the schema file -> shape."""
