"""What is free on the nodes: allocatable minus the requests of bound pods, per node and resource. Pure.

It reads the objects of a Kubernetes listing as they are. The exact forecast of Kueue's answer (topology,
quota, priorities) is a matter of its own and can grow on `Node`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from rlaunch_iris.sizing import show

GPU = "nvidia.com/gpu"
_QUANTITY = re.compile(r"([0-9]+\.?[0-9]*(?:[eE][+-]?[0-9]{1,2})?)([numkKMGTPE]?i?)\Z", re.ASCII)
_FACTORS = {"": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3}
_FACTORS |= {unit: 1000.0**power for power, unit in enumerate("MGTPE", 2)}
_FACTORS |= {f"{unit}i": 1024.0**power for power, unit in enumerate("KMGTPE", 1)}
OVER = frozenset({"Succeeded", "Failed"})


class Amounts(NamedTuple):
    """Amounts of what a pod asks for: cores, bytes, bytes, GPUs."""

    cpu: float = 0.0
    memory: int = 0
    disk: int = 0
    gpus: int = 0

    def minus(self, other: Amounts) -> Amounts:
        """Return what is left; never below zero."""
        return Amounts(*(max(0, a - b) for a, b in zip(self, other, strict=True)))  # type: ignore[arg-type]  # field by field

    def plus(self, other: Amounts) -> Amounts:
        """Return the sum."""
        return Amounts(*(a + b for a, b in zip(self, other, strict=True)))  # type: ignore[arg-type]  # field by field


class Node(NamedTuple):
    """One node that may take pods."""

    name: str
    allocatable: Amounts
    free: Amounts
    cordoned: bool = False
    """Not schedulable now, or not ready."""
    group: str = ""
    """Its leaf of the network."""


def quantity(text: Any) -> float:
    """Read a Kubernetes quantity (`127960m`, `2014Gi`, `1e3`); 0 for what is none."""
    match = _QUANTITY.match(str(text).strip())
    if match is None or match[2] not in _FACTORS:
        return 0.0
    return float(match[1]) * _FACTORS[match[2]]


def amounts(said: Mapping[str, Any] | None) -> Amounts:
    """Read a mapping of resources to quantities."""
    said = said or {}
    return Amounts(
        quantity(said.get("cpu", 0)), int(quantity(said.get("memory", 0))),
        int(quantity(said.get("ephemeral-storage", 0))), int(quantity(said.get(GPU, 0))),
    )  # fmt: skip


def request_of(pod: Mapping[str, Any]) -> Amounts:
    """Return what a pod holds: its containers together, or its largest init container, as the kubelet counts.

    An init container that restarts always is a sidecar and counts with the containers.
    """
    spec = pod.get("spec") or {}
    total, largest = Amounts(), Amounts()
    for container in spec.get("containers") or ():
        total = total.plus(_asked(container))
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            total = total.plus(_asked(container))
        else:
            largest = _most(largest, _asked(container))
    return _most(total, largest).plus(amounts(spec.get("overhead")))


def _most(one: Amounts, other: Amounts) -> Amounts:
    return Amounts(*(max(a, b) for a, b in zip(one, other, strict=True)))  # type: ignore[arg-type]  # field by field


def _asked(container: Mapping[str, Any]) -> Amounts:
    said = container.get("resources") or {}
    return amounts({**(said.get("limits") or {}), **(said.get("requests") or {})})


def survey(
    nodes: Iterable[Mapping[str, Any]], pods: Iterable[Mapping[str, Any]], *, jobs: bool = True
) -> list[Node]:
    """Join a listing of nodes and one of pods; pods that have ended hold nothing.

    Without `jobs` the pods of Iris's jobs hold nothing either: what is left will never be free.
    """
    held: dict[str, Amounts] = {}
    for pod in pods:
        if not jobs and ((pod.get("metadata") or {}).get("labels") or {}).get("iris.managed"):
            continue
        where = (pod.get("spec") or {}).get("nodeName")
        if where and (pod.get("status") or {}).get("phase") not in OVER:
            held[where] = held.get(where, Amounts()).plus(request_of(pod))
    return [_node(node, held) for node in nodes]


def _node(node: Mapping[str, Any], held: Mapping[str, Amounts]) -> Node:
    meta, status = node.get("metadata") or {}, node.get("status") or {}
    name = str(meta.get("name"))
    total = amounts(status.get("allocatable"))
    ready = any(
        c.get("type") == "Ready" and c.get("status") == "True"
        for c in status.get("conditions") or ()
    )
    cordoned = bool((node.get("spec") or {}).get("unschedulable")) or not ready
    group = str((meta.get("labels") or {}).get("backend.coreweave.cloud/leafgroup", ""))
    return Node(name, total, total.minus(held.get(name, Amounts())), cordoned, group)


def of_shape(nodes: Iterable[Node], gpus: int) -> list[Node]:
    """Return the nodes that have the GPUs at all, and may be scheduled on."""
    return [n for n in nodes if not n.cordoned and n.allocatable.gpus >= gpus]


def summary(nodes: Sequence[Node], wanted: int, gpus: int) -> dict[str, Any]:
    """Return what planning needs of a survey, as plain data.

    `smallest_*` is over all nodes of the shape; `free_*` is what the last of the `wanted` emptiest nodes
    with all their GPUs free has (absent where there are not so many).
    """
    shaped = of_shape(nodes, gpus)
    if not shaped:
        return {"count": 0, "idle": 0}
    idle = [n for n in shaped if n.free.gpus >= gpus]
    found: dict[str, Any] = {
        "count": len(shaped),
        "idle": len(idle),
        "smallest_cpu": min(n.allocatable.cpu for n in shaped),
        "smallest_memory": min(n.allocatable.memory for n in shaped),
        "smallest_disk": min(n.allocatable.disk for n in shaped),
    }
    if len(idle) >= wanted:
        for name in ("memory", "disk"):
            best = sorted((getattr(n.free, name) for n in idle), reverse=True)
            found[f"free_{name}"] = best[wanted - 1]
    return found


def shortfall(nodes: Sequence[Node], wanted: int, need: Amounts) -> str:
    """Return why `wanted` nodes with `need` are not free now; empty where they are.

    Names the resource that keeps most nodes out, and a number of cores that would fit.
    """
    shaped = of_shape(nodes, need.gpus)
    fit = [n for n in shaped if all(a >= b for a, b in zip(n.free, need, strict=True))]
    if len(fit) >= wanted:
        return ""
    what = [f"{need.gpus} GPUs"] if need.gpus else []
    what += [f"{need.cpu:g} cpu", show(need.memory), f"{show(need.disk)} disk"]
    head = f"needs {wanted} node(s) with {', '.join(what)}; {len(fit)} of {len(shaped)} have it free now"
    names = ("cpu", "memory", "disk", "gpus")
    lacking = {n: sum(getattr(x.free, n) < getattr(need, n) for x in shaped) for n in names}
    parts = [f"{n} is short on {count}" for n, count in lacking.items() if count]
    return f"{head}{': ' if parts else ''}{', '.join(parts)}"


def fitting_cpu(nodes: Sequence[Node], wanted: int, need: Amounts) -> int | None:
    """Return the most cores (a multiple of 4) with which the gang would fit now; None where cpu is not it."""
    others = [
        n.free.cpu
        for n in of_shape(nodes, need.gpus)
        if n.free.memory >= need.memory and n.free.disk >= need.disk and n.free.gpus >= need.gpus
    ]
    if len(others) < wanted:
        return None
    best = int(sorted(others, reverse=True)[wanted - 1]) // 4 * 4
    return best if 0 < best < need.cpu else None
