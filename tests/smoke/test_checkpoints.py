"""Checkpoints: whole or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rlaunch.smoke.checkpoints import MARKER, Checkpoint, CheckpointError, latest, load, save
from rlaunch.smoke.places import Place


def _checkpoint(step: int) -> Checkpoint:
    return Checkpoint(step, {"theta": np.arange(6.0).reshape(2, 3)}, {"rewards": [0.25]})


def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    """Step, weights and state come back; the marker names the newest, nothing is pruned."""
    save(Place(str(tmp_path)), _checkpoint(5))
    place = save(Place(str(tmp_path)), _checkpoint(10))
    assert str(place) == f"{tmp_path}/global_step_10"
    found = latest(Place(str(tmp_path)))
    assert found is not None
    assert found.step == 10
    assert (found.weights["theta"] == np.arange(6.0).reshape(2, 3)).all()
    assert found.state == {"rewards": [0.25]}
    assert load(Place(str(tmp_path)) / "global_step_5").step == 5
    assert (tmp_path / MARKER).read_text() == "10"


def test_no_marker_is_a_fresh_start(tmp_path: Path) -> None:
    """A directory that no marker names is the leaving of a writer that died: not resumed from."""
    place = save(Place(str(tmp_path)), _checkpoint(5))
    (tmp_path / MARKER).unlink()
    assert Path(str(place)).is_dir()
    assert latest(Place(str(tmp_path))) is None


def test_a_marker_without_its_checkpoint_is_an_error(tmp_path: Path) -> None:
    """A run whose checkpoint was taken away does not start over in silence."""
    (tmp_path / MARKER).write_text("7")
    with pytest.raises(CheckpointError, match="global_step_7"):
        latest(Place(str(tmp_path)))
    (tmp_path / MARKER).write_text("seven")
    with pytest.raises(CheckpointError, match="`seven`"):
        latest(Place(str(tmp_path)))


@pytest.mark.parametrize("damage", ["policy/weights.npz", "trainer_state.json"])
def test_a_damaged_checkpoint_is_named(tmp_path: Path, damage: str) -> None:
    """Half a file is an error with its path, not a traceback of the reader."""
    place = save(Place(str(tmp_path)), _checkpoint(5))
    (place / damage).write((place / damage).read()[:20])
    with pytest.raises(CheckpointError, match="global_step_5"):
        load(place)
