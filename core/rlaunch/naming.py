"""Whether a run's name or id may be used, by the run record and, at submit, the cluster's own word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rlaunch.model import Finding, Level, Run, State

if TYPE_CHECKING:
    from rlaunch.rows import Row
    from rlaunch.world import World


def refusals(world: World, run: Run, *, if_exists: str, new_series: bool) -> Iterator[Finding]:
    """Yield why the run may not be sent under its id and name; a run without a recorded end is asked for.

    A plan whose submit failed may be sent again, and a run that was never sent has taken no name.
    """
    runs = world.open_runs()
    own = runs.find(run.id)
    if own is not None and own.failed_at is None:
        yield Finding(
            "error", "plan.submitted", f"the run `{run.id}` was submitted before", "",
            "make a new plan; a run id is used once",
        )  # fmt: skip
        return
    row = _holder(world, run)
    if row is None:
        return
    from rlaunch.watching import find, status

    job = find(world, row.run_id)
    state = State(row.state) if row.state else status(world, [job])[job.ref].state
    if state.ended:
        yield from _used(run, row, state, if_exists, new_series)
    else:
        yield _live(run, f"is {state}")


def forecast(world: World, run: Run, *, if_exists: str, new_series: bool) -> Iterator[Finding]:
    """Yield what `refusals` would say of the name, as far as the record knows; no cluster is asked.

    A run without a recorded end may have ended all the same: its name is refused either way, but for
    `if_exists="new"`, where that is a warning. Without a record nothing is imported.
    """
    if not Path(world.context.state, "runs.sqlite").exists():
        return
    row = _holder(world, run)
    if row is None:
        return
    if row.open:
        level: Level = "warning" if if_exists == "new" else "error"
        yield _live(run, f"has no recorded end: `{row.run_id}`")._replace(level=level)
    else:
        yield from _used(run, row, row.state or "ended", if_exists, new_series)


def _holder(world: World, run: Run) -> Row | None:
    """Return the newest other run that was, or may have been, sent under the name."""
    rows = world.open_runs().of_name(run.name)
    return next((row for row in rows if row.run_id != run.id and not row.unsent), None)


def _live(run: Run, what: str) -> Finding:
    return Finding(
        "error", "run.live", f"a run named `{run.name}` {what}", "--job-name",
        f"choose another name, or `rlaunch stop {run.name}` first",
    )  # fmt: skip


def _used(run: Run, row: Row, state: str, if_exists: str, new_series: bool) -> Iterator[Finding]:
    """Yield what the name of a run that has ended needs before it is used again."""
    if if_exists != "new":
        yield Finding(
            "error", "run.taken", f"a run named `{run.name}` has been: {state}", "--job-name",
            "choose another name, or `--if-exists new` to use it again",
        )  # fmt: skip
    elif row.identity != run.identity and not new_series:
        yield Finding(
            "error", "run.series", f"`{run.name}` was another experiment: its science differs", "--job-name",
            "choose another name, or `--new-series` if the change is meant",
        )  # fmt: skip
