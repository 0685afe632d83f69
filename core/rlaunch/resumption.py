"""What planning must read from disk first: an earlier run's checkpoint, a local model's shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlaunch.codes import Code
from rlaunch.model import Finding, Request, Run, Setting

if TYPE_CHECKING:
    from rlaunch.world import World

MARKER = "latest_ckpt_global_step.txt"
_CONFIG_LIMIT = 1 << 20
"""Bytes; a larger `config.json` is no model's configuration."""


def find(world: World, request: Request) -> tuple[str, tuple[Finding, ...]]:
    """Return what `--resume` comes to: `never`, or the path of a checkpoint.

    `auto` is the newest checkpoint of the newest recorded run of the same name. Where there is none
    the run starts at step 0, and that is said; where it lies in an object store it is an error,
    because nobody has looked.
    """
    if request.resume != "auto":
        return request.resume, ()
    name = request.settings.get("name")
    earlier = world.open_runs().of_name(str(name)) if name else ()
    for row in earlier:
        storage = str(row.plan["run"]["paths"]["storage"])
        if "://" in storage:
            return "never", (_unseen(storage),)
        step = _latest(Path(storage, "checkpoints"))
        if step is not None:
            note = f"goes on from step {step.name.rpartition('_')[2]} of `{row.run_id}`"
            return str(step), (Finding("note", "core.resumes", note, "--resume auto"),)
    what = f"no run named `{name}` left a checkpoint" if name else "the run has no name of its own"
    hint = "" if name else "`--job-name NAME` says whose checkpoint is meant"
    return "never", (
        Finding("warning", "core.nothing-to-resume", f"{what}: starts at step 0", "--resume", hint),
    )


def _latest(folder: Path) -> Path | None:
    """Return the checkpoint that the marker names, where both exist."""
    try:
        step = int((folder / MARKER).read_text(encoding="utf-8").strip())
    except (OSError, ValueError):
        return None
    path = folder / f"global_step_{step}"
    return path if path.is_dir() else None


def _unseen(storage: str) -> Finding:
    return Finding(
        "error",
        "core.resume-unseen",
        f"the checkpoints of the earlier run lie in `{storage}`, which cannot be looked at from here",
        "--resume auto",
        f"name one: `--resume {storage}/checkpoints/global_step_N`",
    )


def with_model_facts(run: Run) -> Run:
    """Return the run with the shape of a model that lies on this machine (`config.json`).

    A model that lies elsewhere, or a file that cannot be read, adds nothing: the rules then say that
    they do not know.
    """
    path = Path(run.model_path, "config.json")
    if not run.model_path.startswith(("/", "./", "../")) or not path.is_file():
        return run
    import json

    from rlaunch.skyrl import models

    try:
        if path.stat().st_size > _CONFIG_LIMIT:
            return run
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return run
    if not isinstance(data, dict):
        return run
    facts = models.of_config(data, str(path))._asdict()
    setting = Setting(facts, "model", f"read from `{path}`")
    return run._replace(provenance={**run.provenance, "model_facts": setting})


CODES = (
    Code(
        "core.resumes",
        "The run goes on from an earlier run's checkpoint.\n\n"
        "Resuming is a choice: a relaunch that silently took up an old checkpoint spoiled comparisons.",
        "note",
    ),
    Code(
        "core.nothing-to-resume",
        "`--resume auto` found no checkpoint.\n\n"
        "The run starts at step 0. Attempts of one run always go on from its own checkpoints.",
        "warning",
    ),
    Code(
        "core.resume-unseen",
        "`--resume auto` cannot look into an object store.\n\n"
        "Name the checkpoint with `--resume PATH`, so that the step it starts from is your choice.",
    ),
)
