"""What the agents write into the rendezvous store, and who may believe it.

Every record carries the run id and the attempt. Those two decide what is stale; times are written for
people only and are never compared.
"""

from __future__ import annotations

import json
import time
from typing import Any, NamedTuple

from .reasons import Outcome, read_outcome

HEAD_KEY = "ray_head.json"
DONE_KEY = "ray_head.done"


def ranks_prefix(attempt: int) -> str:
    """Return the folder of an attempt's rank records."""
    return f"ranks/{attempt}"


def rank_key(attempt: int, rank: int) -> str:
    """Return the name of one rank's record."""
    return f"ranks/{attempt}/{rank}.json"


def claim_key(attempt: int) -> str:
    """Return the name that rank 0 of an attempt creates before it publishes anything."""
    return f"claims/{attempt}.json"


def term_key(attempt: int, rank: int) -> str:
    """Return the name of one rank's termination record."""
    return f"term/{attempt}/{rank}.json"


def now() -> str:
    """Return the time as RFC 3339 in UTC, with milliseconds."""
    seconds = time.time()
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
    return f"{stamp}.{int(seconds * 1000) % 1000:03d}Z"


class Fence(NamedTuple):
    """The run and attempt that this agent belongs to."""

    run: str
    attempt: int

    def admits(self, body: dict[str, Any]) -> bool:
        """Return True where a record is of this very attempt."""
        return body.get("run") == self.run and body.get("attempt") == self.attempt

    def is_behind(self, body: dict[str, Any]) -> bool:
        """Return True where a record shows that a later attempt of this run has begun."""
        attempt = body.get("attempt")
        return body.get("run") == self.run and isinstance(attempt, int) and attempt > self.attempt

    def mark(self, **fields: Any) -> dict[str, Any]:
        """Return a record of this attempt with these fields."""
        return {"run": self.run, "attempt": self.attempt, **fields}


class Head(NamedTuple):
    """Where rank 0 is: `ray_head.json`."""

    head_ip: str
    port: int
    """Of Ray's GCS."""
    agent_port: int
    """Of rank 0's agent."""
    token: str
    """Of this attempt: agents of other attempts and other people are refused."""
    num_nodes: int
    written_at: str
    ray_version: str
    python_version: str
    ray_auth: str = "disabled"
    """What every rank sets `RAY_AUTH_MODE` to."""


class RankRecord(NamedTuple):
    """Where one rank is: `ranks/<attempt>/<rank>.json`, and the same over TCP."""

    rank: int
    node: str
    pid: int
    phase: str
    at: str
    since: str
    exit_code: int | None = None
    signal: int | None = None
    reason: str = ""
    detail: str = ""
    staged: dict[str, int] | None = None
    """Count of items by data set, once this node has staged."""
    oom_kills: int = 0
    """Processes of this node that the kernel killed for want of memory just before the end."""


def encode(body: dict[str, Any]) -> bytes:
    """Return a record as one line of JSON."""
    return (json.dumps(body, separators=(",", ":"), ensure_ascii=False) + "\n").encode()


def decode(data: bytes | None) -> dict[str, Any]:
    """Read a record; anything that is not a JSON object is empty, and so belongs to nobody."""
    try:
        body = json.loads(data or b"")
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}


def read_head(body: dict[str, Any]) -> Head | None:
    """Read `ray_head.json`; None where a field is missing or of another type."""
    try:
        head = Head(**{name: body[name] for name in Head._fields if name in body})
    except TypeError:
        return None
    numbers: list[Any] = [head.port, head.agent_port, head.num_nodes]
    texts: list[Any] = [head.head_ip, head.token, head.ray_version, head.python_version]
    whole = all(isinstance(number, int) for number in numbers)
    return head if whole and all(isinstance(text, str) for text in texts) else None


def read_rank(body: dict[str, Any]) -> RankRecord | None:
    """Read a rank's record; None where a field is missing or of another type."""
    try:
        record = RankRecord(**{name: body[name] for name in RankRecord._fields if name in body})
    except TypeError:
        return None
    rank: Any = record.rank
    phase: Any = record.phase
    return record if isinstance(rank, int) and isinstance(phase, str) else None


def done_body(fence: Fence, outcome: Outcome) -> dict[str, Any]:
    """Return the body of `ray_head.done`."""
    return fence.mark(**outcome._asdict(), at=now())


def find_outcome(fence: Fence, body: dict[str, Any]) -> Outcome | None:
    """Return the outcome that binds this agent: a success of any attempt, or its own attempt's."""
    if body.get("run") != fence.run:
        return None
    outcome = read_outcome(body)
    return outcome if outcome.succeeded or body.get("attempt") == fence.attempt else None
