"""Rules about a planned SLURM run. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any

from rlaunch.codes import Code, rule
from rlaunch.model import Finding, Plan, Run
from rlaunch_slurm_jupiter.container import container_of
from rlaunch_slurm_jupiter.directives import clock, wall_limit, wall_seconds
from rlaunch_slurm_jupiter.planning import ray_temp

TICK_S, LEAST_WORK_S = 60, 30
"""SLURM may signal so much earlier than asked; so much of a job should be left for its work."""
LONGEST_TEMP = 43
"""Bytes that Ray's socket paths leave for its temporary directory."""


@rule("slurm_jupiter.wall-limit")
def time_fits(run: Run, plan: Plan) -> Iterable[Finding]:
    """The wall time is longer than the cluster gives a job of this many nodes.

    SLURM refuses such a job or lets it wait for ever, by its configuration. A longer run is a chain of
    jobs: `--time-limit` is one link, `--max-retries K` adds K more, and each resumes the last.
    """
    limit = wall_limit(run.profile, run.nodes)
    asked = wall_seconds(run)
    if limit and asked and asked > limit:
        yield Finding(
            "error", "slurm_jupiter.wall-limit",
            f"{clock(asked)} is longer than {clock(limit)}, the limit for {run.nodes} node(s)",
            "--time-limit",
            f"`--time-limit {clock(limit)} --max-retries {-(-asked // limit) - 1}`",
        )  # fmt: skip


@rule("slurm_jupiter.gpus")
def gpus_exist(run: Run, plan: Plan) -> Iterable[Finding]:
    """The GPU request cannot be made.

    `gpu_request: gres-typed` needs a `gpu_type`; without one the text would be `gpu::4`.
    """
    if run.profile["gpu_request"] == "gres-typed" and not run.profile["gpu_type"]:
        yield Finding(
            "error", "slurm_jupiter.gpus", "`gpu_request: gres-typed` has no `gpu_type`", "gpu_type",
            "`--set gpu_type=NAME`; `sinfo -o %G` shows the names",
        )  # fmt: skip


@rule("slurm_jupiter.path")
def paths_can_be_said(run: Run, plan: Plan) -> Iterable[Finding]:
    """A path cannot be written into an `#SBATCH` line or an Apptainer bind.

    A newline ends an `#SBATCH` line; a colon or comma separates the parts of a bind; a relative path is
    relative to another directory on every node; SLURM's accounting prints `"` as another sign, so the run
    would not be found in there. Blanks and `'` are fine.
    """
    container = container_of(run, ())
    for name, path in (
        ("run_dir", run.paths.run_dir),
        ("storage_root", run.paths.storage),
        ("data_root", run.paths.data),
    ):
        control = next((sign for sign in path if ord(sign) < 32 or ord(sign) == 127), "")
        bad = (
            "a newline"
            if control == "\n"
            else f"the control character {control!r}"
            if control
            else ""
        )
        if not bad and not path.startswith("/"):
            bad = "no `/` at its beginning"
        if not bad and container and set(path) & set(":,"):
            bad = "`:` or `,`, which separate the parts of a bind"
        if not bad and name == "run_dir" and "\\" in path:
            bad = "a backslash, which SLURM's file names take for their own"
        if not bad and name == "run_dir" and '"' in path:
            bad = 'a `"`, which SLURM prints as another sign'
        if not bad and (unknown := re.search(r"\{\w*\}", path)):
            bad = f"the unknown placeholder `{unknown[0]}`"
        if bad:
            yield Finding(
                "error", "slurm_jupiter.path", f"`{name}` has {bad}", name, f"`--set {name}=DIR`"
            )


@rule("slurm_jupiter.long-path")
def sockets_fit(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ray's socket paths would be longer than 107 bytes.

    Ray makes unix sockets below its temporary directory, and the kernel takes paths of at most 107
    bytes. `--set temp_root=/tmp` is short enough.
    """
    temp = f"{ray_temp(run)}-{run.max_retries + 9}-{run.nodes}"
    if len(temp.encode()) > LONGEST_TEMP:
        yield Finding(
            "error", "slurm_jupiter.long-path",
            f"Ray's directory `{temp}` has {len(temp.encode())} bytes of {LONGEST_TEMP}", "temp_root",
            "`--set temp_root=/tmp`",
        )  # fmt: skip


@rule("slurm_jupiter.trap")
def traps_are_avoided(run: Run, plan: Plan) -> Iterable[Finding]:
    """A known way to lose a job at this site.

    Traps are data of the profile (`traps`), each with the reason that was paid for.
    """
    for trap in run.profile["traps"]:
        value = _value(run, plan, trap["name"])
        if value is not None and _caught(trap, value):
            yield Finding(
                trap["level"], "slurm_jupiter.trap", f"`{trap['name']}` is `{value}`: {trap['reason']}",
                trap["name"], trap["hint"] or f"`--set {trap['name']}=VALUE`",
            )  # fmt: skip


@rule("slurm_jupiter.requeue-lead", level="warning")
def requeues_can_be_made(run: Run, plan: Plan) -> Iterable[Finding]:
    """A job that is to be requeued is not told of its wall limit.

    SLURM's SIGTERM at the limit is the same as that of `scancel`, which must not bring the job back. The
    early signal (`save_lead_s`) tells them apart; without it a job that meets its limit stays ended.
    """
    profile = run.profile
    if run.max_retries and profile["restart"] == "requeue" and not profile["save_lead_s"]:
        yield Finding(
            "warning", "slurm_jupiter.requeue-lead", "`restart: requeue` has no `save_lead_s`",
            "save_lead_s", "`--set save_lead_s=120`, or `--set restart=chain`",
        )  # fmt: skip


@rule("slurm_jupiter.save-lead")
def lead_leaves_work(run: Run, plan: Plan) -> Iterable[Finding]:
    """The driver would be asked to save when the job has hardly begun.

    `save_lead_s` before the wall limit the driver is told to save and end, and SLURM may say it up to 60 s
    sooner. A lead as long as the job's time is an error: each link would end at once and do nothing. A
    warning where fewer than 30 s are sure to be left for work. SLURM counts whole minutes of wall time.
    """
    lead, asked = int(run.profile["save_lead_s"]), wall_seconds(run)
    if not lead or not asked:
        return
    minutes = -(-asked // 60)
    left = minutes * 60 - lead
    if left - TICK_S >= LEAST_WORK_S:
        return
    sure = f"only {max(left - TICK_S, 0)} s are sure to be left for work"
    yield Finding(
        "error" if left <= 0 else "warning", "slurm_jupiter.save-lead",
        f"`save_lead_s` is {lead} s of a job of {clock(minutes * 60)}: "
        f"{'it would be asked to end at its start' if left <= 0 else sure}",
        "save_lead_s", f"a longer `--time-limit`, or `--set save_lead_s=N`, at most {lead + left - 90}"
        if lead + left > 90 else "a longer `--time-limit`, or `--set save_lead_s=0`",
    )  # fmt: skip


@rule("slurm_jupiter.wrapper-library", level="warning")
def image_has_the_wrapper(run: Run, plan: Plan) -> Iterable[Finding]:
    """The tunnel's wrapper stands before an image that is not given its library.

    A wrapper such as proxychains works by a library that it preloads into every program. In an image
    without that library it is lost without a word, and the job ends as `tunnel-dead` after its nodes were
    given to it. No bind names the library; an image that has it inside is fine.
    """
    tunnel, container = run.profile["tunnel"], container_of(run, ())
    if not tunnel or not tunnel["wrapper"] or container is None:
        return
    name = PurePosixPath(tunnel["wrapper"][0]).name.rstrip("0123456789.-")
    if not any(name in bind for bind in (*container.binds, *container.overlays)):
        yield Finding(
            "warning", "slurm_jupiter.wrapper-library",
            f"no bind brings the library of `{tunnel['wrapper'][0]}` into the image: where the image has "
            "none, the job ends as `tunnel-dead`",
            "binds", f"`ldconfig -p | grep {name}` on a node names it: add it to `binds`",
        )  # fmt: skip


RULES = (
    time_fits,
    gpus_exist,
    paths_can_be_said,
    sockets_fit,
    traps_are_avoided,
    requeues_can_be_made,
    lead_leaves_work,
    image_has_the_wrapper,
)
CODES: tuple[Code, ...] = tuple(r.code for r in RULES)  # type: ignore[attr-defined]  # set by @rule


def check(run: Run, plan: Plan) -> Iterator[Finding]:
    """Ask every rule."""
    for ask in RULES:
        yield from ask(run, plan)


def _value(run: Run, plan: Plan, name: str) -> Any:
    if name.startswith("env."):
        return plan.env.get(name.removeprefix("env."))
    return getattr(run, name, None) if name in Run._fields else run.profile.get(name)


def _caught(trap: Mapping[str, Any], value: Any) -> bool:
    if trap["equals"] is not None and str(value) == trap["equals"]:
        return True
    try:
        number = float(value)
    except (TypeError, ValueError):
        return False
    above, below = trap["above"], trap["below"]
    return (above is not None and number > above) or (below is not None and number < below)
