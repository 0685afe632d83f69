"""Is the checkpoint that a run goes on from there, and does it fit? Asked of the site, read-only."""

from __future__ import annotations

import re
from collections.abc import Iterable

from rlaunch import resumption
from rlaunch.cluster import PreflightQuery
from rlaunch.model import Finding, Plan
from rlaunch_slurm_jupiter.container import container_of
from rlaunch_slurm_jupiter.planning import argument
from rlaunch_slurm_jupiter.site import Site
from rlaunch_slurm_jupiter.wording import OWNER, last_words, not_asked, problem

_LOOK = (
    'if [ -d "$1" ]; then in=$1; kind=folder; else in=$(dirname -- "$1"); '
    'if [ -e "$1" ]; then kind=file; else kind=nothing; fi; fi; full=no; '
    'if [ "$2" ]; then [ -d "$1/$2" ] && full=yes; '
    'elif [ -n "$(ls -A -- "$1" 2>/dev/null)" ]; then full=yes; fi; echo "$kind $full"; '
    'for p in "$in"/global_step_*; do printf "%s\\n" "$p"; done'
)


def look_for_checkpoint(query: PreflightQuery, plan: Plan, site: Site) -> Iterable[Finding]:
    """The checkpoint to go on from lies on the site, where the job will read it."""
    start = _start_of(plan)
    if start is None:
        return
    done = site.run(("sh", "-c", _LOOK, "sh", start.where, "policy" if start.known else ""))
    head, *near = done.out.splitlines() or [""]
    kind, _, full = head.partition(" ")
    if done.code != 0 or kind not in ("folder", "file", "nothing"):
        what = f"nobody could look for the checkpoint `{start.path}`: {last_words(done)}"
        yield not_asked(what, start.flag, "checkpoint")
        return
    seen = resumption.Seen(kind, full == "yes", resumption.newest(near))
    there = f"on `{site.host}`" if site.host else "on this machine"
    yield from resumption.judge_start(start, seen, there, f"{OWNER}.no-checkpoint")


def _start_of(plan: Plan) -> resumption.Start | None:
    """Return the checkpoint that the job goes on from, where the site itself can see it."""
    start = resumption.start_of(plan)
    if start is None or _inside_only(plan, start.path):
        return None
    return start._replace(cwd=plan.command.cwd or plan.native["source"] or start.cwd)


def _inside_only(plan: Plan, path: str) -> bool:
    """Tell whether a bind shows another directory at that path inside the container."""
    container = container_of(plan.run, ())
    for bind in container.binds if container else ():
        source, _, rest = bind.partition(":")
        target = rest.partition(":")[0]
        if target and target != source and f"{path}/".startswith(f"{target.rstrip('/')}/"):
            return True
    return False


def compare_shards(query: PreflightQuery, plan: Plan, site: Site) -> Iterable[Finding]:
    """The shards of a checkpoint to resume fit the number of ranks that will read them."""
    start = _start_of(plan)
    nodes = argument(plan.command, "trainer.placement.policy_num_nodes")
    gpus = argument(plan.command, "trainer.placement.policy_num_gpus_per_node")
    if start is None or not (nodes and gpus and nodes.isdecimal() and gpus.isdecimal()):
        return
    done = site.run(("sh", "-c", 'ls -1 -- "$1" "$1/policy" 2>/dev/null; :', "sh", start.where))
    if done.code != 0:
        what = f"the shards of `{start.path}` could not be listed: {last_words(done)}"
        yield not_asked(what, start.flag, "world-size")
        return
    found = {int(n) for n in re.findall(r"model_world_size_(\d+)_rank_\d+\.pt", done.out)}
    if found and found != {int(nodes) * int(gpus)}:
        has = ", ".join(map(str, sorted(found)))
        yield problem(
            "world-size", f"{has} ranks wrote the checkpoint, and {int(nodes) * int(gpus)} would read it",
            start.flag, "give the policy as many GPUs as it had, or start anew without `--resume`",
        )  # fmt: skip
