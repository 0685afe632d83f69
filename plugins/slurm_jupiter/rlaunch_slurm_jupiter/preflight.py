"""Can the plan work here? Read-only questions to the site, each a check that can be skipped by name."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from rlaunch.cluster import PreflightQuery
from rlaunch.model import Finding, Plan, Run
from rlaunch.settings import size_in_bytes
from rlaunch.shell import Done, Shell
from rlaunch.skyrl.derive import data_directory
from rlaunch_slurm_jupiter import nodelist, queries, source
from rlaunch_slurm_jupiter.checkpoints import compare_shards, look_for_checkpoint
from rlaunch_slurm_jupiter.container import container_of
from rlaunch_slurm_jupiter.planning import TOY
from rlaunch_slurm_jupiter.site import Site
from rlaunch_slurm_jupiter.wording import OWNER, last_words, not_asked, problem

T = TypeVar("T")
MISSING = 3
"""What our own question about a file ends with where there is none."""
ARCHES = {"02": "x86_64", "04": "aarch64"}
"""SIF's numbers of architectures."""
DOWN = (
    "down",
    "drain",
    "drained",
    "draining",
    "fail",
    "failing",
    "error",
    "future",
    "power_down",
    "unknown",
    "inval",
)
_SPACE = (
    'd=$1; while [ ! -d "$d" ]; do d=$(dirname -- "$d"); done; '
    '[ -w "$d" ] && echo writable || echo locked; '
    'df -Pk -- "$d"; df -Pi -- "$d"; printf "%s\\n" "$HOME"'
)


def check(query: PreflightQuery, site: Site, shell: Shell) -> Iterator[Finding]:
    """Ask every check that is not skipped. A site that cannot be reached is one finding, not ten.

    `shell` is this machine's, where the workspace lies.
    """
    plan = query.plan
    if "source" not in query.skip:
        yield from source.judge(shell, plan)
    reached = site.run(("true",), timeout=30)
    if reached.code != 0:
        yield problem(
            "host", f"`{site.host or 'this machine'}` runs no commands: {last_words(reached)}", "host",
            f"`ssh {site.host} true` must work without a question" if site.host else "see `rlaunch doctor`",
        )  # fmt: skip
        return
    for name, ask in CHECKS.items():
        if name not in query.skip:
            yield from ask(query, plan, site)


def _space(query: PreflightQuery, plan: Plan, site: Site) -> Iterable[Finding]:
    profile, root = plan.run.profile, plan.run.paths.run_dir
    done = site.run(("sh", "-c", _SPACE, "sh", root))
    lines = done.out.splitlines()
    rows = [
        line.split() for line in lines if len(line.split()) >= 6 and line.split()[3].isdecimal()
    ]
    if done.code != 0 or not lines:
        yield problem(
            "run-dir",
            f"`{root}` cannot be looked at: {last_words(done)}",
            "run_dir",
            "`--set run_dir=DIR/{run}`",
        )
        return
    if lines[0] != "writable":
        yield problem(
            "run-dir", f"`{root}` cannot be made there", "run_dir",
            f"`--set run_dir={lines[-1]}/rlaunch/{{run}}`, or another shared directory",
        )  # fmt: skip
        return
    if rows and (free := int(rows[0][3]) * 1024) < size_in_bytes(profile["min_disk"]):
        yield problem(
            "disk", f"{free >> 30} GiB are free at `{root}`, and {profile['min_disk']} are wanted", "run_dir",
            "delete old runs, or `--set run_dir=DIR/{run}` on another file system",
        )  # fmt: skip
    if len(rows) > 1 and int(rows[1][1]) > 0 and int(rows[1][3]) < profile["min_inodes"]:
        yield problem(
            "disk", f"{rows[1][3]} more files fit at `{root}`, and {profile['min_inodes']} are wanted",
            "run_dir", "delete old runs: a job without inodes ends with 0:53 and an empty log",
        )  # fmt: skip


def _image(query: PreflightQuery, plan: Plan, site: Site) -> Iterable[Finding]:
    container = container_of(plan.run, ())
    if container is None:
        return
    script = f'[ -e "$1" ] || exit {MISSING}; [ -d "$1" ] || head -c 48 "$1"'
    done = site.run(("sh", "-c", script, "sh", container.sif))
    place = plan.run.recipe.at("container.sif") if "container" in plan.run.recipe.body else "sif"
    if done.code == MISSING:
        yield problem(
            "sif", f"there is no image `{container.sif}`", place, "`--set sif=PATH` names another"
        )
        return
    if done.code != 0:
        yield not_asked(
            f"the image `{container.sif}` could not be looked at: {last_words(done)}", place, "sif"
        )
        return
    number = done.out[45:47] if done.out[32:41] == "SIF_MAGIC" else ""
    arch, wanted = ARCHES.get(number), plan.run.profile["arch"]
    if arch and wanted and arch != wanted:
        yield problem(
            "sif", f"the image is built for {arch}, and the nodes are {wanted}", place,
            "build it on a node of this cluster, or name another one with `--set sif=PATH`",
        )  # fmt: skip


def _read(done: Done, read: Callable[[str], T]) -> T:
    """Read what a tool printed. Raises NotAnswered, also where the tool failed."""
    if done.code != 0:
        raise queries.NotAnswered(last_words(done))
    return read(done.out)


def _nodes(query: PreflightQuery, plan: Plan, site: Site) -> Iterable[Finding]:
    run, profile = plan.run, plan.run.profile
    done = site.run(queries.ask_nodes(profile["partition"]))
    try:
        seen = _read(done, queries.read_nodes)
    except queries.NotAnswered as error:
        yield not_asked(f"sinfo gave no list of nodes: {error}", "sinfo", "nodes")
        return
    bad = {n for b in profile["bad_nodes"] for n in nodelist.expand(b["nodes"])}
    want = 0 if profile["gpu_request"] == "none" else run.gpus_per_node
    fit = [
        n
        for n, (gpus, state) in seen.items()
        if gpus >= want and n not in bad and state not in DOWN
    ]
    if len(fit) < run.nodes:
        where = (
            f"partition `{profile['partition']}`"
            if profile["partition"]
            else "the default partition"
        )
        yield problem(
            "nodes", f"{where} has {len(fit)} usable node(s) with {want} GPUs, and {run.nodes} are wanted",
            "--num-nodes", "`sinfo` shows them; `--set partition=NAME` chooses another partition",
        )  # fmt: skip


def _taken(query: PreflightQuery, plan: Plan, site: Site) -> Iterable[Finding]:
    script = next(f.content for f in plan.files if f.path == "job.sh")
    script = "\n".join(row for row in script.split("\n") if not row.startswith("#SBATCH --chdir"))
    done = site.batch(("sbatch", "--test-only"), stdin=script, timeout=60)
    if done.code == 0:
        if match := re.search(r"to start at (\S+)", done.err + done.out):
            yield Finding(
                "note",
                f"{OWNER}.start",
                f"SLURM would start it at {match[1]}",
                "sbatch --test-only",
            )
        return
    said = last_words(done)
    yield problem(
        "refused", f"SLURM would not take the job: {said}", "sbatch --test-only",
        "`--set account=NAME`, `--set partition=NAME`; `sacctmgr show assoc user=$USER` lists yours",
    )  # fmt: skip


def _running(query: PreflightQuery, plan: Plan, site: Site) -> Iterable[Finding]:
    limit = plan.run.profile["running_runs"]
    if not limit:
        return
    done = site.run(queries.ask_running())
    try:
        names = _read(done, queries.read_running)
    except queries.NotAnswered as error:
        yield not_asked(f"squeue gave no list of runs: {error}", "squeue", "running-runs")
        return
    if len(names) >= limit:
        yield problem(
            "running-runs", f"{len(names)} runs are there already, and {limit} may be", "running_runs",
            f"`rlaunch stop` one of {', '.join(f'`{n}`' for n in names[:6])}",
        )  # fmt: skip


def _staged(query: PreflightQuery, plan: Plan, site: Site) -> Iterable[Finding]:
    """Without internet, model and data lie on the shared file system before the job starts."""
    run = plan.run
    if run.profile["egress"] or TOY in plan.command.artifacts:
        return
    wanted = [_model(plan)]
    for name in (*run.train_data, *run.val_data):
        where = data_directory(run.paths.data, name)
        wanted.append((f"data `{name}`", where, "--train_data", _stage(run, site, name)))
    script = (
        'for p; do case $p in "~/"*) p=$HOME/${p#"~/"};; esac; '
        '[ -n "$(ls -A -- "$p" 2>/dev/null)" ] && echo yes || echo no; done'
    )
    done = site.run(("sh", "-c", script, "sh", *(w[1] for w in wanted)))
    answers = done.out.split()
    if done.code != 0 or len(answers) != len(wanted):
        what = f"nobody could look whether model and data are there: {last_words(done)}"
        yield not_asked(what, run.paths.data, "staged")
        return
    for (what, where, place, hint), answer in zip(wanted, answers, strict=True):
        if answer == "no":
            yield problem(
                "not-staged", f"{what} is not at `{where}`, and the compute nodes have no internet",
                place, hint,
            )  # fmt: skip


def _model(plan: Plan) -> tuple[str, str, str, str]:
    """Return the model: what it is, where it must lie, which flag named it, how it gets there."""
    name, place = plan.run.model_path, "--model_path"
    if name.startswith("/"):
        return f"model `{name}`", name, place, f"`{place} DIR` names one that is there"
    home = plan.env.get("HF_HOME") or plan.run.profile["hf_home"]
    cache = f"{home or '~/.cache/huggingface'}/hub"  # where the hub's library looks by itself
    fetch = f"hf download {shlex.quote(name)}"
    if home:
        fetch = f"HF_HOME={shlex.quote(home)} {fetch}"
    where = f"{cache}/models--{name.replace('/', '--')}/snapshots"
    return f"model `{name}`", where, place, f"on the login node: `{fetch}`"


def _stage(run: Run, site: Site, name: str) -> str:
    """Return what to type where rlaunch is installed; a login node elsewhere gets the agent through ssh."""
    if name.startswith("/"):
        return "`--train_data '[\"DIR\"]'` names one that is there"
    words = shlex.join(("stage", "--data-root", run.paths.data, name))
    ours = shlex.quote(sys.executable)
    if not site.host:
        return f"`{ours} -m rlaunch.node {words}`; it needs `huggingface_hub`"
    there = f"cat >rlaunch-node.pyz && {shlex.quote(run.python)} rlaunch-node.pyz {words}"
    return (
        f"`{ours} -m rlaunch.zipapps rlaunch-node.pyz | ssh {shlex.quote(site.host)} {shlex.quote(there)}`; "
        "it needs `huggingface_hub` there"
    )


CHECKS: dict[str, Callable[[PreflightQuery, Plan, Site], Iterable[Finding]]] = {
    "run-dir": _space,
    "sif": _image,
    "nodes": _nodes,
    "running-runs": _running,
    "staged": _staged,
    "checkpoint": look_for_checkpoint,
    "world-size": compare_shards,
    "test-only": _taken,
}
