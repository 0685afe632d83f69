"""What planning reads first: an earlier checkpoint, a local model's shape."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.core.scripted import Scripted, install, make_world, transient, write_recipe

from rlaunch import flow, resumption
from rlaunch.errors import RlaunchError
from rlaunch.model import Request


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> flow.World:
    """A world whose scripted cluster keeps checkpoints in a temporary directory."""
    install(monkeypatch, tmp_path, storage_root=str(tmp_path / "store"))
    return make_world(tmp_path)


def ask(tmp_path: Path, **fields: Any) -> Request:
    """A launch of the small recipe under a name."""
    usual: dict[str, Any] = {"model_path": "toy/grpo", "train_data": '["d"]', "resume": "auto"}
    usual["settings"] = {"nodes": 1, "name": "my-run"}
    return Request(write_recipe(tmp_path), "scripted", **{**usual, **fields})


def run_once(world: flow.World, tmp_path: Path) -> Path:
    """Submit a run and return its checkpoint directory."""
    plan = flow.prepare(world, ask(tmp_path, resume="never")).plan
    assert plan is not None
    flow.submit(world, plan)
    return Path(plan.run.paths.storage, "checkpoints")


def save(folder: Path, step: int) -> Path:
    """Write a checkpoint and its marker."""
    path = folder / f"global_step_{step}"
    path.mkdir(parents=True)
    (folder / resumption.MARKER).write_text(f"{step}\n", encoding="utf-8")
    return path


def test_never_and_a_path_are_taken_as_typed(world: flow.World, tmp_path: Path):
    """Only `auto` looks for anything."""
    for text in ("never", "/some/global_step_2"):
        assert resumption.find(world, ask(tmp_path, resume=text)) == (text, ())


def test_auto_takes_the_newest_checkpoint_of_the_name(world: flow.World, tmp_path: Path):
    """The step that the marker names is resumed, and said."""
    path = save(run_once(world, tmp_path), 4)
    later = make_world(tmp_path, "89abcdef")
    prepared = flow.prepare(later, ask(tmp_path))
    assert prepared.plan is not None
    assert prepared.plan.run.resume == str(path)
    assert "trainer.resume_mode=from_path" in prepared.plan.command.argv
    assert ("note", "core.resumes") in [(f.level, f.code) for f in prepared.findings]


def test_a_marker_without_its_checkpoint_is_none(world: flow.World, tmp_path: Path):
    """A half-written checkpoint is not resumed; starting at step 0 is said."""
    folder = run_once(world, tmp_path)
    save(folder, 4).rmdir()
    resume, findings = resumption.find(make_world(tmp_path), ask(tmp_path))
    assert resume == "never"
    assert [f.code for f in findings] == ["core.nothing-to-resume"]


def test_auto_without_a_name_says_so(world: flow.World, tmp_path: Path):
    """A run without a name of its own has nothing to go on from."""
    resume, findings = resumption.find(world, ask(tmp_path, settings={"nodes": 1}))
    assert (resume, [f.code for f in findings]) == ("never", ["core.nothing-to-resume"])
    assert "--job-name" in findings[0].hint


def test_an_object_store_is_not_guessed_about(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Checkpoints that cannot be seen from here are an error, not step 0."""
    install(monkeypatch, tmp_path, storage_root="s3://bucket/x")
    world = make_world(tmp_path)
    run_once(world, tmp_path)
    resume, findings = resumption.find(world, ask(tmp_path))
    assert (resume, [f.code for f in findings]) == ("never", ["core.resume-unseen"])


def test_the_disks_behind_a_login_node_are_not_guessed_about(
    world: flow.World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What lies on this machine at the other machine's path is not the earlier run's checkpoint."""
    prepared = flow.prepare(world, ask(tmp_path, resume="never"))
    assert prepared.plan is not None
    run = prepared.plan.run
    far = prepared.plan._replace(run=run._replace(profile={**run.profile, "host": "me@login"}))
    flow.submit(world, far, chosen=prepared.chosen)
    save(Path(run.paths.storage, "checkpoints"), 4)
    resume, findings = resumption.find(make_world(tmp_path), ask(tmp_path))
    assert (resume, [f.code for f in findings]) == ("never", ["core.resume-unseen"])
    assert "`me@login`" in findings[0].message


def test_a_run_that_was_never_sent_left_no_checkpoint(world: flow.World, tmp_path: Path):
    """A failed submit between two runs hides nothing."""
    path = save(run_once(world, tmp_path), 4)
    world.open_runs().ended("my-run-0123abcd", "FAILED", 1, world.clock.now())
    later = make_world(tmp_path, "89abcdef")
    prepared = flow.prepare(later, ask(tmp_path, resume="never"))
    plan, chosen = prepared.plan, prepared.chosen
    assert plan is not None
    run = plan.run
    Scripted.fails = [transient("down")]
    far = run._replace(profile={**run.profile, "host": "me@login"})
    with pytest.raises(RlaunchError, match="down"):
        flow.submit(later, plan._replace(run=far), chosen=chosen, if_exists="new")
    resume, _ = resumption.find(make_world(tmp_path), ask(tmp_path))
    assert resume == str(path)


def test_a_local_model_tells_its_shape(world: flow.World, tmp_path: Path):
    """Heads and experts come from a `config.json` that lies on this machine."""
    model = tmp_path / "model"
    model.mkdir()
    config = {"num_attention_heads": 42, "num_key_value_heads": 2, "num_experts": 128}
    (model / "config.json").write_text(json.dumps(config), encoding="utf-8")
    prepared = flow.prepare(world, ask(tmp_path, model_path=str(model), resume="never"))
    assert prepared.plan is not None
    facts = prepared.plan.run.provenance["model_facts"]
    assert facts.value["heads"] == 42
    assert str(model) in facts.reason


@pytest.mark.parametrize("text", ["{", "[]", "\x00"])
def test_a_broken_config_adds_nothing(world: flow.World, tmp_path: Path, text: str):
    """A `config.json` that cannot be used is no fact."""
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(text, encoding="utf-8")
    prepared = flow.prepare(world, ask(tmp_path, model_path=str(model), resume="never"))
    assert prepared.plan is not None
    assert "model_facts" not in prepared.plan.run.provenance
