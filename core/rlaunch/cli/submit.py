"""`rlaunch submit PLAN`: send a plan file as it is."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import Annotated, Any

import typer

from rlaunch.cli.flags import IfExists, Json, NewSeries, Secrets, SendFlags, Workspace, taking
from rlaunch.codes import Code


@taking(SendFlags)
def command(
    send: SendFlags,
    *,
    file: Annotated[
        str, typer.Argument(metavar="PLAN", help="A file that `rlaunch plan -o` wrote.")
    ],
    workspace: Workspace = None,
    secrets_env: Secrets = None,
    if_exists: IfExists = "fail",
    new_series: NewSeries = False,
    json: Json = False,
) -> int:
    """Send a plan file as it is."""
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.sending import send_and_wait
    from rlaunch.cli.speak import Voice
    from rlaunch.documents import read_plan

    voice = Voice(json=json)
    plan = read_plan(_text(file), file)
    world = world_for(voice, workspace=workspace, secrets_env=secrets_env)
    options: dict[str, Any] = {"if_exists": if_exists, "new_series": new_series, "from_file": True}
    return send_and_wait(voice, world, plan, send, options)


def _text(file: str) -> str:
    from rlaunch import reading
    from rlaunch.errors import RlaunchError

    try:
        return reading.read_text(file, reading.PLAN_LIMIT)
    except reading.NotReadable as error:
        raise RlaunchError.of(
            "plan.unreadable", f"the plan `{file}` cannot be read: {error}", place="PLAN",
            hint="make one with `rlaunch plan … -o plan.json`",
        ) from None  # fmt: skip


CODES = (
    Code(
        "plan.unreadable",
        "A plan file cannot be read.\n\nIt is a file of UTF-8 text that `rlaunch plan -o` wrote, of at\n"
        "most 64 MiB.",
    ),
)
