"""The command `queue`, as pairs: what is asked, and how the answer is read. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rlaunch import ClusterError, State
from rlaunch.shell import Done

STATES = {
    "QUEUED": State.WAITING,
    "RUN": State.RUNNING,
    "DONE": State.SUCCEEDED,
    "EXIT": State.FAILED,
    "CANCELLED": State.KILLED,
}


class Row(NamedTuple):
    """What the queue says about one job."""

    word: str
    code: int | None


def show(ids: Sequence[str]) -> list[str]:
    """Return the command that asks about all these jobs at once."""
    return ["queue", "show", *ids]


def read_show(done: Done) -> dict[str, Row]:
    """Read `ID WORD CODE` lines; a job that is not there has no line. Raises ClusterError."""
    rows = {}
    for line in checked(done).splitlines():
        match line.split():
            case [number, word, "-"] if number.isdigit():
                rows[number] = Row(word, None)
            case [number, word, code] if number.isdigit() and code.isdigit():
                rows[number] = Row(word, int(code))
            case _:
                raise rubbish(done)
    return rows


def read_submit(done: Done) -> str:
    """Read the new job's id. Raises ClusterError."""
    number = checked(done).strip()
    if not number.isdigit():
        raise rubbish(done)
    return number


def request(argv: Sequence[str], env: Mapping[str, str]) -> str:
    """Return what `queue submit` reads on stdin. Values are never on a command line."""
    return json.dumps({"argv": list(argv), "env": dict(env), "nodes": 1})


def read_request(text: str) -> tuple[tuple[str, ...], dict[str, str]]:
    """Read argv and environment back out of a request."""
    data = json.loads(text)
    return tuple(data["argv"]), data["env"]


def checked(done: Done) -> str:
    """Return what a command printed, if it did what it was asked. Raises ClusterError."""
    if done.code != 0:
        said = done.err.strip() or f"exit code {done.code}"
        raise ClusterError.of(
            "acme.queue-failed", f"`queue {done.argv[1]}` failed: {said}", hint="try it by hand"
        )
    return done.out


def rubbish(done: Done) -> ClusterError:
    """Return the error for an answer that cannot be read."""
    return ClusterError(
        *ClusterError.of(
            "acme.queue-rubbish",
            f"`queue {done.argv[1]}` answered {done.out[:60]!r}",
            hint="try it by hand",
        ).findings
    )
