# No `from __future__ import annotations`: typer reads these annotations as they are.
"""How jobs are named on the command line: NAME, run id, or CLUSTER:ID."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlaunch.watching import Job as Found
    from rlaunch.world import World


def recorded(incomplete: str) -> list[str]:
    """Complete the name of a recorded run."""
    from rlaunch import folders
    from rlaunch.runs import Runs

    record = Runs(f"{folders.state()}/runs.sqlite", warn=lambda finding: None)
    words = dict.fromkeys(word for row in record.list(20) for word in (row.name, row.run_id))
    return [word for word in words if word.startswith(incomplete)]


_ABOUT = "Name of a run, its id, or CLUSTER:ID."
Job = Annotated[str, typer.Argument(metavar="JOB", help=_ABOUT, autocompletion=recorded)]
Jobs = Annotated[
    list[str],
    typer.Argument(
        metavar="[JOB]...", help=f"{_ABOUT} [every open run of the record]", autocompletion=recorded
    ),
]


def find(world: "World", name: str) -> "Found":
    """Find the job that was named. Raises RlaunchError."""
    from rlaunch import flow
    from rlaunch.errors import named

    with named("--cluster", "JOB"):  # of CLUSTER:ID
        return flow.find(world, name)


def found(world: "World", names: "Sequence[str]") -> list["Found"]:
    """Find the jobs that were named, or every open run of the record. Raises RlaunchError."""
    wanted = list(names) or [row.run_id for row in world.open_runs().list(open_only=True)]
    return [find(world, name) for name in dict.fromkeys(wanted)]
