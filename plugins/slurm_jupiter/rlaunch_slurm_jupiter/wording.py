"""How preflight words what it finds, and what a failed tool's last words were. Pure."""

from __future__ import annotations

import re

from rlaunch.model import Finding
from rlaunch.shell import Done
from rlaunch_slurm_jupiter.ssh import LOST

OWNER = "slurm_jupiter"


def problem(slug: str, message: str, place: str, hint: str) -> Finding:
    """Return an error of this plugin."""
    return Finding("error", f"{OWNER}.{slug}", message, place, hint)


def not_asked(message: str, place: str, check: str) -> Finding:
    """Return the error of a check whose question got no answer; without one nothing is concluded."""
    return problem("not-asked", message, place, f"try again, or `--skip-preflight {check}`")


def last_words(done: Done) -> str:
    """Return the last line that a failed command said, at most 200 characters, without the tool's name."""
    rows = [row.strip() for row in (done.err.strip() or done.out).splitlines() if row.strip()]
    kept = [row for row in rows if "allocation failure" not in row] or rows
    if not kept and done.code in (LOST, 124):
        return "ssh failed" if done.code == LOST else "no answer in time"
    text = kept[-1] if kept else f"exit code {done.code}, without a word"
    return re.sub(r"^(sbatch|scancel|sinfo|squeue|sacct): (error: )?", "", text)[:200]
