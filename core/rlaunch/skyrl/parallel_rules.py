"""Rules of parallelism: heads, experts, context, and how ranks lie on nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rlaunch.codes import rule
from rlaunch.skyrl.case import Case, Fault

_ENGINE = "generator.inference_engine_"
TP, EP, DCP = (
    f"{_ENGINE}tensor_parallel_size",
    f"{_ENGINE}expert_parallel_size",
    f"{_ENGINE}decode_context_parallel_size",
)
MP = f"{_ENGINE}mp_backend"
R3 = "generator.engine_init_kwargs.enable_return_routed_experts"
ASYNC = "generator.engine_init_kwargs.async_scheduling"
FSDP = "trainer.policy.fsdp_config"
PLACEMENT = "trainer.placement"


@rule("skyrl.tp-heads")
def tp_divides_heads(case: Case) -> Iterator[Fault]:
    """The tensor-parallel size does not divide the model's attention heads.

    vLLM gives each rank whole heads; a model of 42 heads never runs with 8 ranks. The number of heads
    comes from the recipe, the model's `config.json` or rlaunch's table.
    """
    tp, heads = case.count(TP), case.facts.heads
    if heads and heads % tp:
        fits = [n for n in (1, 2, 4, 8) if heads % n == 0]
        message = (
            f"{tp} tensor-parallel ranks do not divide the {heads} heads of `{case.run.model_path}`"
        )
        yield Fault(TP, message, f"`inference_engine_tensor_parallel_size: {fits[-1]}`")


@rule("skyrl.dcp-too-large")
def dcp_fits_kv_heads(case: Case) -> Iterator[Fault]:
    """Decode context parallelism is larger than the copies of a key-value head.

    The limit is TP / key-value heads: only ranks that would hold the same head can share its context. TP
    must be a multiple of it as well.
    """
    tp, dcp, kv = case.count(TP), case.count(DCP), case.facts.kv_heads
    if tp % dcp:
        yield Fault(
            DCP,
            f"{tp} tensor-parallel ranks are no multiple of {dcp} for decode context",
            "choose a divisor",
        )
    elif kv and dcp > 1 and dcp > tp // kv:
        message = (
            f"decode context parallelism of {dcp} exceeds {tp} / {kv} key-value heads = {tp // kv}"
        )
        yield Fault(
            DCP, message, f"`inference_engine_decode_context_parallel_size: {max(1, tp // kv)}`"
        )


@rule("skyrl.engine-experts")
def engine_experts_match(case: Case) -> Iterator[Fault]:
    """Expert parallelism of an engine is not its TP × DP.

    SkyRL asserts that an engine's expert-parallel size, when above 1, is tensor × data parallel size.
    """
    ep, world = case.count(EP), case.count(TP) * case.count(f"{_ENGINE}data_parallel_size")
    if ep > 1 and ep != world:
        yield Fault(
            EP,
            f"expert parallelism of {ep} is not the engine's TP × DP = {world}",
            f"write {world}, or 1",
        )


@rule("skyrl.experts")
def experts_split_evenly(case: Case) -> Iterator[Fault]:
    """The experts of a layer do not split evenly over EP and FSDP ranks.

    (experts // EP) must be a multiple of the FSDP size, which shards each rank's experts along their
    first dimension.
    """
    experts = case.facts.experts
    ep, fsdp = case.count(f"{FSDP}.expert_model_parallel_size"), case.count(f"{FSDP}.fsdp_size", 1)
    key = f"{FSDP}.expert_model_parallel_size"
    if experts is None or (ep == 1 and not experts):
        return
    if not experts:
        yield Fault(
            key,
            f"`{case.run.model_path}` has no experts, and expert parallelism is {ep}",
            "write 1",
        )
    elif experts % ep or experts // ep % fsdp:
        message = (
            f"{experts} experts over {ep} ranks, then over FSDP size {fsdp}, do not come out even"
        )
        yield Fault(
            key,
            message,
            f"(experts // EP) % FSDP size must be 0: {experts} // {ep} = {experts // ep}",
        )


@rule("skyrl.policy-world")
def policy_world_divides(case: Case) -> Iterator[Fault]:
    """The policy's GPUs are no multiple of context × expert × FSDP size."""
    nodes, gpus = (
        case.count(f"{PLACEMENT}.policy_num_nodes"),
        case.count(f"{PLACEMENT}.policy_num_gpus_per_node"),
    )
    names = ("context_parallel_size", "expert_model_parallel_size", "fsdp_size")
    sizes = [case.count(f"{FSDP}.{name}") for name in names]
    product = sizes[0] * sizes[1] * sizes[2]
    if case.run.gpus_per_node and nodes * gpus % product:
        parts = " × ".join(
            f"{size} ({name})" for size, name in zip(sizes, names, strict=True) if size > 1
        )
        message = f"the policy's {nodes}×{gpus} = {nodes * gpus} GPUs are no multiple of {parts} = {product}"
        yield Fault(FSDP, message, "change the sizes, or the policy's nodes")


@rule("skyrl.cp-gdn")
def context_parallel_needs_attention(case: Case) -> Iterator[Fault]:
    """Context parallelism with a model of Gated DeltaNet layers.

    Linear attention carries a state along the sequence, which ring attention cannot split (Qwen3-Next).
    """
    if case.count(f"{FSDP}.context_parallel_size") > 1 and case.facts.gdn:
        message = f"`{case.run.model_path}` has Gated DeltaNet layers, which context parallelism cannot split"
        yield Fault(f"{FSDP}.context_parallel_size", message, "`context_parallel_size: 1`")


@rule("skyrl.cp-packing")
def context_parallel_excludes_packing(case: Case) -> Iterator[Fault]:
    """Context parallelism together with sample packing or flash attention of variable length.

    SkyRL's defaults are true for both, so both have to be written out as false.
    """
    if case.count(f"{FSDP}.context_parallel_size") == 1:
        return
    for key in ("trainer.use_sample_packing", "trainer.flash_attn"):
        if case.truth(key, True):
            said = "is on" if case.value(key) is not None else "is on by default"
            yield Fault(
                key,
                f"`{key}` {said}, and context parallelism excludes it",
                f"`{key.rpartition('.')[2]}: false`",
            )


@rule("skyrl.r3-dcp")
def routed_experts_with_dcp(case: Case) -> Iterator[Fault]:
    """Returned routed experts (R3) with decode context parallelism, without its three conditions.

    The fork of vLLM allows the pair only with VLLM_ALLOW_ROUTED_EXPERTS_DCP=1, with the Ray executor
    (`inference_engine_mp_backend: false`) and with `async_scheduling: false`.
    """
    if not case.truth(R3) or case.count(DCP) == 1:
        return
    pair = "routed experts are returned under decode context parallelism"
    if case.env.get("VLLM_ALLOW_ROUTED_EXPERTS_DCP") != "1":
        yield Fault(
            "extra_env",
            f"{pair}, and `VLLM_ALLOW_ROUTED_EXPERTS_DCP` is not `1`",
            'add it to `extra_env`: "1"',
        )
    if case.truth(MP):
        yield Fault(
            MP, f"{pair}, which needs the Ray executor", "`inference_engine_mp_backend: false`"
        )
    if case.truth(ASYNC, True):
        yield Fault(
            ASYNC, f"{pair}, which needs `async_scheduling: false`", "`async_scheduling: false`"
        )


@rule("skyrl.mp-colocated")
def mp_backend_needs_own_gpus(case: Case) -> Iterator[Fault]:
    """The multiprocessing executor with colocated engines.

    It needs GPUs of its own; engines that share the policy's run under Ray.
    """
    if case.colocated and case.truth(MP):
        yield Fault(
            MP,
            "the multiprocessing executor cannot share GPUs with the policy",
            "`inference_engine_mp_backend: false`",
        )


@rule("skyrl.colocated-scatter", waivable=True)
def colocated_groups_scatter(case: Case) -> Iterator[Fault]:
    """Colocated over several nodes with tensor parallelism: the ranks of a group may lie on several nodes.

    The shared placement group is not packed strictly, so a group's ranks were scattered over nodes and gloo
    refused the connection. Where the trainer packs them, `--allow skyrl.colocated-scatter`.
    """
    if case.colocated and case.run.nodes > 1 and case.count(TP) > 1:
        ranks = f"{case.count(TP)} tensor-parallel ranks of one engine"
        message = f"{ranks} may be scattered over {case.run.nodes} nodes"
        yield Fault(
            f"{PLACEMENT}.colocate_all",
            message,
            "run on one node, with TP 1, or with `colocate_all: false`",
        )


@rule("skyrl.policy-not-reserved", level="warning")
def policy_nodes_are_reserved(case: Case) -> Iterator[Fault]:
    """Policy nodes that engines may take first.

    `policy_strict_spread_pg: true` reserves the policy's nodes before engines start; without it, groups
    that must lie inside one node may find none free.
    """
    wide = max(case.count(TP), case.count("teacher.inference_engine_tensor_parallel_size"))
    several = case.count(f"{PLACEMENT}.policy_num_nodes") > 1
    if (
        not case.colocated
        and several
        and wide > 1
        and not case.truth(f"{PLACEMENT}.policy_strict_spread_pg")
    ):
        message = f"groups of {wide} GPUs and a policy of several nodes compete for whole nodes"
        yield Fault(PLACEMENT, message, "`policy_strict_spread_pg: true`")


@rule("skyrl.ref-placement")
def ref_shares_the_placement(case: Case) -> Iterator[Fault]:
    """The reference model shares the policy's GPUs, but is placed on another number of them.

    SkyRL asserts equal node and GPU counts while `colocate_policy_ref` is true (its default).
    """
    algorithm = "trainer.algorithm.use_kl"
    used = case.truth(f"{algorithm}_loss", True) or case.truth(f"{algorithm}_in_reward")
    if not used or not case.truth(f"{PLACEMENT}.colocate_policy_ref", True):
        return
    for name in ("num_nodes", "num_gpus_per_node"):
        policy, ref = (
            case.value(f"{PLACEMENT}.policy_{name}"),
            case.value(f"{PLACEMENT}.ref_{name}"),
        )
        if policy is not None and ref is not None and policy != ref:
            message = f"`ref_{name}` is {ref}, and the policy that it shares GPUs with has {policy}"
            yield Fault(f"{PLACEMENT}.ref_{name}", message, f"`ref_{name}: {policy}`")


@rule("skyrl.model-unknown", level="note")
def model_is_unknown(case: Case) -> Iterator[Fault]:
    """Heads and experts of the model are not known, so rules about them were not checked.

    Give `model_num_attention_heads` in the recipe, or a local model with its `config.json`.
    """
    wanted = case.count(TP) > 1 or case.count(f"{FSDP}.expert_model_parallel_size") > 1
    if wanted and case.facts.heads is None:
        message = (
            f"heads and experts of `{case.run.model_path}` are unknown, so they are not checked"
        )
        yield Fault(
            "trainer.policy.model.path", message, "`model_num_attention_heads: N` in the recipe"
        )


RULES = (
    tp_divides_heads, dcp_fits_kv_heads, engine_experts_match, experts_split_evenly, policy_world_divides,
    context_parallel_needs_attention, context_parallel_excludes_packing, routed_experts_with_dcp,
    mp_backend_needs_own_gpus, colocated_groups_scatter, policy_nodes_are_reserved, ref_shares_the_placement,
    model_is_unknown,
)  # fmt: skip
