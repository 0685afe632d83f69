"""Where the runs of this machine stand, asked from any process.

The state file is the supervisor's word, and the supervisor's life is its proof: one that is gone without
having written an end means FAILED `supervisor-lost`. An idle run costs its watcher, per node and 5 s, no
more than one look at a file: while a run is RUNNING its end is seen by the supervisor's pidfd.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from rlaunch.model import JobRef, Rank, State, Status
from rlaunch_local import proc, statefile
from rlaunch_local.clearing import lost, native, tidy
from rlaunch_local.statefile import Snapshot

STATE_S = 6.0
"""Between two looks at the state file of a run that is RUNNING and whose supervisor lives."""
RANKS_S = 30.0
"""Between two looks at the ranks' records of such a run; they are written once a minute."""


class Watched:
    """One run as one process watches it: what was read, and when."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.snapshot: Snapshot | None = None
        self.read_at = self.ranks_at = 0.0
        self.records: Mapping[int, Mapping[str, Any]] = {}
        self.rendezvous: Path | None = None
        self.pulse: Pulse | None = None

    def status(self, ref: JobRef, now: float, at: str) -> Status:
        """Return the run's status; `now` in monotonic seconds, `at` the time as RFC 3339."""
        try:
            snapshot = self._look(now)
        except FileNotFoundError:
            if not self.run_dir.is_dir():
                return Status(ref, State.ABSENT)
            return Status(ref, State.UNKNOWN, f"`{self.run_dir}` has no `{statefile.STATE}`")
        except (OSError, ValueError) as error:
            return Status(
                ref, State.UNKNOWN, f"`{self.run_dir / statefile.STATE}` is unreadable: {error}"
            )
        return Status(
            job=ref,
            state=snapshot.state,
            reason=snapshot.reason,
            since=snapshot.since,
            attempt=snapshot.attempt or None,
            exit_code=snapshot.exit_code,
            signal=snapshot.signal,
            ranks=tuple(self._rank(a, at) for a in snapshot.agents),
            native={
                "run_dir": str(self.run_dir),
                "detail": snapshot.detail,
                "supervisor": snapshot.supervisor.pid if snapshot.supervisor else None,
            },
        )

    def _look(self, now: float) -> Snapshot:
        known = self.snapshot
        if known is not None and known.state.ended:
            return known
        idle = known is not None and known.state is State.RUNNING and self._pulse(known)
        if known is None or not idle or now - self.read_at >= STATE_S:
            fresh = statefile.read(self.run_dir)
            if not fresh.state.ended and not self._pulse(fresh):
                fresh = self._without_supervisor()
            self._read_ranks(
                fresh, now, changed=known is None or fresh[:7] != known[:7] or not idle
            )
            self.snapshot, self.read_at = fresh, now
        if self.snapshot is not None and self.snapshot.state.ended and self.pulse:
            self.pulse.close()
        return self.snapshot or fresh

    def _without_supervisor(self) -> Snapshot:
        last = statefile.read(self.run_dir)  # it may have written the end and gone
        end = lost(self.run_dir, last)
        return tidy(self.run_dir, end) if end is not last else last

    def _pulse(self, snapshot: Snapshot) -> bool:
        """Tell whether the supervisor lives, without a look at any file where that is possible."""
        if self.pulse is None or self.pulse.process != snapshot.supervisor:
            if self.pulse:
                self.pulse.close()
            self.pulse = Pulse(snapshot.supervisor)
        return self.pulse.beats()

    def _read_ranks(self, snapshot: Snapshot, now: float, *, changed: bool) -> None:
        due = changed or now - self.ranks_at >= RANKS_S or len(self.records) < len(snapshot.agents)
        if not (snapshot.agents and due):
            return
        if self.rendezvous is None:
            self.rendezvous = Path(
                native(self.run_dir).get("rendezvous") or self.run_dir / "rendezvous"
            )
        nodes, attempt = len(snapshot.agents), snapshot.attempt
        self.records = statefile.records(self.rendezvous, snapshot.run, attempt, nodes)
        self.ranks_at = now

    def _rank(self, agent: statefile.Agent, at: str) -> Rank:
        record = self.records.get(agent.rank, {})
        ended = agent.exit_code is not None or agent.signal is not None
        return Rank(
            rank=agent.rank,
            node=agent.ip,
            phase="ended" if ended else str(record.get("phase") or ""),
            heartbeat_age_s=None if ended else _age(record.get("at"), at),
            exit_code=agent.exit_code,
            signal=agent.signal,
        )


class Pulse:
    """The life of one process, by a pidfd: no look at a file, and zombies do not count."""

    def __init__(self, process: proc.Process | None) -> None:
        self.process, self.handle = process, -1
        if process is not None:
            with contextlib.suppress(OSError):  # gone, or no descriptor left: then /proc is asked
                self.handle = os.pidfd_open(process.pid)
        if not proc.alive(process):
            self.close()

    def beats(self) -> bool:
        """Tell whether the process lives."""
        return proc.alive(self.process) if self.handle < 0 else not self.wait(0)

    def wait(self, seconds: float) -> bool:
        """Wait for the end; True when the process has ended."""
        if self.handle < 0:
            return not proc.alive(self.process)
        poll = select.poll()
        poll.register(self.handle, select.POLLIN)
        return bool(poll.poll(max(0.0, seconds) * 1000))

    def close(self) -> None:
        """Give the descriptor back."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1


def _age(written: object, at: str) -> float | None:
    """Return how old a heartbeat is, in seconds; 0 for one from a clock that is ahead."""
    try:
        age = datetime.fromisoformat(at) - datetime.fromisoformat(str(written))
    except (ValueError, TypeError):
        return None
    return max(0.0, round(age.total_seconds(), 1))
