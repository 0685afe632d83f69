"""Where the runs of this machine lie, and how a run id becomes a directory."""

from __future__ import annotations

import re
from pathlib import Path

from rlaunch import folders

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")


def state_root() -> Path:
    """Return `$XDG_STATE_HOME/rlaunch`, by default `~/.local/state/rlaunch`."""
    return Path(folders.state())


def indexed(run_id: str) -> Path:
    """Return where every run of this machine can be found: its directory, or a link to it."""
    return state_root() / "local" / run_id


def find(run_id: str, template: str = "") -> Path | None:
    """Return the directory of a run; None when this machine has none.

    `template` is the profile's `run_dir`; a run that lies elsewhere is found by the link that submit
    left under the state directory.
    """
    if not _ID.match(run_id):
        return None
    for path in (_expand(template, run_id), indexed(run_id)):
        if path is not None and path.is_dir():
            return path
    return None


def _expand(template: str, run_id: str) -> Path | None:
    values = {
        "state": str(state_root()),
        "home": folders.home(),
        "run": run_id,
        "name": run_id.rpartition("-")[0],
    }
    for name, value in values.items():
        template = template.replace("{" + name + "}", value)
    if not template.startswith("/") or "{" in template or run_id not in template:
        return None  # a directory that does not carry the run's id could be another run's
    return Path(template)


def link(run_id: str, run_dir: Path) -> None:
    """Make a run that lies elsewhere findable by its id."""
    where = indexed(run_id)
    if where.absolute() != run_dir.absolute():
        where.parent.mkdir(parents=True, exist_ok=True)
        where.unlink(missing_ok=True)
        where.symlink_to(run_dir.absolute())
