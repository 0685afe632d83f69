"""What preflight says when it cannot ask, and of the checkpoint that a run goes on from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.slurm_jupiter.told import Said, Site

from rlaunch.cluster import PreflightQuery
from rlaunch.model import Command, Finding

NODES = "NODELIST|GRES|STATE\n" + "".join(f"n{i}|gpu:gh200:4|idle\n" for i in range(8))
SMALL = {"min_disk": "1MiB", "min_inodes": 1}
LOST = (255, "", "ssh: connect to host login port 22: No route to host\n")


def errors(here: Site, *skip: str) -> list[Finding]:
    """The errors of preflight."""
    here.say("sinfo", (0, NODES, ""))
    here.say("sbatch", (0, "", ""))
    found = here.cluster.preflight(PreflightQuery(here.plan, skip=frozenset(skip)))
    return [f for f in found if f.level == "error"]


def silence(here: Site, mark: str, answer: Said = LOST) -> None:
    """Have one question of a shell script, known by a part of it, go without an answer."""
    here.answers["sh"] = lambda argv: answer if any(mark in w for w in argv) else None


@pytest.mark.parametrize("answer", [LOST, (0, "", ""), (124, "", "")])
def test_runs_that_cannot_be_counted_are_not_none(site: Callable[..., Site], answer: Said) -> None:
    """A silent squeue is said, and the check can be skipped by the name in the hint."""
    here = site(running_runs=1, **SMALL)
    here.say("squeue", answer)
    [found] = errors(here)
    assert (found.code, found.place) == ("slurm_jupiter.not-asked", "squeue")
    assert "`--skip-preflight running-runs`" in found.hint
    assert errors(here, "running-runs") == []


@pytest.mark.parametrize("answer", [LOST, (0, "yes\n", ""), (1, "", "sh: fork: retry")])
def test_data_that_nobody_looked_for(site: Callable[..., Site], answer: Said) -> None:
    """A look for model and data that failed, or answered half, is neither staged nor not staged."""
    here = site(egress=False, **SMALL)
    here.plan = here.plan._replace(command=here.plan.command._replace(artifacts=()))
    silence(here, "ls -A", answer)
    [found] = errors(here)
    assert found.code == "slurm_jupiter.not-asked"
    assert "`--skip-preflight staged`" in found.hint
    assert errors(here, "staged") == []


@pytest.mark.parametrize("answer", [LOST, (1, "", "head: Input/output error")])
def test_an_image_that_nobody_looked_at(site: Callable[..., Site], answer: Said) -> None:
    """A look at the image that failed does not say that there is none."""
    here = site(sif="/images/x.sif", **SMALL)
    silence(here, "head -c 48", answer)
    [found] = errors(here)
    assert found.code == "slurm_jupiter.not-asked"
    assert "`--skip-preflight sif`" in found.hint
    assert answer[2].strip()[-10:] in found.message


def resuming(here: Site, path: str, *more: str) -> Site:
    """Let the plan go on from a checkpoint, as `--resume PATH` does."""
    words = ("trainer.resume_mode=from_path", f"trainer.resume_path={path}", *more)
    run = here.plan.run._replace(resume=path)
    command = Command(("python3", "x", *words), artifacts=here.plan.command.artifacts)
    here.plan = here.plan._replace(run=run, command=command)
    return here


def test_shards_that_nobody_listed(site: Callable[..., Site], tmp_path: Path) -> None:
    """A list of shards that failed is not an empty one."""
    step = tmp_path / "global_step_3"
    (step / "policy").mkdir(parents=True)
    here = resuming(
        site(**SMALL), str(step), "trainer.placement.policy_num_nodes=1",
        "trainer.placement.policy_num_gpus_per_node=4",
    )  # fmt: skip
    assert errors(here) == []
    silence(here, "ls -1")
    [found] = errors(here)
    assert (found.code, found.place) == ("slurm_jupiter.not-asked", "--resume")
    assert "`--skip-preflight world-size`" in found.hint


def test_a_checkpoint_to_go_on_from_must_be_there(
    site: Callable[..., Site], tmp_path: Path
) -> None:
    """One that is missing, a file, relative or empty is refused, with the newest one near it as the hint."""
    folder = tmp_path / "check points"
    for step in (8, 12):
        (folder / f"global_step_{step}" / "policy").mkdir(parents=True)
    (folder / "a file").touch()
    assert errors(resuming(site(**SMALL), f"{folder}/global_step_8")) == []
    assert errors(resuming(site(**SMALL), "s3://bucket/global_step_8")) == []
    near = f"the newest one there: `--resume {folder}/global_step_12`"
    for path, what, hint in (
        (f"{folder}/global_step_9", "does not exist on this machine", near),
        (f"{folder}/a file", "is no directory", near),
        (f"{folder}", "there is no checkpoint in", near),
        (
            f"{folder}/global_step_8/policy",
            "there is no checkpoint in",
            "a directory `global_step_N`",
        ),
        ("checkpoints/global_step_8", "where the driver starts", "give its absolute path"),
    ):
        [found] = errors(resuming(site(**SMALL), path))
        assert (found.code, found.place) == ("slurm_jupiter.no-checkpoint", "--resume")
        assert what in found.message
        assert hint in found.hint


def test_a_checkpoint_that_nobody_looked_for(site: Callable[..., Site]) -> None:
    """A look that failed does not say that there is none."""
    here = resuming(site(**SMALL), "/x/global_step_8")
    silence(here, "global_step_*")
    [found] = errors(here)
    assert found.code == "slurm_jupiter.not-asked"
    assert "`--skip-preflight checkpoint`" in found.hint
    assert errors(here, "checkpoint") == []


def test_a_checkpoint_that_only_the_container_sees(
    site: Callable[..., Site], tmp_path: Path
) -> None:
    """Where a bind shows another directory at that path, what lies there outside says nothing."""
    image = tmp_path / "x.sif"
    image.touch()
    bound = site(sif=str(image), binds=[f"{tmp_path}:/ckpts:ro"], **SMALL)
    assert errors(resuming(bound, "/ckpts/global_step_8")) == []
    plain = site(sif=str(image), binds=["/ckpts"], **SMALL)
    assert [f.code for f in errors(resuming(plain, "/ckpts/global_step_8"))] == [
        "slurm_jupiter.no-checkpoint"
    ]
