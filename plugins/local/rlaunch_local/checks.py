"""Rules about a planned local run. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from rlaunch.codes import Code, rule
from rlaunch.model import Finding, Plan, Run
from rlaunch.settings import size_in_bytes
from rlaunch_local import planning
from rlaunch_local.inheritance import asks_for_too_much

SOCKET_LIMIT = 107
"""Bytes of a unix socket's path (sun_path holds 108 with the final zero)."""
SMALLEST_STORE = 75 * 1024**2
"""Ray's OBJECT_STORE_MINIMUM_MEMORY_BYTES."""
MOST = 10**14
"""Ray's MAX_RESOURCE_QUANTITY: it does not start with more of anything (Ray 2.60, `to_resource_dict`)."""
MOST_PORTS = 512
"""Of `ports_per_node`, as the profile takes it."""
TAKEN = len(planning.PORTS) + 2
"""Ports of a node's block that are no worker's: beside the named ones the guard's and the driver's."""
SESSION = 64
"""Bytes that Ray 2.60 appends: `/session_2026-12-01_10-00-00_000000_1234567/sockets/plasma_store`."""


@rule("local.long-path")
def sockets_fit(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ray's socket paths would be longer than 107 bytes.

    Ray makes unix sockets below its temporary directory; the kernel takes paths of at most 107 bytes
    and Ray dies with an assertion. `--set temp_root=/tmp` is short enough.
    """
    temp = f"{plan.native['ray_temp']}/{run.max_retries + 1}"
    if (length := len(temp.encode()) + SESSION) > SOCKET_LIMIT:
        yield Finding(
            "error",
            "local.long-path",
            f"Ray's sockets below `{temp}` would have paths of {length} bytes, "
            f"{length - SOCKET_LIMIT} too many",
            "temp_root",
            "`--set temp_root=/tmp`",
        )


@rule("local.pretended-gpus", level="note")
def gpus_are_pretended(run: Run, plan: Plan) -> Iterable[Finding]:
    """The GPUs of this run are pretended.

    Ray gets them as a resource and places by them, so a cluster's recipe plans unchanged; no process
    finds a GPU behind the number, unless the machine has some. The toy trainer needs none.
    """
    if run.gpus_per_node and not plan.observed.facts.get("gpus"):
        yield Finding(
            "note",
            "local.pretended-gpus",
            f"{run.nodes} × {run.gpus_per_node} GPUs are pretended: this machine was seen to have none",
            "gpus_per_node",
            "`--gpus_per_node 0` for none",
        )


@rule("local.inherit-refused")
def inherits_no_credentials(run: Run, plan: Plan) -> Iterable[Finding]:
    """`inherit` asks for what never comes from the operator's shell.

    Storage credentials (`AWS_*`, `R2_*`) of the shell would replace those that the job is meant to use,
    and rlaunch's own names (`RLAUNCH_*`, `RAY_ADDRESS`, `RAY_AUTH_*` …) would lead the job to another
    run or another Ray. They are kept back whatever `inherit` says; an entry that asks for them, a bare
    `*` among them, is refused so that nobody relies on it. List the names that the job needs.
    """
    for entry in plan.native["inherit"]:
        if asks_for_too_much(entry):
            yield Finding(
                "error",
                "local.inherit-refused",
                f"`inherit` asks for `{entry}`: credentials and rlaunch's own names never come "
                "from the shell",
                "inherit",
                "list the names that the job needs, or put secrets into the secrets file",
            )


@rule("local.too-many-nodes")
def nodes_have_ports(run: Run, plan: Plan) -> Iterable[Finding]:
    """More pretended nodes than this machine has ports for.

    Every node has a block of `ports_per_node` ports between `first_port` and 32767, above which the
    kernel hands ports to connections. The shipped profile has room for 133 nodes; what other programs
    listen on is missing from that. A plan for more nodes has no agents for the rest of them.
    """
    first, size = run.profile["first_port"], run.profile["ports_per_node"]
    most, seen = planning.blocks(first, size), plan.observed.facts.get("blocks")
    free = most if seen is None else len(seen)
    if run.nodes > min(most, free):
        have = f"from port {first} on there are {most}" + (f", {free} of them free" * (free < most))
        yield Finding(
            "error",
            "local.too-many-nodes",
            f"{run.nodes} nodes want a block of {size} ports each, and {have}",
            "--num-nodes",
            f"`--num-nodes {max(1, min(most, free))}` at most",
        )


@rule("local.path-relative")
def paths_are_absolute(run: Run, plan: Plan) -> Iterable[Finding]:
    """A directory of the run, or its interpreter, is a relative path.

    The agents, Ray and the trainer have working directories of their own, so that a relative path means
    another place to each. `{home}`, `{state}` and `{workspace}` stand for the usual roots.
    """
    for name, path in _paths(run):
        if "://" not in path and not path.startswith("/"):
            yield Finding(
                "error", "local.path-relative", f"`{path}` is a relative path", name,
                f"`--set {name}=/…`, from the root",
            )  # fmt: skip


@rule("local.path-remote")
def paths_are_here(run: Run, plan: Plan) -> Iterable[Finding]:
    """A directory of the run is a URL.

    On this machine the run's own files, staged data and the rendezvous lie in directories; only
    checkpoints (`storage_root`) can lie in a store, which the trainer reaches by itself.
    """
    for name, path in _paths(run):
        if "://" in path and name != "storage_root":
            yield Finding(
                "error", "local.path-remote", f"`{path}` is no directory of this machine", name,
                f"`--set {name}=/…`, a directory",
            )  # fmt: skip


def _paths(run: Run) -> Iterator[tuple[str, str]]:
    """Yield setting and path; what merely lies below a run directory that is wrong counts once."""
    paths, temp = run.paths, str(run.profile["temp_root"])
    yield from (("run_dir", paths.run_dir), ("temp_root", temp))
    for name, path in (
        ("rendezvous_dir", paths.rendezvous),
        ("storage_root", paths.storage),
        ("data_root", paths.data),
        ("artifacts_dir", paths.artifacts),
    ):
        if path != paths.run_dir and not path.startswith(f"{paths.run_dir}/"):
            yield name, path
    if "/" in run.python:
        yield "python", run.python


@rule("local.small-store")
def store_is_large_enough(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ray's object store would be smaller than Ray takes.

    Ray refuses to start with less than 75 MiB per node. The shipped profile gives it 128 MiB.
    """
    if (size := size_in_bytes(run.profile["object_store"])) < SMALLEST_STORE:
        yield Finding(
            "error",
            "local.small-store",
            f"an object store of {size} bytes is {SMALLEST_STORE - size} fewer than Ray takes",
            "object_store",
            "`--set object_store=75MiB` or more",
        )


def _sizes(run: Run) -> Iterator[tuple[str, str, int]]:
    """Yield setting, value and bytes of what Ray is told to have on each node."""
    for name, text in (("memory", run.memory), ("object_store", run.profile["object_store"])):
        if text and text != "auto":
            yield name, str(text), size_in_bytes(text)


@rule("local.beyond-ray")
def ray_takes_the_amounts(run: Run, plan: Plan) -> Iterable[Finding]:
    """A node would have more of something than Ray can count or start.

    Ray ends at its start with more than 10^14 bytes, and it starts a worker process for every core, each
    with a port of the node's block: `ports_per_node` (512 at most) less the ten of Ray, the agent, the guard
    and the driver, which takes one as a worker does.
    """
    facts = plan.observed.facts
    for name, text, size in _sizes(run):
        if size > MOST:
            has = (
                f", this machine has {_gib(total)}" if (total := facts.get("memory_total")) else ""
            )
            yield Finding(
                "error", "local.beyond-ray", f"Ray takes no {name} of {text} on a node{has}", name,
                f"`--set {name}=SIZE` of at most 90TiB; it is a promise to tasks, not a limit",
            )  # fmt: skip
    room = _room(run)
    if run.cpu and run.cpu > room:
        has = f", this machine has {cores}" if (cores := facts.get("cpus")) else ""
        yield Finding(
            "error", "local.beyond-ray",
            f"Ray starts a process for each of {run.cpu:g} cores, and a node has ports for {room}{has}",
            "cpu", f"`--cpu {room}` at most, or {_more(run.cpu)}",
        )  # fmt: skip


@rule("local.beyond-machine", level="warning")
def machine_has_the_amounts(run: Run, plan: Plan) -> Iterable[Finding]:
    """A node is promised more memory or cores than the whole machine has.

    Ray places tasks by what it is told, so that a cluster's command line plans unchanged; tasks that use
    what they were promised then find it missing. Two cores a node are the shipped profile's own.
    """
    total, cores = plan.observed.facts.get("memory_total"), plan.observed.facts.get("cpus")
    for name, text, size in _sizes(run):
        if total and total < size <= MOST:
            yield Finding(
                "warning", "local.beyond-machine",
                f"{name} of {text} is promised on each node, and this machine has {_gib(total)}",
                name, f"`--set {name}=SIZE` of what tasks will use",
            )  # fmt: skip
    if cores and run.cpu and max(cores, 2) < run.cpu <= _room(run):
        yield Finding(
            "warning", "local.beyond-machine",
            f"{run.cpu:g} cores are promised on each node, and this machine has {cores}",
            "cpu", f"`--cpu {cores}`: Ray starts a process for each",
        )  # fmt: skip


def _room(run: Run) -> int:
    """Return how many worker processes have a port on each node, beside the driver."""
    return int(run.profile["ports_per_node"]) - TAKEN


def _more(cpu: float) -> str:
    """Say how a node gets ports for more cores, as far as the profile goes."""
    if cpu > MOST_PORTS - TAKEN:
        return f"{MOST_PORTS - TAKEN} with `--set ports_per_node={MOST_PORTS}`"
    return f"`--set ports_per_node={math.ceil(cpu) + TAKEN}`"


def _gib(count: int) -> str:
    return f"{count / 1024**3:.1f} GiB"


RULES = (
    sockets_fit,
    ray_takes_the_amounts,
    machine_has_the_amounts,
    gpus_are_pretended,
    inherits_no_credentials,
    nodes_have_ports,
    paths_are_absolute,
    paths_are_here,
    store_is_large_enough,
)
CODES: tuple[Code, ...] = tuple(r.code for r in RULES)  # type: ignore[attr-defined]  # set by @rule
