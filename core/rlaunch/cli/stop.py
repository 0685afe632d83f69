"""`rlaunch stop`: one job, after a question."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rlaunch.cli.flags import Json
from rlaunch.cli.jobs import Job, find
from rlaunch.codes import Code

if TYPE_CHECKING:
    from rlaunch.cli.speak import Voice


def command(
    job: Job,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> int:
    """Stop one run.

    Asks first. Stopping an ended or absent run is no error; a name that no record knows is one, for
    nobody can say whether it has ended: exit code 3.
    """
    from rlaunch import flow
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.speak import Voice, status_line
    from rlaunch.model import State

    voice = Voice(json=json)
    world = world_for(voice, artifacts=False, strict=True)
    target = find(world, job)
    seen = flow.status(world, [target])[target.ref]
    if not seen.state.ended:
        if not yes and not _agreed(voice, str(target.ref), str(seen.state)):
            voice.tell("not stopped")
            return 3
        voice.progress(f"stopping {target.ref}")
        seen = flow.stop(world, target)
    if json:
        from rlaunch.documents import status_to_json

        voice.document(status_to_json(seen))
    else:
        voice.say(status_line(seen, world.clock.now()))
    return 3 if seen.state is State.UNKNOWN else 0


def _agreed(voice: "Voice", job: str, state: str) -> bool:
    """Ask on the terminal; raises RlaunchError `core.stop-unconfirmed` where nobody can be asked."""
    if not sys.stdin.isatty():
        from rlaunch.errors import RlaunchError

        raise RlaunchError.of(
            "core.stop-unconfirmed", f"`{job}` is {state} and nobody can be asked whether to stop it",
            hint=f"`rlaunch stop {job} --yes` stops it",
        )  # fmt: skip
    voice.tell(f"{job} is {state}; stop it? [y/N]")
    return sys.stdin.readline().strip().lower() in ("y", "yes")


CODES = (
    Code(
        "core.stop-unconfirmed",
        "A job that has not ended is stopped only by somebody who was asked.\n\n"
        "Without a terminal nobody can answer, so a script says `--yes`.",
    ),
)
