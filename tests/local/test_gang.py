"""Real gangs: agents, Ray, the toy trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rlaunch.model import State


@pytest.mark.gang
@pytest.mark.timeout(180)
def test_two_nodes_train_and_leave_nothing(lab: Any) -> None:
    """Two agents make one Ray, the toy trains on it and the run SUCCEEDS; nothing stays but its files."""
    run = lab.run(env={"GREETING": "a b, $HOME \u00e4"})
    ref = lab.submit(lab.gang(run))
    seen = lab.until(ref, lambda s: s.state is State.RUNNING, within=120)
    assert [r.rank for r in seen.ranks] == [0, 1]
    end = lab.until(ref, lambda s: s.state is State.SUCCEEDED, within=120)
    assert (end.state, end.exit_code, end.attempt) == (State.SUCCEEDED, 0, 1)
    assert [r.exit_code for r in end.ranks] == [0, 0]
    run_dir = Path(run.paths.run_dir)
    marker = (run_dir / "checkpoints" / "latest_ckpt_global_step.txt").read_text()
    assert marker.strip() == "2"
    assert json.loads((run_dir / "env.json").read_text()) == dict(run.env)
