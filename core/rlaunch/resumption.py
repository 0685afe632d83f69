"""What planning must read from disk first: an earlier run's checkpoint, a local model's shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from rlaunch import reading
from rlaunch.codes import Code
from rlaunch.model import Finding, Plan, Request, Run, Setting
from rlaunch.needs import argument

if TYPE_CHECKING:
    from rlaunch.world import World

MARKER = "latest_ckpt_global_step.txt"
_CONFIG_LIMIT = 1 << 20
"""Bytes; a larger `config.json` is no model's configuration."""


def find(world: World, request: Request) -> tuple[str, tuple[Finding, ...]]:
    """Return what `--resume` comes to: `never`, or the path of a checkpoint.

    `auto` is the newest checkpoint of the newest recorded run of the same name. Where there is none
    the run starts at step 0, and that is said; where it lies in an object store or beyond a login node
    it is an error, because nobody has looked.
    """
    if request.resume != "auto":
        return request.resume, ()
    name = request.settings.get("name")
    earlier = world.open_runs().of_name(str(name)) if name else ()
    for row in earlier:
        if row.failed_at is not None:
            continue  # it never ran
        storage = str(row.plan["run"]["paths"]["storage"])
        host = row.plan["run"]["profile"].get("host")
        if "://" in storage or host:
            return "never", (_unseen(storage, str(host or "")),)
        step = _latest(Path(storage, "checkpoints"))
        if step is not None:
            note = f"goes on from step {step.name.rpartition('_')[2]} of `{row.run_id}`"
            return str(step), (Finding("note", "core.resumes", note, "--resume auto"),)
    what = f"no run named `{name}` left a checkpoint" if name else "the run has no name of its own"
    hint = "" if name else "`--job-name NAME` says whose checkpoint is meant"
    return "never", (
        Finding("warning", "core.nothing-to-resume", f"{what}: starts at step 0", "--resume", hint),
    )


class Start(NamedTuple):
    """The checkpoint that a plan goes on from."""

    path: str
    flag: str
    """What named it."""
    known: bool
    """Whether its trainer is one whose checkpoints have a directory `policy` (SkyRL, the toy)."""
    cwd: str
    """Where the driver starts."""

    @property
    def where(self) -> str:
        """The path from the root."""
        return self.path if self.path.startswith("/") else f"{self.cwd}/{self.path}"


class Seen(NamedTuple):
    """What lies at a checkpoint's path, looked at wherever the run will read it."""

    kind: str
    """`nothing`, `file` or `folder`."""
    full: bool = False
    """Whether the checkpoint's own parts are in it."""
    near: str = ""
    """The newest checkpoint beside it, or in it."""


def start_of(plan: Plan) -> Start | None:
    """Return the checkpoint that a plan goes on from; None for none, and for one in an object store."""
    known = argument(plan, "trainer.resume_mode") == "from_path"
    resume = plan.run.resume if plan.run.resume not in {"never", "auto"} else ""
    path = argument(plan, "trainer.resume_path") if known else resume
    if not path or "://" in path:
        return None
    flag = "--resume" if path == resume else "trainer.resume_path"
    return Start(path, flag, known, plan.command.cwd or plan.run.paths.run_dir)


def newest(paths: Iterable[str]) -> str:
    """Return the path of the highest `global_step_N`; empty without one."""
    steps = {
        int(n): path for path in paths if (n := path.rpartition("global_step_")[2]).isdecimal()
    }
    return steps[max(steps)] if steps else ""


def judge_start(start: Start, seen: Seen, there: str, code: str) -> Iterator[Finding]:
    """Yield the error `code` of a checkpoint that is not `there` (words for a place)."""
    path = start.path
    hint = "the path of a directory `global_step_N`, or `--resume auto`"
    if seen.near:
        hint = f"the newest one there: `--resume {seen.near}`"
    if not path.startswith("/") and seen.kind == "nothing":
        why = f"there is no `{path}` in `{start.cwd}`, where the driver starts"
        yield Finding("error", code, why, start.flag, "give its absolute path")
    elif seen.kind != "folder":
        why = "is no directory" if seen.kind == "file" else f"does not exist {there}"
        yield Finding("error", code, f"the checkpoint `{path}` {why}", start.flag, hint)
    elif not seen.full:
        yield Finding("error", code, f"there is no checkpoint in `{path}`", start.flag, hint)


def _latest(folder: Path) -> Path | None:
    """Return the checkpoint that the marker names, where both exist."""
    try:
        step = int(reading.read_text(str(folder / MARKER)).strip())
    except (reading.NotReadable, ValueError):
        return None
    path = folder / f"global_step_{step}"
    return path if path.is_dir() else None


def _unseen(storage: str, host: str) -> Finding:
    where = f"`{storage}` of `{host}`" if host else f"`{storage}`"
    return Finding(
        "error",
        "core.resume-unseen",
        f"the checkpoints of the earlier run lie in {where}, which cannot be looked at from here",
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
        "`--resume auto` cannot look into an object store, nor at the disks of a cluster behind `host:`.\n\n"
        "Name the checkpoint with `--resume PATH`, so that the step it starts from is your choice.",
    ),
)
