"""The how-to of Iris can be followed: what it names is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.core.scripted import make_world

from rlaunch import explain, skipping
from rlaunch.choose import choose
from rlaunch.codes import Code
from rlaunch_iris import troubles
from rlaunch_iris.profile import IrisProfile

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/iris.md").read_text(encoding="utf-8")


def table(head: str) -> dict[str, str]:
    """Return the rows of the table whose first column has this head."""
    rows = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0].splitlines()[2:]
    return dict(row.strip("| ").split(" | ", 1) for row in rows)


def test_checks_that_can_be_skipped(tmp_path: Path) -> None:
    """The table has the names of all checks, and each of them is taken."""
    cell = table("you want")["to skip a check of preflight"]
    names = re.findall(r"`([a-z-]+)`", cell)
    chosen = choose(make_world(tmp_path), "iris")
    assert names == [skipping.SECRETS, *chosen.cluster.checks]
    assert list(skipping.unknown(names, chosen)) == []


def test_what_is_typed(capfd: pytest.CaptureFixture[str]) -> None:
    """Every flag of the table is one of the launch, and every `--set` a field of the profile."""
    from rlaunch.cli import main

    assert main(["--help"]) == 0
    known = set(re.findall(r"--[a-z_-]+", capfd.readouterr().out))
    typed = " ".join(table("you want").values())
    flags = set(re.findall(r"--[a-z-]+", typed))
    assert {"--cluster-config", "--skip-preflight", "--skyrl-ref", "--set"} <= flags <= known
    settings = re.findall(r"--set (\w+)=", PAGE)
    assert settings
    assert set(settings) <= IrisProfile.model_fields.keys()


def test_codes_that_are_met(tmp_path: Path) -> None:
    """Every code that the page names has a page of its own."""
    known: dict[str, Code] = dict(
        explain.codes(choose(make_world(tmp_path), "iris").plugins.modules)
    )
    named = re.findall(r"`((?:iris|core)\.[a-z-]+)`", PAGE)
    assert len(named) > 5
    assert [name for name in named if name not in known] == []


def test_how_the_client_is_installed() -> None:
    """The hint is the page's command, a target of the Makefile that installs the plugin's extra from here."""
    (command,) = re.findall("`(make [a-z-]+)`", troubles.INSTALL)
    assert f"`{command}`" in PAGE
    target = (ROOT / "Makefile").read_text().partition(f"\n{command[5:]}:")[2].partition("\n\n")[0]
    assert "./plugins/iris[client]" in target
    assert (
        troubles.INSTALL
        in troubles.client_missing(ModuleNotFoundError(name="iris")).findings[0].hint
    )
    for text in (PAGE, *(path.read_text() for path in (ROOT / "plugins/iris").rglob("*.py"))):
        assert not re.search(r"(?<!uv )pip install", text)
