"""The placement of a recipe on nodes of another size: whole, or refused with the arithmetic. Pure."""

from __future__ import annotations

from rlaunch.porting.changes import Draft
from rlaunch.skyrl import geometry
from rlaunch.skyrl.entrypoints import TOY
from rlaunch.skyrl.tree import count

TP = "generator.inference_engine_tensor_parallel_size"
DCP = "generator.inference_engine_decode_context_parallel_size"


def translate(draft: Draft) -> None:
    """Lay placement and engines on the target's nodes; the GPUs of every role stay what they are."""
    gpus = int(draft.target.get("gpus_per_node") or 0)
    if gpus < 1 or draft.value("entrypoint") == TOY:
        return
    for role in geometry.ROLES:
        _role(draft, role, gpus)
    if _engines(draft, gpus):
        _judge(draft, gpus)


def _role(draft: Draft, role: str, gpus: int) -> None:
    nodes_key = f"{geometry.PLACEMENT}.{role}_num_nodes"
    gpus_key = f"{geometry.PLACEMENT}.{role}_num_gpus_per_node"
    theirs = int((draft.source or {}).get("gpus_per_node") or 0)
    nodes, written = count(draft.body, nodes_key, 0), count(draft.body, gpus_key, 0)
    size = written or (theirs if nodes else 0)
    if not size or size == gpus:
        return
    if not nodes:
        if size == theirs:  # whole nodes, as many as there are
            draft.set(gpus_key, gpus, f"whole nodes, which have {gpus} GPUs on `{draft.here}`")
        return
    world = nodes * size
    fewer, rest = divmod(world, gpus)
    if rest:
        return  # part of a node: the sum of all roles is judged below
    reason = f"{nodes}×{size} = {world} GPUs = {fewer}×{gpus}: the world size stays"
    draft.set(nodes_key, fewer, reason)
    if written:
        draft.set(gpus_key, gpus, reason)


def _engines(draft: Draft, gpus: int) -> bool:
    """Split engines that are wider than a node, where that was accepted. False: it was not."""
    tp = count(draft.body, TP, geometry.TP_DEFAULT)
    if tp <= gpus:
        return True
    narrow = max(size for size in range(1, gpus + 1) if tp % size == 0)
    engines = count(draft.body, geometry.ENGINES, 0)
    sums = (
        f"{engines}×{tp} = {engines * tp} GPUs = {engines * tp // narrow}×{narrow}"
        if engines
        else ""
    )
    said = f"a tensor-parallel group of {tp} GPUs does not fit a node of {gpus}"
    changes = {TP: (narrow, f"{said}{f': {sums}' if sums else ''}")}
    dcp = count(draft.body, DCP, 1)
    if dcp > 1:
        fewer = max(1, dcp * narrow // tp)
        why = f"engines are narrower: {dcp} of {tp} GPUs are {fewer} of {narrow}"
        changes[DCP] = fewer, why
    asked = [key for key in changes if not draft.accepted(key)]
    for key in asked:
        value, why = changes[key]
        draft.say("error", "port.tensor-parallel", why, key, f"`--accept {key}` makes it {value}")
    if asked:
        return False
    for key, (value, why) in changes.items():
        draft.set(key, value, why)
    if engines:
        draft.set(geometry.ENGINES, engines * tp // narrow, sums)
    return True


def _judge(draft: Draft, gpus: int) -> None:
    """Refuse what does not fit the target's nodes, or leaves GPUs idle that were busy before."""
    after = geometry.budget(draft.body, gpus, None)
    errors = [found for found in after.findings if found.level == "error"]
    for found in errors:
        draft.findings.append(found._replace(place=draft.recipe.at(found.place)))
    if errors or after.nodes is None:
        return
    idle = after.nodes * gpus - after.total if after.total else 0
    theirs = int((draft.source or {}).get("gpus_per_node") or 0)
    before = geometry.budget(draft.recipe.body, theirs, None) if theirs else None
    was_whole = (
        before is not None and before.nodes is not None and before.nodes * theirs == before.total
    )
    if idle and was_whole:
        draft.say(
            "error", "port.geometry",
            f"{after.arithmetic()} / {gpus} = {after.total / gpus:g} nodes: on {after.nodes} of "
            f"`{draft.here}`, {idle} of {after.nodes * gpus} GPUs would stay idle",
            geometry.PLACEMENT, "change the sizes in the recipe first, so that they make whole nodes on both",
        )  # fmt: skip
