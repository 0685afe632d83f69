"""`rlaunch watch`: one line for each change of state, until the end."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import TYPE_CHECKING, Annotated

import typer

from rlaunch.cli.asking import seconds
from rlaunch.cli.flags import Json
from rlaunch.cli.jobs import Jobs

if TYPE_CHECKING:
    from rlaunch.cli.speak import Voice
    from rlaunch.model import JobRef, Status
    from rlaunch.watching import Job
    from rlaunch.world import World


def command(  # over 40 lines: each flag is a parameter
    *,
    jobs: Jobs = [],  # noqa: B006  # typer makes a new list
    once: Annotated[
        bool, typer.Option("--once", help="Look once; 4 where a run is still going.")
    ] = False,
    interval: Annotated[
        float,
        typer.Option("--interval", metavar="S", help="Seconds between two looks.", parser=seconds),
    ] = 5.0,
    admission_timeout: Annotated[
        float | None,
        typer.Option(
            "--admission-timeout",
            metavar="S",
            help="End with 1 when a run is not admitted within S seconds.",
            parser=seconds,
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Print each change of a run's state until it has ended.

    With --json each change is a document on a line of its own; with --once --json there is one document.
    """
    from rlaunch.cli.jobs import found
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.speak import Voice

    voice = Voice(json=json)
    world = world_for(voice, artifacts=False, strict=True)
    targets = found(world, jobs)
    if not targets:
        voice.tell("no run of the record is open; `rlaunch watch JOB` watches one")
    try:
        return _watch(
            voice,
            world,
            targets,
            once=once,
            interval=max(interval, 0.1),
            limit=admission_timeout,
            one=len(jobs) == 1,
        )
    except KeyboardInterrupt:
        voice.tell("watching ended; the job goes on")
        return 130


def _watch(
    voice: "Voice",
    world: "World",
    jobs: "list[Job]",
    *,
    once: bool,
    interval: float,
    limit: float | None,
    one: bool,
) -> int:
    import gc

    from rlaunch import flow
    from rlaunch.cli.sending import overdue

    gc.enable()  # this process stays
    last: dict[JobRef, Status] = {}
    for status in flow.watch(world, jobs, interval=interval, once=once, admission_timeout=limit):
        last[status.job] = status
        _print(voice, status, world.clock.now(), once=once)
    statuses = [last[job.ref] for job in jobs if job.ref in last]
    if once and voice.json:
        from rlaunch.documents import statuses_to_json

        voice.document(statuses_to_json(statuses, one=one))
    code = flow.exit_code(statuses)
    if code == 4 and limit is not None and not once:
        voice.show(overdue(str(s.job), limit) for s in statuses if not s.state.ended)
        return 1
    return code


def _print(voice: "Voice", status: "Status", now: str, *, once: bool) -> None:
    from rlaunch.cli.speak import status_line

    if not voice.json:
        voice.put(f"{status_line(status, now)}\n")
    elif not once:
        from rlaunch.documents import status_to_json

        voice.record(status_to_json(status))
