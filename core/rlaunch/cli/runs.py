"""`rlaunch runs`: the run record."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import TYPE_CHECKING, Annotated

import typer

from rlaunch.cli.flags import Json

if TYPE_CHECKING:
    from rlaunch.runs import Row


def command(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Only runs of this name.")] = "",
    limit: Annotated[
        int, typer.Option("--limit", "-n", metavar="N", help="At most so many, newest first.")
    ] = 20,
    json: Json = False,
) -> int:
    """List the runs that were recorded on this machine."""
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.speak import Voice, table

    voice = Voice(json=json)
    record = world_for(voice, artifacts=False, strict=True).open_runs()
    rows = record.of_name(name)[:limit] if name else record.list(limit)
    if json:
        from rlaunch.documents import runs_to_json

        voice.document(runs_to_json(rows))
    elif rows:
        voice.put(
            table([("RUN", "CLUSTER", "NODES", "INTENDED", "STATE", "RECIPE"), *map(_cells, rows)])
        )
    else:
        voice.tell("no run is recorded")
    return 0


def _cells(row: "Row") -> tuple[str, ...]:
    state = "not sent" if row.unsent else row.state or "open"
    return row.run_id, row.cluster, str(row.nodes), row.intended_at, state, row.recipe
