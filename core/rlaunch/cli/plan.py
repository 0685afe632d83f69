"""`rlaunch plan`: the launch's own flags, and the plan as text, document or file."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import Annotated

import typer

from rlaunch.cli.flags import Json, PlanFlags, request, spelling, taking
from rlaunch.codes import Code


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
    _, prepared = prepare(voice, plan, request(plan, spelling(ctx)))
    code = show(voice, prepared) if output is None or json or prepared.plan is None else 0
    if output is None or prepared.plan is None:
        return code
    if prepared.refused:
        voice.show(() if json else prepared.findings)
        voice.tell(f"`{output}` was not written: the plan would be refused")
        return 3
    _write(output, prepared.plan)
    if not json:
        voice.show(prepared.findings)
        voice.say(f"{output}: run {prepared.plan.run.id}; send it with `rlaunch submit {output}`")
    return code


def _write(output: str, plan: object) -> None:
    """Write the plan file in one step, so that a half-written one is never sent."""
    from pathlib import Path

    from rlaunch.documents import plan_to_json, to_text
    from rlaunch.errors import RlaunchError

    path = Path(output)
    half = path.with_name(f".{path.name}.part")
    try:
        half.write_text(to_text(plan_to_json(plan)), encoding="utf-8")  # type: ignore[arg-type]  # a Plan
        half.replace(path)
    except OSError as error:
        raise RlaunchError.of(
            "core.output", f"`{output}` cannot be written: {error.strerror}", place="--output",
            hint="give a file in a directory that exists",
        ) from None  # fmt: skip


CODES = (
    Code(
        "core.output",
        "A file that was asked for cannot be written.\n\nGive one in a directory that exists.",
    ),
)
