"""The reference page says all that the agent can be told and can say."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlaunch.node import reasons
from rlaunch.node.flags import PORT_NAMES, Flags
from rlaunch.node.reasons import EXIT_CODES, Outcome
from rlaunch.node.records import Head, RankRecord

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "node-agent.md").read_text()


@pytest.mark.parametrize("name", [name for name in Flags._fields if name != "driver"])
def test_every_flag_is_described(name: str) -> None:
    """Each flag has its place in the table, and each default that is a number stands there."""
    assert f"`--{name.replace('_', '-')}`" in PAGE


@pytest.mark.parametrize(
    "name", sorted({*PORT_NAMES, *Head._fields, *RankRecord._fields, *Outcome._fields})
)
def test_every_port_and_field_is_named(name: str) -> None:
    """Nobody has to read the source to read a record or pin a port."""
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize(
    "reason", [v for k, v in vars(reasons).items() if k.isupper() and isinstance(v, str)]
)
def test_every_reason_is_described_with_its_code(reason: str) -> None:
    """A named reason has a row, with the exit code that the agent really uses."""
    assert f"`{reason}`" in PAGE
    if reason in EXIT_CODES:
        row = next(line for line in PAGE.splitlines() if line.startswith(f"| `{reason}`"))
        assert f"| {EXIT_CODES[reason]}" in row
