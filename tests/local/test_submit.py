"""Submit: what is written, with which modes, and what is refused; with stand-in agents."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, State
from rlaunch_local import places


def test_a_run_that_lies_elsewhere_is_found_by_its_id(lab: Any, tmp_path: Path) -> None:
    """A run whose directory was moved by a setting is found by its id alone."""
    run = lab.run()
    run = run._replace(
        paths=run.paths._replace(
            run_dir=str(tmp_path / "else where"), rendezvous=str(tmp_path / "meet")
        )
    )
    ref = lab.submit(lab.agents(run, [lab.WIN]))
    assert lab.end(ref).native["run_dir"] == str(places.indexed(run.id))
    assert places.indexed(run.id).readlink() == tmp_path / "else where"


def test_a_plan_is_submitted_once(lab: Any) -> None:
    """A second submit of the same run is refused and leaves the first alone."""
    plan = lab.agents(lab.run(), [lab.STAY])
    ref = lab.submit(plan)
    with pytest.raises(ClusterError, match=r"local.run-exists"):
        lab.submit(plan)
    lab.until(ref, lambda s: s.state is State.RUNNING)
    lab.cluster().stop(ref)


def test_planned_ports_that_another_run_has(lab: Any) -> None:
    """Of two runs planned on the same ports the second is refused, and says so as its end."""
    one = lab.agents(lab.run("one"), [lab.STAY])
    two = lab.agents(lab.run("two", secrets=("HF_TOKEN",)), [lab.STAY])
    ranks = [{**two.native["ranks"][0], "guard": one.native["ranks"][0]["guard"]}]
    ref = lab.submit(one)
    with pytest.raises(ClusterError, match=r"local.port-busy"):
        lab.submit(two._replace(native={**two.native, "ranks": ranks}), {"HF_TOKEN": "hush"})
    end = lab.status(JobRef("local", two.run.id))
    assert (end.state, end.reason) == (State.FAILED, "not-started")
    assert not Path(two.run.paths.run_dir, "secrets.json").exists()
    lab.cluster().stop(ref)


@pytest.mark.parametrize(
    "argv", [["/no/such/python"], [sys.executable, "-c", "raise SystemExit('no')"]]
)
def test_a_supervisor_that_does_not_start(lab: Any, argv: list[str]) -> None:
    """A supervisor that does not start is an error with its last words; no secret stays."""
    run = lab.run(secrets=("HF_TOKEN",))
    plan = lab.agents(run, [lab.STAY])
    with pytest.raises(ClusterError, match=r"local.no-supervisor"):
        lab.submit(plan._replace(native={**plan.native, "supervisor": argv}), {"HF_TOKEN": "hush"})
    end = lab.status(JobRef("local", run.id))
    assert (end.state, end.reason) == (State.FAILED, "not-started")
    assert not Path(run.paths.run_dir, "secrets.json").exists()


@pytest.mark.parametrize("path", ["../out.txt", "/etc/out.txt", "a/../../out.txt"])
def test_files_stay_in_the_run_directory(lab: Any, path: str) -> None:
    """A plan whose file leads out of the run directory is refused."""
    plan = lab.agents(lab.run(), [lab.STAY])
    bad = plan.files[0]._replace(path=path)
    with pytest.raises(ClusterError, match=r"local.not-written"):
        lab.submit(plan._replace(files=(bad,)))


def test_modes_are_the_plans(lab: Any) -> None:
    """The run directory is 0700 and every file has the plan's mode, whatever the umask."""
    run = lab.run()
    plan = lab.agents(run, [lab.WIN])
    extra = plan.files[0]._replace(path="deep/er/run.sh", mode=0o755, content="#!/bin/sh\n")
    before = os.umask(0o077)
    try:
        ref = lab.submit(plan._replace(files=(*plan.files, extra)))
    finally:
        os.umask(before)
    lab.end(ref)
    run_dir = Path(run.paths.run_dir)
    modes = {
        n: oct((run_dir / n).stat().st_mode & 0o777)
        for n in ("", "env.json", "deep/er/run.sh", "plan.json")
    }
    assert modes == {
        "": "0o700",
        "env.json": "0o600",
        "deep/er/run.sh": "0o755",
        "plan.json": "0o600",
    }


def test_a_changed_archive_is_refused(lab: Any) -> None:
    """An archive that is not the one of the plan is an error before anything is written."""
    plan = lab.with_archives(lab.agents(lab.run(), [lab.STAY]))
    other = plan.artifacts[0]._replace(sha256="0" * 64)
    with pytest.raises(ClusterError, match=r"local.artifact-changed"):
        lab.submit(plan._replace(artifacts=(other,)))
    assert not Path(plan.run.paths.run_dir).exists()
