"""`rlaunch plan`: the launch's own flags, and the plan as text, document or file."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import Annotated

import typer

from rlaunch.cli.asking import request, spelling
from rlaunch.cli.flags import Json, PlanFlags, taking


@taking(PlanFlags)
def command(
    plan: PlanFlags,
    ctx: typer.Context,
    output: Annotated[
        str | None,
        typer.Option(
            "--output", "-o", metavar="FILE", help="Write the plan here, for `rlaunch submit FILE`."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Show what a launch would send, or write it to a plan file."""
    from rlaunch.cli.preparing import prepare, show
    from rlaunch.cli.speak import Voice

    voice = Voice(json=json)
    _, prepared = prepare(voice, plan, request(plan, spelling(ctx)), only_shown=True)
    code = show(voice, prepared) if output is None or json or prepared.plan is None else 0
    if output is None or prepared.plan is None:
        return code
    if prepared.refused:
        voice.show(() if json else prepared.findings)
        voice.tell(f"`{output}` was not written: the plan would be refused")
        return 3
    from rlaunch.documents import plan_to_json, to_text
    from rlaunch.writing import write

    write(output, to_text(plan_to_json(prepared.plan)))
    if not json:
        voice.show(prepared.findings)
        voice.say(f"{output}: run {prepared.plan.run.id}; send it with `rlaunch submit {output}`")
    return code
