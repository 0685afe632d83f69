"""How many GPUs each role of a recipe takes, and how many nodes that makes. Pure.

    disaggregated   policy nodes × GPUs + ref (only with a share of its own) + critic
                    + engines × TP × PP × DP + teacher engines × TP × PP × DP
    colocated       everything shares the policy's GPUs; a teacher has its own

A tensor-parallel group never crosses a node, so nodes can be needed for whole groups that the bare
number of GPUs does not show.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from rlaunch.model import Finding
from rlaunch.skyrl.tree import count, look, placed, truth

PLACEMENT = "trainer.placement"
ROLES = ("policy", "ref", "critic")
ENGINES = "generator.num_inference_engines"
TP_DEFAULT = 4
"""SkyRL's own default (skyrl-train 0.3.1, ppo_base_config.yaml); a recipe without the key gets it in
writing, so that what was computed is what runs."""
_TP, _PP, _DP = (
    f"inference_engine_{axis}_parallel_size" for axis in ("tensor", "pipeline", "data")
)


class Role(NamedTuple):
    """The GPUs of one role: `units` of `size` GPUs each (a node's share, or one TP group)."""

    name: str
    units: int
    size: int
    shares: str = ""
    """Name of the role whose GPUs it uses; such a role adds nothing."""

    @property
    def gpus(self) -> int:
        """GPUs that the role takes for itself."""
        return 0 if self.shares else self.units * self.size


class Budget(NamedTuple):
    """The arithmetic of a recipe on nodes of one size."""

    nodes: int | None
    """Nodes that the recipe needs (where it leaves that open: the nodes asked for, or 1); None only
    together with an error."""
    total: int
    """GPUs that all roles take; 0 where the recipe leaves it open."""
    roles: tuple[Role, ...]
    findings: tuple[Finding, ...]
    """`place` is a key of the recipe; empty: the flag `--num-nodes`."""
    engines: int | None = None
    """Inference engines, computed where the recipe leaves them null."""
    colocated: bool = False

    def arithmetic(self) -> str:
        """Return the sum in words: `8 (policy) + 48×1 (engines) = 56 GPUs`."""
        parts = [f"{_product(r)} ({r.name})" for r in self.roles if r.gpus]
        return f"{' + '.join(parts)} = {self.total} GPUs" if parts else "no GPUs"


def _product(role: Role) -> str:
    return f"{role.units}×{role.size}" if role.units > 1 and role.size > 0 else str(role.gpus)


class Shape(NamedTuple):
    """The sizes that a recipe writes down; None where it leaves them open."""

    colocated: bool
    policy_nodes: int | None
    policy_gpus: int | None
    engines: int | None
    tp: int
    pp: int
    dp: int
    spread: bool
    """Policy ranks on distinct nodes (`policy_strict_spread_pg`)."""

    @property
    def per_engine(self) -> int:
        """GPUs of one inference engine."""
        return self.tp * self.pp * self.dp


def shape_of(body: Mapping[str, Any]) -> Shape:
    """Read the sizes from a recipe's body (overrides applied)."""
    return Shape(
        colocated=truth(body, f"{PLACEMENT}.colocate_all", True),
        policy_nodes=_optional(body, f"{PLACEMENT}.policy_num_nodes"),
        policy_gpus=_optional(body, f"{PLACEMENT}.policy_num_gpus_per_node"),
        engines=_optional(body, ENGINES),
        tp=count(body, f"generator.{_TP}", TP_DEFAULT),
        pp=count(body, f"generator.{_PP}", 1),
        dp=count(body, f"generator.{_DP}", 1),
        spread=truth(body, f"{PLACEMENT}.policy_strict_spread_pg"),
    )


def _optional(body: Mapping[str, Any], path: str) -> int | None:
    return count(body, path, 0) or None


def budget(body: Mapping[str, Any], gpus_per_node: int, nodes_hint: int | None) -> Budget:
    """Return the GPUs and nodes of a recipe (`body` with overrides applied) on nodes of one size.

    `nodes_hint` is what the operator asked for, or None. Faults are findings.
    """
    from rlaunch.skyrl import packing

    bad = tuple(_bad_numbers(body))
    if nodes_hint is not None and nodes_hint < 1:
        bad += (_nodes_error(f"{nodes_hint} nodes are asked for", "ask for at least one node"),)
    if bad:
        return Budget(None, 0, (), bad)
    if gpus_per_node < 1 or look(body, "entrypoint") == "rlaunch.smoke":
        return _without_gpus(body, gpus_per_node, nodes_hint)
    body, notes = reshape(body, gpus_per_node)
    shape = shape_of(body)
    plan = _colocated if shape.colocated else _disaggregated
    draft = plan(body, shape, gpus_per_node, nodes_hint)
    draft = draft._replace(findings=(*notes, *draft.findings))
    return packing.judge(draft, shape, gpus_per_node, nodes_hint)


def reshape(
    body: Mapping[str, Any], gpus_per_node: int
) -> tuple[Mapping[str, Any], tuple[Finding, ...]]:
    """Lay a placement that was written for nodes of another size on nodes of this one.

    The world size stays: 8 nodes × 4 GPUs become 4 × 8. What does not come out even is left as it is
    (and is an error where a node is too small). Every change is a note.
    """
    notes = []
    for role in ROLES:
        nodes_key, gpus_key = (
            f"{PLACEMENT}.{role}_num_nodes",
            f"{PLACEMENT}.{role}_num_gpus_per_node",
        )
        nodes, gpus = _optional(body, nodes_key), _optional(body, gpus_key)
        if nodes is None or gpus is None or gpus == gpus_per_node or nodes * gpus % gpus_per_node:
            continue
        fewer = nodes * gpus // gpus_per_node
        body = placed(placed(body, nodes_key, fewer), gpus_key, gpus_per_node)
        message = (
            f"the {role}'s {nodes}×{gpus} GPUs become {fewer}×{gpus_per_node}: "
            f"nodes of this cluster have {gpus_per_node}"
        )
        spread = f"`--skyrl_override {gpus_key}={gpus}` keeps them spread out"
        hint = spread if gpus < gpus_per_node else ""
        notes.append(Finding("note", "skyrl.placement-reshaped", message, gpus_key, hint))
    return body, tuple(notes)


def _bad_numbers(body: Mapping[str, Any]) -> list[Finding]:
    keys = [f"{PLACEMENT}.{r}_num_{n}" for r in ROLES for n in ("nodes", "gpus_per_node")]
    keys += [
        f"{s}.{k}"
        for s in ("generator", "teacher")
        for k in (_TP, _PP, _DP, "num_inference_engines")
    ]
    found = []
    for key in keys:
        value = look(body, key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
            continue
        message = f"`{key}` is `{value}` and has to be a whole number of at least 1"
        found.append(
            Finding("error", "skyrl.not-a-count", message, key, f"`{key.rpartition('.')[2]}: 1`")
        )
    return found


def _without_gpus(body: Mapping[str, Any], gpus_per_node: int, hint: int | None) -> Budget:
    """Nodes of the toy trainer, which takes CPUs, and of any recipe on nodes without GPUs."""
    written = _optional(body, f"{PLACEMENT}.policy_num_nodes")
    if look(body, "entrypoint") == "rlaunch.smoke":
        if hint is not None and written is not None and hint != written:
            message = f"the recipe is written for {written} nodes, and {hint} are asked for"
            return Budget(
                None, 0, (), (_nodes_error(message, f"`--num-nodes {written}`, or leave it out"),)
            )
        return Budget(written or hint or 1, 0, (), (), colocated=True)
    message = "the recipe needs GPUs, and a node of this cluster has none"
    hint_text = "`--gpus_per_node 8` (on `local` they are only counted), or another `--cluster`"
    return Budget(None, 0, (), (Finding("error", "skyrl.no-gpus", message, PLACEMENT, hint_text),))


def _teacher(body: Mapping[str, Any]) -> tuple[Role, ...]:
    if not isinstance(look(body, "teacher"), Mapping):
        return ()
    sizes = [count(body, f"teacher.{axis}", 1) for axis in (_TP, _PP, _DP)]
    groups = count(body, "teacher.num_inference_engines", 1) * sizes[1] * sizes[2]
    return (Role("teacher", groups, sizes[0]),)


def _learners(body: Mapping[str, Any], nodes: int, gpus: int, colocated: bool) -> tuple[Role, ...]:
    """Policy, ref and critic. A ref model exists only with a KL term, and shares unless told not to."""
    policy = Role("policy", nodes, gpus)
    roles = [policy]
    algorithm = "trainer.algorithm"
    if truth(body, f"{algorithm}.use_kl_loss", True) or truth(
        body, f"{algorithm}.use_kl_in_reward"
    ):
        shared = colocated or truth(body, f"{PLACEMENT}.colocate_policy_ref", True)
        ref_nodes = count(body, f"{PLACEMENT}.ref_num_nodes", nodes)
        ref_gpus = count(body, f"{PLACEMENT}.ref_num_gpus_per_node", gpus)
        roles.append(Role("ref", ref_nodes, ref_gpus, "policy" if shared else ""))
    if look(body, "trainer.critic.model.path"):
        critic_nodes = count(body, f"{PLACEMENT}.critic_num_nodes", nodes)
        critic_gpus = count(body, f"{PLACEMENT}.critic_num_gpus_per_node", gpus)
        roles.append(Role("critic", critic_nodes, critic_gpus, "policy" if colocated else ""))
    return tuple(roles)


def _colocated(body: Mapping[str, Any], shape: Shape, gpn: int, hint: int | None) -> Budget:
    teacher = _teacher(body)
    extra = sum(role.gpus for role in teacher)
    gpus = shape.policy_gpus or gpn
    nodes = shape.policy_nodes or max(1, (hint or 1) - -(-extra // gpn))
    engines = shape.engines or max(1, nodes * gpus // shape.per_engine)
    roles = (
        *_learners(body, nodes, gpus, True),
        Role("engines", engines, shape.per_engine, "policy"),
    )
    findings = []
    if engines * shape.per_engine != nodes * gpus:
        key = ENGINES if shape.engines else f"generator.{_TP}"
        right, rest = divmod(nodes * gpus, shape.per_engine)
        message = (
            f"colocated engines take {engines}×{shape.per_engine} = {engines * shape.per_engine} GPUs, "
            f"and the policy that they share has {nodes}×{gpus} = {nodes * gpus}"
        )
        fix = (
            f"`num_inference_engines: {right}`"
            if not rest
            else "choose a size that divides the GPUs"
        )
        findings.append(Finding("error", "skyrl.colocated-sum", message, key, fix))
    total = nodes * gpus + extra
    return Budget(None, total, (*roles, *teacher), tuple(findings), engines, True)


def _disaggregated(body: Mapping[str, Any], shape: Shape, gpn: int, hint: int | None) -> Budget:
    gpus = shape.policy_gpus or gpn
    teacher = _teacher(body)
    if shape.policy_nodes is None:
        return _no_policy(shape, gpus, sum(r.gpus for r in teacher), gpn, hint)
    learners = _learners(body, shape.policy_nodes, gpus, False)
    taken = sum(role.gpus for role in (*learners, *teacher))
    if shape.engines is None:
        return _no_engines(shape, learners, taken, gpn, hint)
    engines = Role("engines", shape.engines, shape.per_engine)
    roles = (*learners, engines, *teacher)
    return Budget(None, sum(r.gpus for r in roles), roles, (), shape.engines)


def _no_engines(
    shape: Shape, learners: tuple[Role, ...], taken: int, gpn: int, hint: int | None
) -> Budget:
    """Policy and engines on GPUs of their own: the number of engines is a decision, with its value."""
    size = shape.per_engine
    message = f"`{ENGINES}` is null, and policy and engines do not share GPUs"
    if hint is None:
        fix = f"write the number: (nodes × {gpn} − {taken}) / {size}"
    else:
        number, rest = divmod(max(0, hint * gpn - taken), size)
        message += (
            f": {hint}×{gpn} − {taken} = {hint * gpn - taken} GPUs are left for engines of {size}"
        )
        fix = f"`num_inference_engines: {number}`" if number else "ask for more nodes"
        fix += f" ({rest} GPUs stay idle)" if number and rest else ""
    return Budget(
        None, 0, learners, (Finding("error", "skyrl.engines-missing", message, ENGINES, fix),)
    )


def _no_policy(shape: Shape, gpus: int, extra: int, gpn: int, hint: int | None) -> Budget:
    key = f"{PLACEMENT}.policy_num_nodes"
    message = f"`{key}` is null, and policy and engines do not share GPUs"
    fix = "write the number of nodes that the policy takes"
    if hint is not None and shape.engines is not None:
        left = hint * gpn - extra - shape.engines * shape.per_engine
        nodes, rest = divmod(left, gpus)
        message += (
            f": {left} of {hint}×{gpn} GPUs are left of engines{' and teacher' if extra else ''}"
        )
        fix = f"`policy_num_nodes: {nodes}`" if nodes >= 1 and not rest else fix
    return Budget(None, 0, (), (Finding("error", "skyrl.policy-missing", message, key, fix),))


def _nodes_error(message: str, hint: str) -> Finding:
    return Finding("error", "skyrl.nodes-mismatch", message, "", hint)
