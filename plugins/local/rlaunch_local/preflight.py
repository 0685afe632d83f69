"""Whether a plan can work on this machine right now. Read-only."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from rlaunch import resumption
from rlaunch.cluster import PreflightQuery
from rlaunch.model import Finding, Plan
from rlaunch.settings import size_in_bytes
from rlaunch.shell import Shell
from rlaunch_local import observe

OLDEST = (3, 10)
"""The node agent's floor."""
_ASK = (
    "import sys, importlib.util as u\n"
    "print(*sys.version_info[:2], *(n for n in sys.argv[1:] if u.find_spec(n)))\n"
)
"""Finds modules without importing them: Ray's import alone takes half a second."""


def check(query: PreflightQuery, shell: Shell) -> Iterator[Finding]:
    """Yield what is wrong, but for the checks that the operator skips (by code, or its last part)."""
    if sys.platform != "linux":
        yield Finding("error", "local.not-linux", f"this machine runs `{sys.platform}`, not Linux")
        return
    for finding in _all(query.plan, shell):
        if not {finding.code, finding.code.partition(".")[2]} & query.skip:
            yield finding


def _all(plan: Plan, shell: Shell) -> Iterable[Finding]:
    yield from interpreter(plan, shell)
    yield from ports(plan)
    yield from directories(plan)
    yield from checkpoint(plan)
    yield from disk(plan)
    yield from memory(plan)
    yield from shared_memory(plan)
    yield from gpus(plan)


def interpreter(plan: Plan, shell: Shell) -> Iterator[Finding]:
    """Ask the job's interpreter for its version and for Ray (and NumPy, for the toy trainer)."""
    python = plan.run.python
    wanted = ("ray", "numpy") if "rlaunch-smoke.pyz" in plan.command.artifacts else ("ray",)
    done = shell.run([python, "-c", _ASK, *wanted], timeout=8)
    if done.code != 0:
        why = done.err.strip().splitlines()[-1] if done.err.strip() else f"exit code {done.code}"
        yield Finding(
            "error", "local.no-python", f"the job's interpreter `{python}` does not start: {why}",
            "python", "`--set python=/path/to/venv/bin/python`",
        )  # fmt: skip
        return
    major, minor, *found = done.out.split()
    if (int(major), int(minor)) < OLDEST:
        yield Finding(
            "error", "local.no-ray", f"`{python}` is Python {major}.{minor}; the job needs 3.10 or later",
            "python", "`--set python=/path/to/venv/bin/python`",
        )  # fmt: skip
    for name in (n for n in wanted if n not in found):
        yield Finding(
            "error", "local.no-ray", f"`{python}` has no `{name}`, which the job needs", "python",
            f"`{python} -m pip install {name}`, or `--set python=…` for another interpreter",
        )  # fmt: skip


def ports(plan: Plan) -> Iterator[Finding]:
    """Try every planned port, on every address: Ray binds some of them to all of the machine's."""
    for node in plan.native["ranks"]:
        names = {**node["ports"], "guard": node["guard"]}
        if busy := [f"{n} {p}" for n, p in names.items() if not observe.can_bind(p)]:
            yield Finding(
                "error", "local.port-busy", f"rank {node['rank']} cannot have its ports: {', '.join(busy)}",
                f"ranks[{node['rank']}].ports", "plan the run again: free ports are looked for then",
            )  # fmt: skip
        if not observe.can_bind(0, node["ip"]):
            yield Finding(
                "error", "local.port-busy", f"rank {node['rank']} cannot have the address `{node['ip']}`",
                f"ranks[{node['rank']}].ip", "the loopback interface must be up: `ip link set lo up`",
            )  # fmt: skip


def _existing(path: Path) -> Path:
    return next(p for p in (path, *path.parents) if p.exists())


def directories(plan: Plan) -> Iterator[Finding]:
    """Look whether the directories of the run can be made and written."""
    paths = plan.run.paths
    places = {
        "run_dir": paths.run_dir, "data_root": paths.data, "rendezvous_dir": paths.rendezvous,
        "artifacts_dir": paths.artifacts, "temp_root": str(Path(plan.native["ray_temp"]).parent),
    }  # fmt: skip
    if any(Path(paths.run_dir).glob("*")):
        yield Finding(
            "error", "local.run-exists", f"the run directory `{paths.run_dir}` holds a run already",
            "run_dir", "make a new plan: a run id is used once",
        )  # fmt: skip
    for name, place in places.items():
        there = _existing(Path(place))
        if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
            yield Finding(
                "error", "local.not-writable", f"`{place}` cannot be written: `{there}` does not let us",
                name, f"`--set {name}=DIR` places it elsewhere",
            )  # fmt: skip


def checkpoint(plan: Plan) -> Iterator[Finding]:
    """Look whether the checkpoint that the run goes on from lies on this machine."""
    start = resumption.start_of(plan)
    if start is None:
        return
    place = Path(start.where)
    folder = place if place.is_dir() else place.parent
    near = resumption.newest(map(str, folder.glob("global_step_*")))
    seen = resumption.Seen("file" if place.exists() else "nothing", near=near)
    if place.is_dir():
        full = (place / "policy").is_dir() if start.known else any(place.iterdir())
        seen = resumption.Seen("folder", full, near)
    yield from resumption.judge_start(start, seen, "on this machine", "local.no-checkpoint")


def disk(plan: Plan) -> Iterator[Finding]:
    """Compare the free disk with what the profile asks for."""
    least = size_in_bytes(plan.run.profile["min_disk"])
    for name, place in (
        ("run_dir", plan.run.paths.run_dir),
        ("temp_root", plan.native["ray_temp"]),
    ):
        free = observe.disk_free(Path(place))
        if free is not None and free < least:
            yield Finding(
                "error", "local.no-disk",
                f"`{place}` has {_size(free)} free, and a run wants {_size(least)}",
                name, f"free some, `--set {name}=DIR`, or `--set min_disk=SIZE`",
            )  # fmt: skip


def memory(plan: Plan) -> Iterator[Finding]:
    """Compare the available memory with what the pretended nodes take."""
    need = size_in_bytes(plan.run.profile["node_needs"])
    free = observe.memory("MemAvailable")
    if free is not None and free < need * plan.run.nodes:
        yield Finding(
            "error", "local.no-memory",
            f"{plan.run.nodes} nodes take {_size(need * plan.run.nodes)}, and {_size(free)} are available",
            "nodes", "fewer nodes, or `--set node_needs=SIZE` if you know better",
        )  # fmt: skip


def shared_memory(plan: Plan) -> Iterator[Finding]:
    """Compare /dev/shm with the object stores of all nodes."""
    want = size_in_bytes(plan.run.profile["object_store"]) * plan.run.nodes
    free = observe.disk_free(Path("/dev/shm"))  # noqa: S108  # looked at, not written
    if free is not None and free < want:
        yield Finding(
            "warning", "local.small-shm", f"`/dev/shm` has {_size(free)}, object stores take {_size(want)}",
            "object_store", "a larger `--shm-size` for the container, or `--set object_store=SIZE`",
        )  # fmt: skip


def gpus(plan: Plan) -> Iterator[Finding]:
    """Say when several pretended nodes would meet on one real GPU."""
    real, promised = observe.gpus(), plan.run.nodes * plan.run.gpus_per_node
    if 0 < real < promised:
        yield Finding(
            "warning", "local.gpus-shared", f"{promised} GPUs are promised to Ray, the machine has {real}",
            "gpus_per_node", f"`--gpus_per_node {real // plan.run.nodes}`",
        )  # fmt: skip


def _size(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB"
