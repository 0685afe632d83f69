"""A job's lines, by cursor: all of them, in pages of bounded size, and the end is not lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Protocol

from rlaunch.cluster import LogQuery
from rlaunch.errors import ClusterError
from rlaunch.model import LogLine
from rlaunch_iris.views import LogEntry, LogPage

PAGE = 2000
"""Lines of one page; the server's own default is a thousand, and then it stops."""
DRAIN_S = 3.0
"""Lines arrive 0.6 to 2.6 s after they were written (measured); so long after the end we still ask."""
FRESH_S = 30.0
"""A job that ended so recently has lines that have not arrived, or its clock differs from ours."""
POLL_S = 1.0
RETRY_S = 120.0
"""A controller that cannot be reached while following is asked again for so long."""


class Source(Protocol):
    """What a page is asked from; `adapter.Controller` is one."""

    def log_page(
        self, source: str, *, exact: bool, cursor: int, since_ms: int, limit: int
    ) -> LogPage:
        """Return the lines after `cursor`."""
        ...


def stream(query: LogQuery) -> tuple[str, bool]:
    """Return the name of the stream that a query asks for, and whether it is the whole name."""
    job = query.ref.native.rstrip("/")
    if query.rank is None:
        return f"{job}/", False
    if query.attempt is None:
        return f"{job}/{query.rank}:", False
    return f"{job}/{query.rank}:{query.attempt}", True


def milliseconds(moment: str | None) -> int:
    """Read RFC 3339 as milliseconds since the epoch; None is 0. Raises ClusterError `iris.bad-time`."""
    if not moment:
        return 0
    try:
        read = datetime.fromisoformat(moment)
    except ValueError:
        raise ClusterError.of(
            "iris.bad-time", f"`{moment}` is no time", place="--since",
            hint="write RFC 3339, such as `2026-07-01T12:00:00Z`",
        ) from None  # fmt: skip
    return int((read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp() * 1000)


def read(
    open_source: Callable[[], Source],
    query: LogQuery,
    ended: Callable[[], bool],
    sleep: Callable[[float], None],
    monotonic: Callable[[], float],
    *,
    fresh: bool = False,
) -> Iterator[LogLine]:
    """Yield the lines that a query asks for; with `follow` until the job has ended and its log has drained.

    `fresh`: the job ended a moment ago, so its last lines are waited for without `follow` too.

    While following, a controller that does not answer is asked again from the same cursor, so that no line
    is lost or told twice; after `RETRY_S` the ClusterError comes through.
    """
    name, exact = stream(query)
    since = milliseconds(query.since)
    cursor, over_at, silent_since = 0, None, None
    wait = query.follow or fresh
    while True:
        try:
            page = open_source().log_page(
                name, exact=exact, cursor=cursor, since_ms=since, limit=PAGE
            )
            silent_since = None
            is_over = not query.follow or ended()
        except ClusterError as error:
            silent_since = silent_since if silent_since is not None else monotonic()
            if not (query.follow and error.transient) or monotonic() - silent_since > RETRY_S:
                raise
            sleep(POLL_S * 2)
            continue
        yield from _lines(page.entries, query)
        if page.cursor > cursor and page.entries:
            cursor = page.cursor
            continue
        if not wait:
            return
        over_at = monotonic() if is_over and over_at is None else over_at
        if over_at is not None and monotonic() - over_at >= DRAIN_S:
            return
        sleep(POLL_S)


def _lines(entries: tuple[LogEntry, ...], query: LogQuery) -> Iterator[LogLine]:
    for entry in entries:
        if query.attempt is not None and entry.attempt != query.attempt:
            continue
        at = ""
        if entry.at_ms:
            moment = datetime.fromtimestamp(entry.at_ms / 1000, UTC)
            at = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        rank = entry.rank if entry.rank >= 0 else None
        for text in entry.text.rstrip("\n").split("\n"):
            yield LogLine(text, rank, entry.attempt, at)
