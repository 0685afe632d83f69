"""One short gang on the real SLURM, part of `make test` where SLURM is installed."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.gang
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("installed")
def test_one_short_gang(request: pytest.FixtureRequest) -> None:
    """A gang of two nodes ends with its driver's exit code, and each rank's node is named."""
    slurm: Any = request.getfixturevalue("slurm")
    fail = ["--skyrl_override", "++smoke.fail_at_step=1", "--skyrl_override", "++smoke.exit_code=7"]
    slurm.launch(*fail, name="gang", nodes=2, code=1)
    seen = slurm.status("gang")
    assert (seen["state"], seen["reason"], seen["exit_code"]) == ("FAILED", "driver-exit", 7)
    assert [rank["node"] for rank in seen["ranks"]] == ["n1", "n2"]
