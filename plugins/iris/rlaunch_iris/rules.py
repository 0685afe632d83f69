"""The rules of Iris: pure, asked for every plan before it is shown or sent, and again at submit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from rlaunch.codes import Code, rule
from rlaunch.model import Finding, Plan, Run
from rlaunch.settings import size_in_bytes
from rlaunch_iris import image_rules, planning, sizing
from rlaunch_iris.image_rules import error, in_pods, warning
from rlaunch_iris.observe import seen_findings


@rule("iris.skyrl-nowhere")
def reference_has_a_place(run: Run, plan: Plan) -> Iterable[Finding]:
    """`--skyrl-ref` is given, and the cluster's images have no MarinSkyRL to check it out in.

    The profile's `skyrl_dir` says where the clone lies inside the image.
    """
    if run.skyrl_ref and not run.profile["skyrl_dir"]:
        yield error(
            "iris.skyrl-nowhere", "no directory of MarinSkyRL is known, so nothing can be checked out",
            "--skyrl-ref", "`--set skyrl_dir=/opt/skyrl`, or leave `--skyrl-ref` out",
        )  # fmt: skip


@rule("iris.too-large")
def node_can_hold_it(run: Run, plan: Plan) -> Iterable[Finding]:
    """One node is asked for more than any node has.

    What is allocatable lies below what a node is sold with: of 128 cores 127.96, of 2 TiB about 2014 GiB. A
    request above it is never admitted, and the controller says `running` all the while.
    """
    profile = run.profile
    if run.cpu and run.cpu > profile["node_cpu"]:
        yield error(
            "iris.too-large", f"{run.cpu:g} cores never fit: a node has {profile['node_cpu']:g} to give",
            "--cpu", "`--cpu 48` fits all nodes",
        )  # fmt: skip
    for name in ("memory", "disk"):
        asked = sizing.decide(run, name, {}).amount
        most = size_in_bytes(profile[f"node_{name}"])
        if asked > most:
            yield error(
                "iris.too-large",
                f"{sizing.show(asked)} of {name} never fit: a node has {sizing.show(most)} to give",
                f"--{name}", f"`--{name} auto` takes what fits",
            )  # fmt: skip


@rule("iris.cpu-crowded", level="warning")
def cores_leave_room(run: Run, plan: Plan) -> Iterable[Finding]:
    """So many cores are free on very few nodes.

    Pods of the system hold about 64 of a node's 128 cores for good. At 64 cores 2 of 32 nodes fitted, and a
    gang of more sat SchedulingGated for ever; 48 fits all.
    """
    limit = run.profile["crowded_cpu"]
    if limit and run.cpu and limit <= run.cpu <= run.profile["node_cpu"]:
        yield warning(
            "iris.cpu-crowded", f"{run.cpu:g} cores are free on few nodes: the system holds the rest",
            "--cpu", "`--cpu 48` fits all nodes",
        )  # fmt: skip


@rule("iris.memory-low", level="warning")
def memory_holds_the_offload(run: Run, plan: Plan) -> Iterable[Finding]:
    """The memory is less than a run with `cpu_offload` has been seen to need.

    With weights and optimizer in host memory a forward pass peaked at 1303 GiB; 512 GB was killed by the
    kernel, 1400 GB was reached to the byte.
    """
    offload = [key for key in plan.command.argv if re.search(r"cpu_offload=(?:true|True)\Z", key)]
    asked = sizing.decide(run, "memory", plan.observed.facts)
    if offload and in_pods(run) and asked.amount < size_in_bytes(run.profile["offload_memory"]):
        yield warning(
            "iris.memory-low", f"{sizing.show(asked.amount)} of memory ({asked.why}) with `cpu_offload`; "
            "forward passes peaked at 1303 GiB", "--memory", "`--memory auto`, on nodes that are free",
        )  # fmt: skip


@rule("iris.partial-node")
def nodes_are_whole(run: Run, plan: Plan) -> Iterable[Finding]:
    """The run asks for a part of a node's GPUs.

    Pods use the node's network and fixed ports, so two gangs on one node would collide; a node belongs to
    one run.
    """
    whole = run.profile["node_gpus"]
    if in_pods(run) and run.gpus_per_node not in (0, whole):
        yield error(
            "iris.partial-node", f"{run.gpus_per_node} GPUs per node, and a node of {whole} is taken whole",
            "--gpus_per_node", f"`--gpus_per_node {whole}`",
        )  # fmt: skip


@rule("iris.rendezvous-local")
def gang_can_meet(run: Run, plan: Plan) -> Iterable[Finding]:
    """A gang of several nodes would meet in a directory that is on one pod only.

    Pods share no disk. The rendezvous must be an `s3://` place under the cluster's storage root.
    """
    local = not run.paths.rendezvous.startswith("s3://") and not run.profile["shared_storage"]
    if run.nodes > 1 and local:
        yield error(
            "iris.rendezvous-local",
            f"`{run.paths.rendezvous}` is seen by one pod only, and {run.nodes} must meet",
            "--rendezvous-dir", "leave `--rendezvous-dir` out, or give an `s3://` place",
        )  # fmt: skip


@rule("iris.storage-pod-local")
def checkpoints_survive(run: Run, plan: Plan) -> Iterable[Finding]:
    """Checkpoints would lie in the pod, and the run may be started again.

    A retry begins in a new pod: it would start at step 0 without a word. Either the storage root is in the
    object store, or there are no retries.
    """
    local = not run.paths.storage.startswith("s3://") and not run.profile["shared_storage"]
    if local and run.max_retries > 0:
        yield error(
            "iris.storage-pod-local", f"checkpoints in `{run.paths.storage}` are gone with the pod, and "
            f"max_retries is {run.max_retries}", "storage_root",
            "use an `s3://` storage root, or `--max-retries 0`",
        )  # fmt: skip


@rule("iris.band-restricted", level="warning")
def band_is_allowed(run: Run, plan: Plan) -> Iterable[Finding]:
    """The priority band is for administrators.

    The controller refuses `production` from anybody else; `interactive` is the highest band without.
    """
    if run.priority == "production":
        yield warning(
            "iris.band-restricted", "the band `production` is refused from all but administrators",
            "--priority", "`--priority interactive`",
        )  # fmt: skip


@rule("iris.not-seen", level="warning")
def everything_was_seen(run: Run, plan: Plan) -> Iterable[Finding]:
    """Something could not be looked at before planning.

    The profile's values stand in for it; preflight looks again.
    """
    for name, reason in sorted((plan.observed.facts.get("unseen") or {}).items()):
        yield warning(
            "iris.not-seen", f"{name} could not be looked at: {reason}", name,
            "`--offline` plans without looking; preflight looks again",
        )  # fmt: skip


def what_was_seen(run: Run, plan: Plan) -> Iterator[Finding]:
    """Repeat what was found while the workspace was packed and Iris's own file was looked at."""
    yield from seen_findings(plan.observed.facts)


@rule("iris.plan-differs")
def plan_is_its_run(run: Run, plan: Plan) -> Iterable[Finding]:
    """The plan's request is not what its run comes to.

    What is submitted is what the plan's files and request say, so those must follow from the run that the
    rules were asked about. They do unless the plan was edited, or made by another version of this plugin.
    """
    again = planning.plan_run(run, plan.command, plan.observed)
    if again.native != plan.native or again.files != plan.files or again.secrets != plan.secrets:
        yield error(
            "iris.plan-differs", "the plan's request or files are not what its run comes to", "",
            "make the plan again with `rlaunch plan`",
        )  # fmt: skip


RULES = (
    *image_rules.RULES,
    reference_has_a_place,
    node_can_hold_it,
    cores_leave_room,
    memory_holds_the_offload,
    nodes_are_whole,
    gang_can_meet,
    checkpoints_survive,
    band_is_allowed,
    everything_was_seen,
    plan_is_its_run,
)
CODES: tuple[Code, ...] = tuple(r.code for r in RULES)  # type: ignore[attr-defined]  # set by @rule
