"""`rlaunch --cluster …`: prepare, show or send, and wait."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import Annotated

import typer

from rlaunch.cli.asking import request, spelling
from rlaunch.cli.flags import SEND, Json, PlanFlags, SendFlags, taking


@taking(PlanFlags, SendFlags)
def command(
    plan: PlanFlags,
    send: SendFlags,
    ctx: typer.Context,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Print what would be sent; send nothing.", rich_help_panel=SEND
        ),
    ] = False,
    json: Json = False,
) -> int:
    """Launch a run."""
    from rlaunch.cli.preparing import prepare, show
    from rlaunch.cli.speak import Voice

    voice = Voice(json=json)
    asked = request(plan, spelling(ctx))
    world, prepared = prepare(voice, plan, asked, only_shown=dry_run)
    if dry_run or prepared.refused or prepared.plan is None:
        return show(voice, prepared)
    from rlaunch.cli.sending import send_and_wait

    voice.show(prepared.findings)
    world.said.update(prepared.findings)
    options = {
        "chosen": prepared.chosen,
        "if_exists": plan.if_exists,
        "new_series": plan.new_series,
    }
    return send_and_wait(voice, world, prepared.plan, send, options)
