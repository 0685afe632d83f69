"""The state of a run on disk: `state.json`, replaced whole, and `history.jsonl`, one line a change."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from rlaunch.model import State
from rlaunch_local.proc import Process

STATE, HISTORY, STOP = "state.json", "history.jsonl", "stop.json"
SUBMITTING = "submitting"
"""The reason of a state that the submitting process wrote: there is no supervisor yet."""
MOST_PIDS = 1 << 22
"""The kernel's PID_MAX_LIMIT; a larger number is no process, and a system call would not take it."""


class Agent(NamedTuple):
    """One node agent as the supervisor sees it."""

    rank: int
    ip: str
    process: Process | None
    exit_code: int | None = None
    signal: int | None = None


class Snapshot(NamedTuple):
    """Where a run stands. While it is being submitted `supervisor` is the submitting process."""

    run: str
    state: State
    reason: str = ""
    since: str = ""
    """RFC 3339, UTC."""
    attempt: int = 0
    """0 before the first."""
    exit_code: int | None = None
    signal: int | None = None
    detail: str = ""
    supervisor: Process | None = None
    agents: tuple[Agent, ...] = ()


def now() -> str:
    """Return the time as RFC 3339 in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def write(run_dir: Path, snapshot: Snapshot) -> None:
    """Replace `state.json` and add a line to the history when state, reason or attempt changed."""
    replace(run_dir / STATE, json.dumps(to_json(snapshot), indent=1) + "\n")
    line = {
        k: v
        for k, v in to_json(snapshot).items()
        if k not in {"run", "supervisor", "agents", "schema"}
    }
    with (run_dir / HISTORY).open("a", encoding="utf-8") as history:
        history.write(json.dumps(line) + "\n")


def update(run_dir: Path, snapshot: Snapshot) -> None:
    """Replace `state.json` without a line of history: only the agents changed."""
    replace(run_dir / STATE, json.dumps(to_json(snapshot), indent=1) + "\n")


def replace(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file whole or not at all: a new file beside it, renamed over it."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    fresh.replace(path)


def read(run_dir: Path) -> Snapshot:
    """Read `state.json`. Raises FileNotFoundError, or ValueError for anything but a state."""
    return from_json((run_dir / STATE).read_text(encoding="utf-8"))


def to_json(snapshot: Snapshot) -> dict[str, Any]:
    """Return the document that is written."""
    return {
        "schema": "rlaunch.local-state/1",
        **snapshot._asdict(),
        "state": str(snapshot.state),
        "supervisor": _process(snapshot.supervisor),
        "agents": [{**a._asdict(), "process": _process(a.process)} for a in snapshot.agents],
    }


def _process(process: Process | None) -> dict[str, Any] | None:
    return None if process is None else process._asdict()


def from_json(text: str) -> Snapshot:
    """Read the document; raises ValueError for anything else."""
    try:
        data = json.loads(text)
        return Snapshot(
            run=_text(data["run"]),
            state=State(data["state"]),
            reason=_text(data["reason"]),
            since=_text(data["since"]),
            attempt=int(data["attempt"]),
            exit_code=_number(data["exit_code"]),
            signal=_number(data["signal"]),
            detail=_text(data["detail"]),
            supervisor=_read_process(data["supervisor"]),
            agents=tuple(_agent(a) for a in data["agents"]),
        )
    except (KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise ValueError(f"not a state: {error!r}") from None


def _agent(data: Mapping[str, Any]) -> Agent:
    return Agent(
        int(data["rank"]), _text(data["ip"]), _read_process(data["process"]),
        _number(data["exit_code"]), _number(data["signal"]),
    )  # fmt: skip


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"`{value!r}` is no text")
    return value


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def _read_process(data: Mapping[str, Any] | None) -> Process | None:
    if data is None:
        return None
    found = Process(int(data["pid"]), int(data["started"]), _text(data["boot"]))
    if not 0 < found.pid <= MOST_PIDS:
        raise ValueError(f"not a state: {found.pid} is the pid of no process")
    return found


def read_record(path: Path) -> dict[str, Any]:
    """Read a JSON object of the rendezvous directory; empty when it is missing or half written."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def outcome(rendezvous: Path, run: str, attempt: int) -> dict[str, Any]:
    """Return the outcome of this run: of this attempt, or a success of any; else empty."""
    done = read_record(rendezvous / "ray_head.done")
    fits = done.get("run") == run and (
        done.get("attempt") == attempt or done.get("outcome") == "succeeded"
    )
    return done if fits else {}


def records(rendezvous: Path, run: str, attempt: int, nodes: int) -> dict[int, dict[str, Any]]:
    """Return each rank's own record of an attempt; ranks without one are left out."""
    found = {}
    for rank in range(nodes):
        record = read_record(rendezvous / "ranks" / str(attempt) / f"{rank}.json")
        if record.get("run") == run and record.get("attempt") == attempt:
            found[rank] = record
    return found
