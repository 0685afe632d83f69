"""Checkpoints: `<ckpt_path>/global_step_N/`, and a marker that says which one is whole."""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from .places import Place

MARKER = "latest_ckpt_global_step.txt"


class CheckpointError(Exception):
    """A checkpoint that is named but cannot be used; the message has its path."""


class Checkpoint(NamedTuple):
    """What training goes on from."""

    step: int
    """Steps that are done."""
    weights: dict[str, npt.NDArray[Any]]
    state: dict[str, Any]
    """Everything else that is not a weight: the order of the data, the rewards so far."""


def save(root: Place, checkpoint: Checkpoint) -> Place:
    """Write a checkpoint and then the marker; return its directory. Nothing older is removed.

    A writer that dies in the middle leaves a directory that no marker names.
    """
    place = root / f"global_step_{checkpoint.step}"
    packed = io.BytesIO()
    np.savez(packed, **checkpoint.weights)  # type: ignore[arg-type]  # the stub's last keyword is a flag
    (place / "policy/weights.npz").write(packed.getvalue())
    state = {"global_step": checkpoint.step, **checkpoint.state}
    (place / "trainer_state.json").write(json.dumps(state, indent=1).encode())
    (root / MARKER).write(f"{checkpoint.step}".encode())
    return place


def latest(root: Place) -> Checkpoint | None:
    """Return the checkpoint that the marker names, None where there is no marker.

    Raises `CheckpointError` where the marker names one that is not there: starting over in silence
    would lose the run.
    """
    try:
        text = (root / MARKER).read().decode("utf-8", "replace").strip()
    except FileNotFoundError:
        return None
    if not text.isdigit():
        raise CheckpointError(f"`{root / MARKER}` says `{text}`, which is no step")
    return load(root / f"global_step_{text}")


def load(place: Place) -> Checkpoint:
    """Read one checkpoint directory; raises `CheckpointError` where it is missing or damaged."""
    try:
        content = io.BytesIO((place / "policy/weights.npz").read())
        with np.load(content, allow_pickle=False) as packed:
            weights = {name: packed[name] for name in packed.files}
        state = json.loads((place / "trainer_state.json").read())
        return Checkpoint(int(state.pop("global_step")), weights, state)
    except (OSError, ValueError, KeyError, AttributeError, EOFError, BadZipFile) as error:
        raise CheckpointError(f"checkpoint `{place}` cannot be read: {error}") from None
