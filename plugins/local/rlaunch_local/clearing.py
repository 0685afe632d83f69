"""What a supervisor that was killed leaves behind, and how it is cleared away."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlaunch.model import State
from rlaunch_local import proc, statefile
from rlaunch_local.statefile import SUBMITTING, Snapshot

LOST, NOT_STARTED = "supervisor-lost", "not-started"
SECRETS = "secrets.json"


def native(run_dir: Path) -> dict[str, Any]:
    """Return the native part of the run's plan; empty where it cannot be read."""
    found = statefile.read_record(run_dir / "plan.json").get("native")
    return found if isinstance(found, dict) else {}


def find_supervisor(run_dir: Path) -> proc.Process | None:
    """Find a run's live supervisor by its command line, whatever the state file says."""
    argv = native(run_dir).get("supervisor") or ["-m", "rlaunch_local.supervisor", str(run_dir)]
    return proc.find(argv[1:])


def lost(run_dir: Path, snapshot: Snapshot) -> Snapshot:
    """Return what a state is worth once its writer is gone: an end stays, anything else has failed."""
    if snapshot.state.ended or proc.alive(snapshot.supervisor):
        return snapshot
    if snapshot.reason != SUBMITTING:
        detail = f"the supervisor was gone while the run was {snapshot.state}"
        return snapshot._replace(state=State.FAILED, reason=LOST, detail=detail)
    if find_supervisor(run_dir):  # it is about to write its first word
        return snapshot
    detail = "the submitting process was gone before there was a supervisor"
    return snapshot._replace(state=State.FAILED, reason=NOT_STARTED, detail=detail)


def tidy(run_dir: Path, end: Snapshot) -> Snapshot:
    """Remove what a lost run must not leave, and note its end; returns the end as it was noted.

    The secrets go at once. Agents that have lost their supervisor need up to 10 s to leave: while one is
    there, Ray's directory stays, and the end is noted by whoever looks next.
    """
    with suppress(OSError):
        (run_dir / SECRETS).unlink(missing_ok=True)
        if not proc.scan(end.run):
            _remove_temp(end.run, native(run_dir))
            end = end._replace(since=statefile.now())
            statefile.write(run_dir, end)
    return end


def clear(run_dir: Path, run: str, plan: Mapping[str, Any]) -> None:
    """Do what a supervisor that is gone can no longer do."""
    proc.sweep(run)
    (run_dir / SECRETS).unlink(missing_ok=True)
    _remove_temp(run, plan)


def _remove_temp(run: str, plan: Mapping[str, Any]) -> None:
    base = Path(str(plan.get("ray_temp") or ""))
    if base.name == f"rl-{run.rpartition('-')[2]}":  # a garbled plan removes nothing else
        shutil.rmtree(base, ignore_errors=True)


def clear_lost(runs: Path) -> list[str]:
    """Clear what runs below `runs` left whose supervisor was killed; returns their ids.

    For those that nobody has asked about since. Runs that still have a process keep all but their
    secrets.
    """
    cleared = []
    for path in runs.glob(f"*/{statefile.STATE}"):
        run_dir = path.parent.resolve()
        try:
            snapshot = statefile.read(run_dir)
        except (OSError, ValueError):
            continue
        end = lost(run_dir, snapshot)
        if end.state.ended and not snapshot.state.ended and tidy(run_dir, end) != end:
            cleared.append(snapshot.run)
    for path in runs.glob(".*"):  # a submit that was killed before the directory had its name
        pid = path.name.rpartition(".")[2]
        if pid.isdecimal() and len(pid) < 9 and proc.identify(int(pid)) is None:
            shutil.rmtree(path, ignore_errors=True)
    return cleared
