"""`rlaunch logs`: all of a run's output, to stdout or to one file per rank."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from rlaunch.cli.jobs import Job

if TYPE_CHECKING:
    from rlaunch.cli.speak import Voice
    from rlaunch.model import LogLine


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
        str | None, typer.Option("--to", metavar="DIR", help="Write one file per rank there.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON document for each line.")] = False,
) -> int:
    """Print a run's output.

    All of it, each line with its rank before it unless one rank was asked for.
    """
    import gc

    from rlaunch import flow
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.speak import Voice

    voice = Voice(json=json)
    world = world_for(voice, artifacts=False)
    gc.enable()
    moment = since_when(since, world.clock.now()) if since else None
    lines = flow.logs(
        world, flow.find(world, job), follow=follow, rank=rank, attempt=attempt, since=moment
    )
    try:
        if to is not None:
            _store(voice, lines, to)
        else:
            _show(voice, lines, ranks=rank is None)
    except KeyboardInterrupt:
        return 130
    return 0


def _show(voice: "Voice", lines: "Iterator[LogLine]", *, ranks: bool) -> None:
    for line in lines:
        if voice.json:
            voice.record(line._asdict())
        else:
            head = f"{line.rank} | " if ranks and line.rank is not None else ""
            voice.put(f"{head}{line.text}\n")


def _store(voice: "Voice", lines: "Iterator[LogLine]", folder: str) -> None:
    """Write `rank-N.log` for each rank (`job.log` for lines of no rank); a line's time comes first."""
    from contextlib import ExitStack
    from pathlib import Path

    Path(folder).mkdir(parents=True, exist_ok=True)
    counts: dict[str, int] = {}
    with ExitStack() as stack:
        files = {}
        for line in lines:
            name = "job.log" if line.rank is None else f"rank-{line.rank}.log"
            if name not in files:
                files[name] = stack.enter_context(Path(folder, name).open("w", encoding="utf-8"))
            files[name].write(f"{line.at} {line.text}\n" if line.at else f"{line.text}\n")
            counts[name] = counts.get(name, 0) + 1
    for name, count in sorted(counts.items()):
        voice.say(f"{Path(folder, name)} {count} lines")


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
