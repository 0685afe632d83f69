"""`rlaunch logs`: all of a run's output, to stdout or to one file per attempt and rank."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlaunch.cli.jobs import Job, find
from rlaunch.codes import Code
from rlaunch.errors import RlaunchError

if TYPE_CHECKING:
    from rlaunch.cli.speak import Voice
    from rlaunch.model import LogLine
    from rlaunch.watching import Job as Found
    from rlaunch.world import World


def command(
    *,
    job: Job,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on until the run has ended.")
    ] = False,
    rank: Annotated[int | None, typer.Option("--rank", metavar="N", help="Only this rank.")] = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", help="Only this attempt.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since", metavar="TIME", help="From then on: RFC 3339, or 90s, 15m, 2h ago."
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="DIR", help="Write a file per attempt and rank there; again: go on."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document for each line.")] = False,
) -> int:
    """Print a run's output.

    All of it, each line with its rank before it unless one rank was asked for. With `--to`, a later
    call with the same directory goes on where the last one stopped.
    """
    from rlaunch.cli.speak import Voice

    try:
        _give(Voice(json=json), job, to, since, follow=follow, rank=rank, attempt=attempt)
    except KeyboardInterrupt:
        return 130
    return 0


def _give(voice: "Voice", job: str, to: str | None, since: str | None, **wanted: Any) -> None:
    import gc

    from rlaunch import flow
    from rlaunch.cli.opening import world_for

    world = world_for(voice, artifacts=False, strict=True)
    gc.enable()
    moment = since_when(since, world.clock.now()) if since else None
    found = find(world, job)
    _exists(world, found, **wanted)
    if to is None:
        lines = flow.logs(world, found, since=moment, **wanted)
        shown = _show(voice, lines, ranks=wanted["rank"] is None)
        if not shown and not moment and wanted["attempt"] is not None:
            raise _none("attempt", wanted["attempt"], found, "nothing was printed in it")
        return
    from pathlib import Path

    from rlaunch.cli import storing

    with storing.opened(to, str(found.ref), moment) as begun:
        lines = flow.logs(world, found, since=begun, **wanted)
        counts = storing.store(lines, to, at_once=wanted["follow"])
    for name, count in counts.items():
        voice.say(f"{Path(to, name)} {count} new lines")


def _exists(
    world: "World", job: "Found", *, rank: int | None, attempt: int | None, follow: bool
) -> None:
    """Raise RlaunchError for a rank or an attempt that the run does not have, as far as that is known."""
    from rlaunch import flow

    nodes = job.facts.nodes  # None where rlaunch did not start it here
    if rank is not None and (rank < 0 or (nodes is not None and rank >= nodes)):
        ranks = f"its ranks are 0 to {nodes - 1}" if nodes else "ranks are counted from 0"
        raise _none("rank", rank, job, ranks)
    if attempt is None:
        return
    last = flow.status(world, [job])[job.ref].attempt
    if attempt < 0 or (last is not None and attempt > last and not follow):
        raise _none("attempt", attempt, job, f"its last one is {last}" if last else "it has none")


def _none(what: str, number: int, job: "Found", why: str) -> RlaunchError:
    name = job.facts.run_id or str(job.ref)
    return RlaunchError.of(
        f"core.no-such-{what}", f"`{name}` has no {what} {number}: {why}", place=f"--{what}",
        hint=f"`rlaunch status {name}` shows its attempt and its ranks",
    )  # fmt: skip


def _show(voice: "Voice", lines: "Iterable[LogLine]", *, ranks: bool) -> int:
    """Print the lines and return how many there were."""
    count = 0
    for count, line in enumerate(lines, 1):  # noqa: B007  # the last one is returned
        if voice.json:
            voice.record(line._asdict())
        else:
            head = f"{line.rank} | " if ranks and line.rank is not None else ""
            voice.put(f"{head}{line.text}\n")
    return count


def since_when(text: str, now: str) -> str:
    """Return a moment as RFC 3339 in UTC: it is one already, or a time before `now` such as `15m`.

    Raises typer's usage error for anything else.
    """
    from datetime import UTC, datetime, timedelta

    from rlaunch.settings import read_duration

    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
    except ValueError:
        try:
            moment = datetime.fromisoformat(now) - timedelta(seconds=read_duration(text))
        except ValueError:
            raise typer.BadParameter(
                f"`{text}` is neither RFC 3339 nor a time such as `15m`", param_hint="--since"
            ) from None
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


CODES = (
    Code(
        "core.no-such-rank",
        "The run has no such rank.\n\n"
        "A run of N nodes has the ranks 0 to N-1; `rlaunch status RUN` shows them.",
    ),
    Code(
        "core.no-such-attempt",
        "The run has no such attempt, or nothing was printed in it.\n\n"
        "Attempts are in the cluster's own count; `rlaunch status RUN` shows the last one.",
    ),
)
