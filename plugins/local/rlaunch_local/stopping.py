"""How a run is stopped, from any process."""

from __future__ import annotations

import json
import signal
import time
from contextlib import suppress
from pathlib import Path

from rlaunch.errors import ClusterError
from rlaunch.model import State
from rlaunch_local import proc, statefile
from rlaunch_local.clearing import clear, find_supervisor, lost, native
from rlaunch_local.statefile import SUBMITTING, Snapshot
from rlaunch_local.status import Pulse

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
    end = lost(run_dir, snapshot)
    was_lost = end.state.ended and not (run_dir / statefile.STOP).exists()
    with suppress(OSError):  # a full disk keeps nobody from stopping
        statefile.replace(run_dir / statefile.STOP, json.dumps({"at": statefile.now()}) + "\n")
    if not was_lost:
        snapshot = _await_supervisor(run_dir, run, snapshot)
        _end_supervisor(snapshot, float(plan.get("grace_s") or 4))
    snapshot = _read(run_dir, run)
    if not snapshot.state.ended:
        clear(run_dir, run, plan)
        stopped = snapshot._replace(state=State.KILLED, reason="stopped")
        _note(run_dir, end if was_lost else stopped)
    if left := proc.scan(run):
        raise ClusterError.of(
            "local.not-stopped", f"{len(left)} processes of `{run}` are still there: {sorted(left)}",
            hint="`rlaunch stop` again; a process in state D waits for a file system",
        )  # fmt: skip


def _read(run_dir: Path, run: str) -> Snapshot:
    try:
        return statefile.read(run_dir)
    except (OSError, ValueError):  # garbage: what runs under this id is ended all the same
        return Snapshot(run, State.UNKNOWN, supervisor=find_supervisor(run_dir))


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
    while snapshot.reason == SUBMITTING and time.monotonic() < deadline:
        time.sleep(0.05)
        snapshot = _read(run_dir, run)
    return snapshot


def _end_supervisor(snapshot: Snapshot, grace: float) -> None:
    if snapshot.reason == SUBMITTING or snapshot.state.ended:
        return
    pulse = Pulse(snapshot.supervisor)
    proc.signal_process(snapshot.supervisor, signal.SIGTERM)
    if not pulse.wait(grace + 0.8):
        proc.signal_process(snapshot.supervisor, signal.SIGKILL)
        pulse.wait(1.0)
    pulse.close()
