"""Files and values that are nested far beyond any sense: each is refused, and none ends in a traceback.

Reader after reader (YAML, JSON, TOML, Hydra's grammar) has a depth of its own at which it gives up, so
several are tried.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Rl = Callable[..., Any]
Launch = tuple[str, ...]
DEPTHS = (64, 400, 950, 3_000, 100_000)

pytestmark = pytest.mark.parametrize("depth", DEPTHS)


def deep(depth: int) -> str:
    """A list in a list in a list …, which YAML, JSON, TOML and Hydra write alike."""
    return "[" * depth + "]" * depth


def refused(said: Any, place: str, *codes: str) -> None:
    """Require exit code 3, one of the codes, the place and a hint; and no text without an end."""
    assert said.code == 3, said.err[-400:]
    assert re.search(rf"error\[({'|'.join(map(re.escape, codes))})\]: ", said.err), said.err[:400]
    assert f"  at {place}" in said.err
    assert "  hint: " in said.err
    assert "Traceback" not in said.err
    assert len(said.err) < 4_000


@pytest.mark.parametrize("text", ["{}", "entrypoint: rlaunch.smoke\ntrainer: {}\n"])
@pytest.mark.parametrize("closed", [True, False])
def test_recipes(rl: Rl, tmp_path: Path, text: str, closed: bool, depth: int):
    """A recipe is refused by `check`, `port` and a launch, closed or broken off in the middle."""
    path = tmp_path / "deep.yaml"
    path.write_text(text.format(deep(depth) if closed else "[" * depth), encoding="utf-8")
    codes = ("recipe.not-yaml", "recipe.too-large", "recipe.not-mapping")
    refused(rl("check", str(path)), str(path), *codes)
    refused(rl("port", str(path), "--from", "iris", "--to", "local"), str(path), *codes)
    launch = ("--cluster", "local", "--rl_config", str(path), "--workspace", str(tmp_path))
    refused(rl(*launch, "--dry-run"), str(path), *codes)


@pytest.mark.parametrize("text", ["{}", '{{"schema": "rlaunch.plan/1", "run": {}}}'])
def test_plans(rl: Rl, tmp_path: Path, text: str, depth: int):
    """A plan file is refused before anything of it is looked at."""
    path = tmp_path / "plan.json"
    path.write_text(text.format(deep(depth)), encoding="utf-8")
    refused(rl("submit", str(path)), str(path), "plan.not-json", "plan.schema", "plan.edited")


@pytest.mark.parametrize("text", ["{}", "name: mine\nplugin: local\ngpus_per_node: {}\n"])
def test_profiles(rl: Rl, tmp_path: Path, launch: Launch, text: str, depth: int):
    """A profile of one's own is refused."""
    path = tmp_path / "mine.yaml"
    path.write_text(text.format(deep(depth)), encoding="utf-8")
    said = rl("--cluster", str(path), *launch[2:], "--dry-run")
    codes = ("profile.unreadable", "profile.incomplete", "core.setting-invalid", "profile.invalid")
    refused(said, "", *codes)


@pytest.mark.parametrize("key", ["[clusters.local]\ncpu", "[env]\nA", "[clusters]\nlocal"])
def test_the_users_configuration(rl: Rl, home: Path, launch: Launch, key: str, depth: int):
    """`rlaunch.toml` is refused as a whole, or the setting in it."""
    path = home / ".config/rlaunch/rlaunch.toml"
    path.parent.mkdir(parents=True)
    path.write_text(f"{key} = {deep(depth)}\n", encoding="utf-8")
    said = rl("--cluster", "local", *launch[2:], "--dry-run")
    refused(said, "", "core.config", "core.setting-invalid", "env.not-scalar")


@pytest.mark.parametrize("flag", ["--train_data", "--val_data"])
def test_data_lists(rl: Rl, launch: Launch, flag: str, depth: int):
    """A data list is refused with the flag."""
    said = rl("--cluster", "local", *launch[2:], flag, deep(depth), "--dry-run")
    refused(said, flag, "core.data-list")


def test_overrides(rl: Rl, launch: Launch, depth: int):
    """An override is refused from the depth on at which no trainer would read it."""
    word = f"++trainer.x={deep(depth)}"
    said = rl("--cluster", "local", *launch[2:], "--skyrl_override", word, "--dry-run")
    if depth == DEPTHS[0]:
        assert said.code == 0, said.err
    else:
        refused(said, "--skyrl_override", "recipe.override")


def test_settings(rl: Rl, launch: Launch, depth: int):
    """A typed setting is refused, by the reader of settings or as wrong usage."""
    for name in ("cpu", "env.A", "inherit"):
        said = rl("--cluster", "local", *launch[2:], "--set", f"{name}={deep(depth)}", "--dry-run")
        assert said.code in (3, 64)
        assert (
            f"--set {name}" in said.err or f"the value of `{name}` is nested too deep" in said.err
        )
        assert "Traceback" not in said.err


def test_a_models_configuration(rl: Rl, tmp_path: Path, launch: Launch, depth: int):
    """A model's `config.json` that cannot be read adds nothing, and harms nothing."""
    (tmp_path / "config.json").write_text(deep(depth), encoding="utf-8")
    said = rl("--cluster", "local", *launch[2:], "--model_path", str(tmp_path), "--dry-run")
    assert said.code == 0, said.err
