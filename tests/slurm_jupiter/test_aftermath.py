"""What SLURM runs after a task: a killed agent gets a last word, and leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlaunch.node.records import Fence, decode, find_outcome, read_rank
from rlaunch_slurm_jupiter.aftermath import write_aftermath

After = Callable[[int], None]
RUN = "rl-0a1b2c3d"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a run directory whose name needs quoting, in its second attempt."""
    root = tmp_path / 'it\'s a "dir"'
    (root / "attempts" / "2").mkdir(parents=True)
    (root / "rendezvous" / "ranks" / "2").mkdir(parents=True)
    script = root / "after-task.sh"
    script.write_text(write_aftermath(RUN, f"{root}/rendezvous", f"{root}/tmp/rl"))
    script.chmod(0o700)
    (root / "attempts" / "2" / "after-task").symlink_to("../../after-task.sh")
    return root


@pytest.fixture
def after(root: Path) -> After:
    """Run it as SLURM does for a rank."""

    def run(rank: int) -> None:
        env = {"PATH": "/usr/bin:/bin", "SLURM_PROCID": str(rank), "SLURMD_NODENAME": "n7"}
        words = [root / "attempts" / "2" / "after-task"]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")

    return run


def rank_of(root: Path, rank: int) -> dict[str, Any]:
    """Return a rank's record of the attempt."""
    return decode((root / f"rendezvous/ranks/2/{rank}.json").read_bytes())


def write(path: Path, **fields: Any) -> None:
    """Write a record as an agent does."""
    path.write_text(json.dumps({"run": RUN, **fields}, separators=(",", ":")) + "\n")


def test_a_rank_that_never_spoke(root: Path, after: After) -> None:
    """A rank without a record gets one that rank 0's agent reads as a lost worker, and no outcome is made."""
    after(1)
    record = read_rank(rank_of(root, 1))
    assert record is not None
    assert (record.rank, record.phase, record.reason) == (1, "ended", "worker-lost")
    assert record.node == "n7"
    assert not (root / "rendezvous" / "ray_head.done").exists()


def test_a_rank_0_that_never_began(root: Path, after: After) -> None:
    """An image or a Python that does not start is no lost node: the step failed, as the detail says."""
    after(0)
    outcome = find_outcome(Fence(RUN, 2), decode((root / "rendezvous/ray_head.done").read_bytes()))
    assert outcome is not None
    assert (outcome.reason, rank_of(root, 0)["phase"]) == ("step-failed", "ended")
    assert "does not start" in outcome.detail


def test_a_rank_0_that_was_killed(root: Path, after: After) -> None:
    """Rank 0's death becomes the attempt's outcome, in place of an earlier attempt's failure."""
    write(root / "rendezvous/ranks/2/0.json", attempt=2, rank=0, phase="running", reason="")
    write(root / "rendezvous/ray_head.done", attempt=1, outcome="failed", reason="driver-exit")
    after(0)
    outcome = find_outcome(Fence(RUN, 2), decode((root / "rendezvous/ray_head.done").read_bytes()))
    assert outcome is not None
    assert (outcome.reason, outcome.code, rank_of(root, 0)["phase"]) == ("head-lost", 67, "ended")


@pytest.mark.parametrize(
    "done",
    [
        {"attempt": 1, "outcome": "succeeded"},
        {"attempt": 2, "outcome": "failed"},
        {"attempt": 3, "outcome": "failed"},
    ],
)
def test_an_outcome_that_stands(root: Path, after: After, done: dict[str, Any]) -> None:
    """A success, this attempt's own outcome and a later attempt's are left as they are."""
    write(root / "rendezvous/ray_head.done", **done)
    before = (root / "rendezvous/ray_head.done").read_bytes()
    after(0)
    assert (root / "rendezvous/ray_head.done").read_bytes() == before


def test_an_agent_that_ended_by_itself(root: Path, after: After) -> None:
    """A record that says `ended` is its agent's last word and stays."""
    write(root / "rendezvous/ranks/2/1.json", attempt=2, rank=1, phase="ended", reason="ray-failed")
    before = rank_of(root, 1)
    after(1)
    assert rank_of(root, 1) == before


def test_an_agent_that_was_killed_while_it_ended(root: Path, after: After) -> None:
    """The reason that an agent was ending for is kept; only the phase becomes `ended`."""
    write(
        root / "rendezvous/ranks/2/1.json", attempt=2, rank=1, phase="stopping", reason="ray-failed",
        detail='a "quoted" word',
    )  # fmt: skip
    before = rank_of(root, 1)
    after(1)
    assert rank_of(root, 1) == {**before, "phase": "ended"}


def test_rays_directory_goes(root: Path, after: After) -> None:
    """The rank's own directory of Ray's session is removed, its neighbour's is not."""
    for rank in (1, 10):
        (root / "tmp" / f"rl-2-{rank}" / "session").mkdir(parents=True)
    after(1)
    assert [p.name for p in (root / "tmp").iterdir()] == ["rl-2-10"]
