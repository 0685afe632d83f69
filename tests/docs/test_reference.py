"""The reference cannot disagree with the code: it is made from it, and everything public is in it."""

from __future__ import annotations

import importlib.util
import inspect
import json
from pathlib import Path
from types import ModuleType

import pytest

from rlaunch import explain, hooks
from rlaunch.cli.table import COMMANDS
from rlaunch.cluster import Cluster
from rlaunch.endings import REASONS
from rlaunch.settings import SETTINGS

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
HOOKS = sorted(name for name in vars(hooks) if name.startswith("rlaunch_"))


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    """The script that makes the reference."""
    spec = importlib.util.spec_from_file_location("reference_tool", ROOT / "tools" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def page(name: str) -> str:
    """Read one page."""
    return (REFERENCE / name).read_text(encoding="utf-8")


def test_pages_are_current(tool: ModuleType) -> None:
    """Every generated page, and the dry run in the README, is what the code gives now."""
    stale = [
        str(path.relative_to(ROOT))
        for path, text in tool.pages().items()
        if not path.is_file() or path.read_text(encoding="utf-8") != text
    ]
    assert not stale, "run `make reference`"


@pytest.mark.parametrize("name", HOOKS)
def test_hook_is_documented(name: str) -> None:
    """Each hook stands in the reference with its exact signature."""
    signature = str(inspect.signature(getattr(hooks, name))).replace("'", "")
    assert f"def {name}{signature}" in page("hooks.md")


@pytest.mark.parametrize("name", sorted(Cluster.__abstractmethods__))
def test_cluster_method_is_documented(name: str) -> None:
    """Each method of a cluster stands in the reference with its exact signature."""
    signature = str(inspect.signature(getattr(Cluster, name))).replace("'", "")
    assert f"def {name}{signature}" in page("cluster.md")


def test_codes_are_documented(tool: ModuleType) -> None:
    """Each code of the core and of our plugins has its page in the reference."""
    text = page("codes.md")
    known = explain.codes(tool.plugins())
    assert [name for name in known if f"### `{name}`" not in text] == []


def test_reasons_are_documented() -> None:
    """Each reason that a state is given has its page in the reference."""
    text = page("reasons.md")
    assert [name for name in REASONS if f"### `{name}`\n" not in text] == []


def test_settings_are_documented() -> None:
    """Each launch setting stands in the reference."""
    text = page("settings.md")
    assert [name for name in SETTINGS if f"| `{name}` |" not in text] == []


def test_commands_are_documented() -> None:
    """Each command stands in the reference."""
    text = page("commands.md")
    assert [name for name in COMMANDS if f"## rlaunch {name}\n" not in text] == []


def test_schemas_are_documented() -> None:
    """Each JSON schema stands in the reference with all of its keys."""
    text = page("documents.md")
    for path in (ROOT / "docs" / "schemas").glob("*.json"):
        keys = json.loads(path.read_text(encoding="utf-8"))["properties"]
        section = text.partition(f"\n## {path.stem}\n")[2].partition("\n## ")[0]
        assert [key for key in keys if f"| `{key}` |" not in section] == [], path.name
