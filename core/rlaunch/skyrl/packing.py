"""Do the roles fit the nodes? Tensor-parallel groups stay inside a node. Pure."""

from __future__ import annotations

from rlaunch.model import Finding
from rlaunch.skyrl.geometry import PLACEMENT, Budget, Role, Shape

_TP_KEY = "generator.inference_engine_tensor_parallel_size"


def judge(draft: Budget, shape: Shape, gpn: int, hint: int | None) -> Budget:
    """Complete a budget: the nodes that it needs, and what does not fit.

    A budget that has an error already keeps `nodes=None`.
    """
    findings = [*draft.findings, *_too_wide(draft, shape, gpn)]
    if any(finding.level == "error" for finding in findings):
        return draft._replace(nodes=None, findings=tuple(findings))
    needed = _needed(draft, shape, gpn)
    least = -(-draft.total // gpn)
    if hint is not None and hint != needed:
        findings.append(_mismatch(draft, needed, gpn, hint))
    elif needed > least:
        findings.append(_fragmented(draft, needed, least, gpn, shape))
    elif needed * gpn > draft.total:
        findings.append(_left_over(draft, needed, gpn))
    return draft._replace(nodes=needed, findings=tuple(findings))


def _too_wide(draft: Budget, shape: Shape, gpn: int) -> list[Finding]:
    found = []
    teacher = [role for role in draft.roles if role.name == "teacher"]
    groups = [(_TP_KEY, shape.tp)]
    groups += [("teacher.inference_engine_tensor_parallel_size", role.size) for role in teacher]
    for key, size in groups:
        if size > gpn:
            message = f"a tensor-parallel group of {size} GPUs does not fit a node of {gpn}"
            fix = f"`{key.rpartition('.')[2]}: {gpn}` or less"
            found.append(Finding("error", "skyrl.tp-crosses-node", message, key, fix))
    if shape.policy_gpus and shape.policy_gpus > gpn:
        key = f"{PLACEMENT}.policy_num_gpus_per_node"
        written = f"{shape.policy_nodes or 1}×{shape.policy_gpus}"
        message = f"the policy's {written} GPUs do not come out even on nodes of {gpn}"
        fix = f"choose a world size that {gpn} divides"
        found.append(Finding("error", "skyrl.policy-too-wide", message, key, fix))
    return found


def _needed(draft: Budget, shape: Shape, gpn: int) -> int:
    """Return the smallest number of nodes on which all groups find a place."""
    nodes = max(1, -(-draft.total // gpn))
    while not _fits(draft, shape, gpn, nodes):
        nodes += 1
    return nodes


def _fits(draft: Budget, shape: Shape, gpn: int, nodes: int) -> bool:
    free = [gpn] * nodes
    for role in draft.roles:
        if role.shares:
            continue
        size = role.size
        if (
            role.name == "engines"
        ):  # pipeline and data ranks may lie on other nodes, a TP group may not
            groups = role.gpus // shape.tp
            size = shape.tp
        else:
            groups = role.units
        if not _take(free, groups, size, spread=role.name == "policy" and shape.spread):
            return False
    return True


def _take(free: list[int], groups: int, size: int, *, spread: bool) -> bool:
    """Place groups on the first nodes that have room; with `spread` one per node."""
    for index in range(len(free)):
        count = min(groups, free[index] // size, 1 if spread else groups)
        free[index] -= count * size
        groups -= count
        if not groups:
            return True
    return groups == 0


def _mismatch(draft: Budget, needed: int, gpn: int, hint: int) -> Finding:
    message = (
        f"the recipe needs {draft.arithmetic()} = {_nodes(needed, draft.total, gpn)}, not {hint}"
    )
    return Finding(
        "error", "skyrl.nodes-mismatch", message, "", f"`--num-nodes {needed}`, or leave it out"
    )


def _nodes(needed: int, total: int, gpn: int) -> str:
    word = f"{needed} node{'s' if needed > 1 else ''} of {gpn}"
    if -(-total // gpn) < needed:
        return f"{word} (a group stays inside a node)"
    return word if needed * gpn == total else f"{word} ({needed * gpn - total} GPUs left over)"


def _fragmented(draft: Budget, needed: int, least: int, gpn: int, shape: Shape) -> Finding:
    message = (
        f"{draft.arithmetic()} would be {least} nodes of {gpn}, but a tensor-parallel group stays inside "
        f"a node ({gpn} // {shape.tp} = {gpn // shape.tp} groups each): {needed} nodes, "
        f"{needed * gpn - draft.total} GPUs idle"
    )
    fix = f"a size that divides {gpn} leaves none idle"
    return Finding("warning", "skyrl.gpus-left-over", message, _TP_KEY, fix)


def _left_over(draft: Budget, needed: int, gpn: int) -> Finding:
    idle = needed * gpn - draft.total
    message = (
        f"{draft.arithmetic()} on {needed} nodes of {gpn}: {idle} of {needed * gpn} GPUs stay idle"
    )
    fix = (
        "nodes are whole; add engines, or take fewer"
        if _has_engines(draft.roles)
        else "nodes are whole"
    )
    return Finding("warning", "skyrl.gpus-left-over", message, PLACEMENT, fix)


def _has_engines(roles: tuple[Role, ...]) -> bool:
    return any(role.name == "engines" and not role.shares for role in roles)
