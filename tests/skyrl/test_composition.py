"""Our arguments on the real base configuration of SkyRL: what Hydra would say on the cluster, said here.

`tools/skyrl-base` unpacks skyrl-train without its dependencies, outside the environment of the tests.
MarinSkyRL is not published; the keys that it adds come from the shipped table.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf

from rlaunch import recipes
from rlaunch.skyrl import base_keys

ROOT = Path(__file__).resolve().parents[2]
BASE = "ppo_base_config"
Sent = Callable[..., tuple[str, ...]]


@pytest.fixture(scope="module")
def folder() -> str:
    """The folder of the real configuration."""
    done = subprocess.run(
        [str(ROOT / "tools" / "skyrl-base"), sys.executable],
        capture_output=True, text=True, check=False, timeout=240, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def composed(folder: str, *arguments: str) -> DictConfig:
    """Compose the base with arguments, as the trainer does."""
    with initialize_config_dir(folder, version_base=None):
        return compose(BASE, overrides=list(arguments))


@pytest.fixture(scope="module")
def keys(folder: str) -> frozenset[str]:
    """Every dotted key of the real configuration, sections included."""
    found: set[str] = set()

    def walk(node: DictConfig, path: str) -> None:
        for name in node:
            found.add(f"{path}{name}")
            inner: Any = node._get_node(name)
            if isinstance(inner, DictConfig) and not inner._is_none():
                walk(inner, f"{path}{name}.")

    walk(composed(folder), "")
    return frozenset(found)


def split(arguments: tuple[str, ...]) -> dict[str, list[Any]]:
    """Return Hydra's own reading of the arguments by prefix."""
    parsed = OverridesParser.create().parse_overrides(list(arguments))
    kinds: dict[str, list[Any]] = {"": [], "+": [], "++": []}
    for override in parsed:
        kind = "++" if override.is_force_add() else "+" if override.is_add() else ""
        kinds[kind].append(override)
    return kinds


def test_our_table_is_the_real_one(keys: frozenset[str]):
    """Each key of the shipped table exists, and no leaf of the trainer's sections is missing from it."""
    sections = ("data.", "environment.", "generator.", "trainer.")
    inside = {key.rpartition(".")[0] for key in keys}
    leafs = {key for key in keys if key.startswith(sections) and key not in inside}
    assert base_keys.base() <= keys
    open_below = tuple(f"{key}." for key in base_keys.base() if key in inside)
    assert {key for key in leafs - base_keys.base() if not key.startswith(open_below)} == set()


def test_additional_keys_have_a_source(keys: frozenset[str], shared_recipes: Path):
    """MarinSkyRL's keys are not in the base, and those of saved recipes stand in one."""
    assert not base_keys.added().keys() & keys
    assert all(base_keys.added().values())
    texts = [recipes.read(str(path)) for path in sorted(shared_recipes.glob("*.yaml"))]
    for key, source in base_keys.added().items():
        if source.startswith("saved recipes"):
            assert any(key in recipe.marks for recipe in texts), key


def test_every_plain_key_is_known(keys: frozenset[str], sent: Sent, shared_recipes: Path):
    """Without `++`, an argument needs a key that is there: in the base, or in the table of additions."""
    for path in sorted(shared_recipes.glob("*.yaml")):
        kinds = split(sent(recipes.read(str(path)), nodes=8))
        plain = {override.key_or_group for override in kinds[""]}
        assert plain <= keys | base_keys.added().keys(), path.name
        assert plain & keys
        added = {override.key_or_group for override in kinds["+"]}
        assert not added & keys, path.name  # Hydra refuses `+` for what exists


def test_the_real_base_takes_our_arguments(
    folder: str, keys: frozenset[str], sent: Sent, shared_recipes: Path
):
    """Composed by the real Hydra on the real base, every value is the one that was sent."""
    for path in sorted(shared_recipes.glob("*.yaml")):
        arguments = sent(recipes.read(str(path)), nodes=8)
        kinds = split(arguments)
        marin = {o.key_or_group for o in kinds[""]} - keys
        usable = [
            f"++{text}" if text.partition("=")[0] in marin else text
            for text in arguments
            if not text.startswith("+terminal_bench_config=")  # the group is MarinSkyRL's
        ]
        config = composed(folder, *usable)
        for override in (*kinds[""], *kinds["++"], *kinds["+"]):
            if override.key_or_group == "terminal_bench_config":
                continue
            value = OmegaConf.select(config, override.key_or_group)
            value = OmegaConf.to_container(value) if OmegaConf.is_config(value) else value
            assert value == _plain(override.value()), (path.name, override.key_or_group)


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return str(value.text) if hasattr(value, "text") else value


@pytest.mark.parametrize("key", ["trainer.max_stepz", "generator.sampling_params.temprature"])
def test_the_real_base_refuses_a_typo(key: str, folder: str):
    """What `skyrl.key-typo` and `skyrl.sampling-params` are for: on the cluster it is minutes later."""
    with pytest.raises(ConfigCompositionException):
        composed(folder, f"{key}=1")
