"""Submit: what is written, with which modes, and what is refused; with stand-in agents."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from rlaunch.errors import ClusterError, UnclearSubmitError
from rlaunch.model import JobRef, State
from rlaunch_local import places, proc, submit
from rlaunch_local.clearing import find_supervisor
from rlaunch_local.statefile import SUBMITTING, Snapshot
from rlaunch_local.submit import _make


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


def test_a_supervisor_that_is_slow(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is there and silent may go on: nobody says that nothing was sent, and it keeps its files."""
    monkeypatch.setattr(submit, "READY_S", 1.0)
    run = lab.run(secrets=("HF_TOKEN",))
    plan = lab.agents(run, [lab.STAY])
    slow = [sys.executable, "-c", "import os, time; os.fork() and os._exit(0); time.sleep(60)"]
    try:
        with pytest.raises(UnclearSubmitError, match=r"local.submit-unknown"):
            lab.submit(plan._replace(native={**plan.native, "supervisor": slow}), {"HF_TOKEN": "x"})
        assert lab.status(JobRef("local", run.id)).state is State.PENDING
        assert Path(run.paths.run_dir, "secrets.json").exists()
    finally:
        found = find_supervisor(Path(run.paths.run_dir))
        assert found
        os.kill(found.pid, signal.SIGKILL)


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


@pytest.mark.parametrize("existing", [False, True])
def test_a_directory_is_never_without_a_state(lab: Any, existing: bool) -> None:
    """The run directory appears with its state in it, mode 0700, and nothing stays beside it."""
    run = lab.run()
    run_dir = Path(run.paths.run_dir)
    if existing:
        run_dir.mkdir(parents=True)
    start = Snapshot(run.id, State.PENDING, SUBMITTING, supervisor=proc.identify(os.getpid()))
    _make(run_dir, start)
    assert run_dir.stat().st_mode & 0o777 == 0o700
    assert lab.status(JobRef("local", run.id)).state is State.PENDING
    assert [p.name for p in run_dir.parent.iterdir()] == [run.id]
    with pytest.raises(ClusterError, match=r"local.run-exists"):
        _make(run_dir, start)
    assert [p.name for p in run_dir.parent.iterdir()] == [run.id]


@pytest.mark.parametrize("where", ["_make", "_write_files", "_start"])
def test_a_submit_that_is_killed(lab: Any, where: str) -> None:
    """A launcher that is killed before there is a supervisor leaves a run that has not started."""
    run = lab.run(secrets=("HF_TOKEN",))
    plan = lab.agents(run, [lab.STAY])
    if (child := os.fork()) == 0:
        kill = lambda *words: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731  # one line in a fork
        make = submit._make
        after = {"_make": lambda *words: (make(*words), kill())}
        setattr(submit, where, after.get(where, kill))
        lab.submit(plan, {"HF_TOKEN": "hush"})
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    ref = JobRef("local", run.id)
    assert lab.status(ref)[1:3] == (State.FAILED, "not-started")
    assert not Path(run.paths.run_dir, "secrets.json").exists()
    lab.cluster().stop(ref)


def test_leavings_of_a_killed_submit_go(lab: Any) -> None:
    """A directory that never got its name goes with the next submit; that of a live submit stays."""
    local = lab.root / "local"
    gone, live = local / ".x-00000000.4194300", local / f".y-00000000.{os.getppid()}"
    for path in (gone, live):
        path.mkdir(parents=True)
    assert lab.end(lab.submit(lab.agents(lab.run(), [lab.WIN]))).state is State.SUCCEEDED
    assert (gone.exists(), live.exists()) == (False, True)
