"""Shipped profiles that were validated beforehand are the same profiles."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.core.scripted import make_world

from rlaunch import choose, discovery, settled
from rlaunch.profiles import Profile

ROOT = Path(__file__).resolve().parents[2]


def facts_of(world: Any, **typed: Any) -> tuple[object, dict[str, Any]]:
    """Choose `local` with settings; returns the profile object and its facts."""
    layered = choose.choose(world, "local", typed=typed).layered
    return layered.profile, layered.profile.facts()


def test_the_files_are_current():
    """`tools/settle.py --check` finds nothing to write."""
    done = subprocess.run(
        [sys.executable, "tools/settle.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_both_ways_give_the_same_facts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """A profile read beforehand and one validated now differ in nothing, settings included."""
    world, typed = make_world(tmp_path), {"cpu": "3", "max_retries": 1}
    fast, facts = facts_of(world, **typed)
    monkeypatch.delattr(discovery.load("local"), "FACTS")
    slow, same = facts_of(world, **typed)
    assert isinstance(fast, settled.Settled)
    assert isinstance(slow, Profile)
    assert facts == same
    assert fast.model_fields_set - set(typed) == slow.model_fields_set - set(typed)


@pytest.mark.parametrize("typed", [{"env.A": "1"}, {"grace_s": 5}, {"inherit": ["PATH"]}])
def test_other_settings_are_validated_by_the_model(tmp_path: Path, typed: dict[str, Any]):
    """What no reader judges goes through pydantic."""
    assert isinstance(facts_of(make_world(tmp_path), **typed)[0], Profile)


def test_a_profile_of_ones_own_is_validated(tmp_path: Path):
    """A file by path is never taken as settled, even with a shipped name."""
    data = yaml.safe_load(
        Path(discovery.load("local").PROFILES["local"]).read_text(encoding="utf-8")
    )
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump({**data, "gpus_per_node": 4}), encoding="utf-8")
    layered = choose.choose(make_world(tmp_path), str(path)).layered
    assert isinstance(layered.profile, Profile)
    assert layered.profile.gpus_per_node == 4


def test_a_recorded_profile_is_taken_as_it_was(tmp_path: Path):
    """A run's profile was validated at launch; one with other fields is validated again."""
    world = make_world(tmp_path)
    facts = {**facts_of(world)[1], "gpus_per_node": 2}
    again = choose.reopen(world, "local", facts).layered.profile
    assert isinstance(again, settled.Settled)
    assert again.gpus_per_node == 2
    del facts["settle_s"]
    assert isinstance(choose.reopen(world, "local", facts).layered.profile, Profile)


def test_a_missing_field_is_an_attribute_error():
    """An unknown field is a bug and says so."""
    with pytest.raises(AttributeError, match="nothing"):
        _ = settled.Settled({"a": 1}, ["a"]).nothing
