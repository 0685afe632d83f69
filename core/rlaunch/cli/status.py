"""`rlaunch status`: one look."""

# No `from __future__ import annotations`: typer reads these annotations as they are.
from typing import TYPE_CHECKING

from rlaunch.cli.flags import Json
from rlaunch.cli.jobs import Jobs

if TYPE_CHECKING:
    from rlaunch.model import Rank, Status


def command(jobs: Jobs = [], json: Json = False) -> int:  # noqa: B006  # typer makes a new list
    """Say how runs stand, once."""
    from rlaunch import flow
    from rlaunch.cli.jobs import found
    from rlaunch.cli.opening import world_for
    from rlaunch.cli.speak import Voice

    voice = Voice(json=json)
    world = world_for(voice, artifacts=False, strict=True)
    targets = found(world, jobs)
    answers = flow.status(world, targets)
    statuses = [answers[job.ref] for job in targets]
    if json:
        from rlaunch.documents import statuses_to_json

        voice.document(statuses_to_json(statuses, one=len(jobs) == 1))
    elif statuses:
        voice.put("".join(_text(status) for status in statuses))
    else:
        voice.tell("no run of the record is open; `rlaunch status JOB` asks about one")
    return flow.exit_code(statuses)


def _text(status: "Status") -> str:
    from rlaunch.cli.speak import status_line

    ranks = "".join(f"  {_rank(rank)}\n" for rank in status.ranks)
    return f"{status_line(status)}\n{ranks}"


def _rank(rank: "Rank") -> str:
    parts = [f"rank {rank.rank}", rank.node, rank.phase]
    if rank.heartbeat_age_s is not None:
        parts.append(f"heard {rank.heartbeat_age_s:.0f} s ago")
    parts += [f"exit={rank.exit_code}"] if rank.exit_code is not None else []
    parts += [f"signal={rank.signal}"] if rank.signal is not None else []
    return " ".join(part for part in parts if part)
