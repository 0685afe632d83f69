"""How a run is stopped, from any process; and what is cleared after a supervisor that was killed."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlaunch.errors import ClusterError
from rlaunch.model import State
from rlaunch_local import proc, statefile
from rlaunch_local.statefile import Snapshot
from rlaunch_local.status import LOST, Pulse, lost, native

HANDOVER_S = 15.0
"""A run that is being submitted gets its supervisor within this time."""


def stop_run(run_dir: Path, run: str) -> None:
    """Stop one run: nothing of it is left when this returns. No error when it has ended.

    Takes the profile's grace and one second at most. Raises ClusterError `local.not-stopped` when the
    kernel does not let processes go, `local.not-written` when the end could not be noted.
    """
    snapshot = _read(run_dir, run)
    if snapshot.state.ended:
        return
    plan = native(run_dir)
    was_lost = lost(snapshot).reason == LOST and not (run_dir / statefile.STOP).exists()
    with suppress(OSError):  # a full disk keeps nobody from stopping
        statefile.replace(run_dir / statefile.STOP, json.dumps({"at": statefile.now()}) + "\n")
    if not was_lost:
        snapshot = _await_supervisor(run_dir, run, snapshot)
        _end_supervisor(snapshot, float(plan.get("grace_s") or 4))
    snapshot = _read(run_dir, run)
    if not snapshot.state.ended:
        clear(run_dir, run, plan)
        stopped = snapshot._replace(state=State.KILLED, reason="stopped")
        _note(run_dir, lost(snapshot) if was_lost else stopped)
    if left := proc.scan(run):
        raise ClusterError.of(
            "local.not-stopped", f"{len(left)} processes of `{run}` are still there: {sorted(left)}",
            hint="`rlaunch stop` again; a process in state D waits for a file system",
        )  # fmt: skip


def _read(run_dir: Path, run: str) -> Snapshot:
    try:
        return statefile.read(run_dir)
    except (OSError, ValueError):  # garbage: what runs under this id is ended all the same
        argv = native(run_dir).get("supervisor") or ["-m", "rlaunch_local.supervisor", str(run_dir)]
        return Snapshot(run, State.UNKNOWN, supervisor=proc.find(argv[1:]))


def _note(run_dir: Path, end: Snapshot) -> None:
    try:
        statefile.write(run_dir, end._replace(since=statefile.now()))
    except OSError as error:
        raise ClusterError.of(
            "local.not-written", f"the run has ended, and that cannot be noted: {error.strerror}",
            place=str(run_dir / statefile.STATE), hint="free some room, and `rlaunch stop` again",
        ) from None  # fmt: skip


def _await_supervisor(run_dir: Path, run: str, snapshot: Snapshot) -> Snapshot:
    """Wait while the submitting process stands in for the supervisor: it is not ours to signal."""
    deadline = time.monotonic() + HANDOVER_S
    while snapshot.reason == "submitting" and time.monotonic() < deadline:
        time.sleep(0.05)
        snapshot = _read(run_dir, run)
    return snapshot


def _end_supervisor(snapshot: Snapshot, grace: float) -> None:
    if snapshot.reason == "submitting" or snapshot.state.ended:
        return
    pulse = Pulse(snapshot.supervisor)
    proc.signal_process(snapshot.supervisor, signal.SIGTERM)
    if not pulse.wait(grace + 0.8):
        proc.signal_process(snapshot.supervisor, signal.SIGKILL)
        pulse.wait(1.0)
    pulse.close()


def clear(run_dir: Path, run: str, plan: Mapping[str, Any]) -> None:
    """Do what a supervisor that is gone can no longer do."""
    proc.sweep(run)
    (run_dir / "secrets.json").unlink(missing_ok=True)
    if base := plan.get("ray_temp"):
        shutil.rmtree(str(base), ignore_errors=True)


def clear_lost(runs: Path) -> list[str]:
    """Clear what runs below `runs` left whose supervisor was killed; returns their ids.

    Their agents end by themselves, but a secrets file and Ray's session directory would stay until
    somebody says `stop`. Runs that still have a process are left alone.
    """
    cleared = []
    for path in runs.glob(f"*/{statefile.STATE}"):
        run_dir = path.parent.resolve()
        snapshot = _read(run_dir, path.parent.name)
        end = lost(snapshot)
        if snapshot.state is State.UNKNOWN or end.reason != LOST or snapshot.state.ended:
            continue
        if not proc.scan(snapshot.run):
            clear(run_dir, snapshot.run, native(run_dir))
            statefile.write(run_dir, end._replace(since=statefile.now()))
            cleared.append(snapshot.run)
    return cleared
