"""Keys of the trainer's base configuration, so that a typo is found before GPUs are given. Pure data.

`BASE` was read from `skyrl_train/config/` of skyrl-train 0.3.1 (PyPI), and a test compares the two.
`MARIN` has the keys that MarinSkyRL adds, each with its source. A key in neither is a warning, or an
error where it is nearly a known one. Over 300 lines: most of them are the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache

from rlaunch.codes import rule
from rlaunch.skyrl.case import Case, Fault
from rlaunch.skyrl.emit import OPEN, SECTIONS, leaves
from rlaunch.skyrl.tree import look

BASE: Mapping[str, str] = {
    "data": "train_data val_data",
    "environment": "env_class",
    "environment.skyrl_gym": "max_env_workers",
    "environment.skyrl_gym.llm_as_a_judge": "base_url model",
    "environment.skyrl_gym.search": "log_requests search_url timeout topk",
    "environment.skyrl_gym.text2sql": "db_path",
    "generator": (
        "append_eos_token_after_stop_str_in_multi_turn apply_overlong_filtering "
        "async_engine backend batched chat_template_kwargs "
        "enable_chunked_prefill enable_http_endpoint enable_prefix_caching "
        "enforce_eager engine_init_kwargs eval_n_samples_per_prompt "
        "fully_sharded_loras gpu_memory_utilization http_endpoint_host "
        "http_endpoint_port inference_engine_data_parallel_size "
        "inference_engine_expert_parallel_size "
        "inference_engine_pipeline_parallel_size "
        "inference_engine_tensor_parallel_size max_input_length "
        "max_num_batched_tokens max_num_seqs max_turns model_dtype model_name "
        "n_samples_per_prompt num_inference_engines "
        "override_existing_update_group remote_inference_engine_urls "
        "rope_scaling rope_theta run_engines_locally step_wise_trajectories "
        "use_conversation_multi_turn vllm_v1_disable_multiproc "
        "weight_sync_backend weight_transfer_threshold_cuda_ipc_GB "
        "zero_reward_on_non_stop"
    ),
    "generator.chat_template": "name_or_path source",
    "generator.eval_sampling_params": (
        "logprobs max_generate_length min_p repetition_penalty stop temperature top_k top_p"
    ),
    "generator.sampling_params": (
        "logprobs max_generate_length min_p repetition_penalty stop temperature top_k top_p"
    ),
    "trainer": (
        "bf16 ckpt_interval ckpt_path critic_mini_batch_size "
        "disable_fast_tokenizer dump_data_batch dump_eval_results epochs "
        "eval_batch_size eval_before_train eval_interval exclude_modules "
        "export_path flash_attn gradient_checkpointing "
        "gradient_checkpointing_use_reentrant hf_save_interval logger "
        "max_ckpts_to_keep max_prompt_length micro_forward_batch_size_per_gpu "
        "micro_train_batch_size_per_gpu policy_mini_batch_size project_name "
        "resume_mode resume_path rope_scaling rope_theta run_name seed "
        "sequence_parallel_backend strategy target_modules train_batch_size "
        "update_epochs_per_batch update_ref_every_epoch use_sample_packing"
    ),
    "trainer.algorithm": (
        "advantage_batch_normalize advantage_estimator clip_ratio_c "
        "entropy_loss_coef eps_clip_high eps_clip_low gamma grpo_norm_by_std "
        "kl_estimator_type kl_loss_coef lambd loss_reduction policy_loss_type "
        "tis_imp_ratio_cap use_abs_kl use_entropy_loss use_kl_estimator_k3 "
        "use_kl_in_reward use_kl_loss use_tis value_clip value_head_prefix "
        "zero_variance_filter"
    ),
    "trainer.algorithm.cispo": "cispo_eps_clip_high cispo_eps_clip_low",
    "trainer.algorithm.clip_cov": "clip_cov_lb clip_cov_ub clip_ratio",
    "trainer.algorithm.dynamic_sampling": "max_sample_batches min_replace_ratio type",
    "trainer.algorithm.kl_cov": "kl_cov_frac ppo_kl_coef",
    "trainer.algorithm.kl_ctrl": "horizon kl_target type",
    "trainer.algorithm.sapo": "tau_neg tau_pos",
    "trainer.critic": "deepspeed_config model_config_kwargs sequence_parallel_size",
    "trainer.critic.fsdp_config": "cpu_offload fsdp_size reshard_after_forward",
    "trainer.critic.model": "path",
    "trainer.critic.model.lora": "alpha dropout exclude_modules init_method rank target_modules",
    "trainer.critic.optimizer_config": (
        "adam_betas lr max_grad_norm num_warmup_steps offload_after_step scheduler weight_decay"
    ),
    "trainer.fully_async": "max_staleness_steps num_parallel_generation_workers",
    "trainer.placement": (
        "colocate_all colocate_policy_ref critic_num_gpus_per_node "
        "critic_num_nodes policy_num_gpus_per_node policy_num_nodes "
        "ref_num_gpus_per_node ref_num_nodes"
    ),
    "trainer.policy": (
        "deepspeed_config model_config_kwargs record_memory "
        "sequence_parallel_size use_torch_compile"
    ),
    "trainer.policy.fsdp_config": "cpu_offload fsdp_size reshard_after_forward",
    "trainer.policy.megatron_config": (
        "context_parallel_size empty_cuda_cache expert_model_parallel_size "
        "expert_tensor_parallel_size model_config_kwargs "
        "pipeline_model_parallel_size tensor_model_parallel_size"
    ),
    "trainer.policy.megatron_config.ddp_config": (
        "average_in_collective grad_reduce_in_fp32 overlap_grad_reduce overlap_param_gather"
    ),
    "trainer.policy.megatron_config.lora_config": "lora_type",
    "trainer.policy.megatron_config.optimizer_config_kwargs": (
        "optimizer_cpu_offload optimizer_offload_fraction "
        "overlap_cpu_optimizer_d2h_h2d use_precision_aware_optimizer"
    ),
    "trainer.policy.megatron_config.torch_profiler_config": "enable ranks save_path",
    "trainer.policy.megatron_config.transformer_config_kwargs": (
        "recompute_granularity recompute_method recompute_modules recompute_num_layers"
    ),
    "trainer.policy.model": "path",
    "trainer.policy.model.lora": (
        "alpha dropout exclude_modules init_method lora_sync_path rank target_modules"
    ),
    "trainer.policy.optimizer_config": (
        "adam_betas lr max_grad_norm num_warmup_steps offload_after_step scheduler weight_decay"
    ),
    "trainer.ref": "deepspeed_config model_config_kwargs sequence_parallel_size",
    "trainer.ref.fsdp_config": "cpu_offload fsdp_size reshard_after_forward",
    "trainer.ref.megatron_config": (
        "context_parallel_size expert_model_parallel_size "
        "expert_tensor_parallel_size model_config_kwargs "
        "pipeline_model_parallel_size tensor_model_parallel_size "
        "transformer_config_kwargs"
    ),
    "trainer.ref.model": "path",
}
"""Parent -> its keys."""

_MOE = (
    "context_parallel_size cp_rotate_method cp_style ep_comm_backend expert_model_parallel_size "
    "moe_grouped_gemm moe_router_replay"
)
MARIN: Mapping[str, Mapping[str, str]] = {
    "saved recipes of 2026, which MarinSkyRL has run": {
        "generator": (
            "enable_ray_prometheus_stats inference_engine_decode_context_parallel_size "
            "inference_engine_mp_backend timeout_multiplier vllm_stats_interval"
        ),
        "rollout.fanout": "cpus_per_coordinator enabled num_coordinators",
        "trainer": (
            "attn_backend enable_db_registration hf_hub_private hf_hub_repo_id "
            "hf_hub_revision log_level max_steps tracker_commit_each_step"
        ),
        "trainer.placement": "policy_force_cvd_mask policy_per_gpu_bundles policy_strict_spread_pg",
        "trainer.policy.fsdp_config": _MOE,
        "trainer.ref.fsdp_config": _MOE,
    },
    "keys that the older launcher marked as open (`++`)": {
        "trainer.policy.fsdp_config": "wrap_policy",
        "trainer.policy.optimizer_config": "optimizer optimizer_kwargs",
        "trainer.ref.fsdp_config": "wrap_policy",
    },
    "the newer recipe schema (marin_56GPU_qwen3_8b)": {
        "generator": "inference_stats_interval",
        "trainer.algorithm": "group_advantage_min_size",
        "trainer.rollout_buffer": "max_in_flight max_staleness_steps",
    },
}
"""Source -> parent -> the keys that MarinSkyRL adds, as that source has them."""


def _dotted(table: Mapping[str, str]) -> frozenset[str]:
    return frozenset(
        f"{parent}.{name}" for parent, names in table.items() for name in names.split()
    )


@cache
def base() -> frozenset[str]:
    """Return the dotted keys of SkyRL's own base configuration."""
    return _dotted(BASE)


@cache
def added() -> Mapping[str, str]:
    """Return the keys that MarinSkyRL adds, each with its source."""
    return {key: source for source, table in MARIN.items() for key in _dotted(table)}


@cache
def known() -> frozenset[str]:
    """Return every known dotted key."""
    return base() | added().keys()


@cache
def toys() -> frozenset[str]:
    """Return the keys that only the toy trainer has."""
    from rlaunch.smoke.settings import KEYS

    return frozenset(key.key for key in KEYS if key.key.startswith(_TOYS))


def near(key: str) -> str:
    """Return the known key that `key` is nearly, or nothing."""
    parent, _, name = key.rpartition(".")
    table = toys() if key.startswith(_TOYS) else known()
    siblings = [other.rpartition(".")[2] for other in table if other.rpartition(".")[0] == parent]
    if siblings:
        found = get_close_matches(name, siblings, 1, 0.88)
        return f"{parent}.{found[0]}" if found else ""
    found = get_close_matches(key, known(), 1, 0.93)
    return found[0] if found else ""


@cache
def _parents() -> frozenset[str]:
    """Return every key that has keys below it."""
    tables = (BASE, *MARIN.values())
    parts = [parent.split(".") for table in tables for parent in table]
    return frozenset(
        ".".join(names[:length]) for names in parts for length in range(1, len(names) + 1)
    )


_PLAIN = frozenset(section.recipe for section in SECTIONS if not section.prefix)
_OTHERS = frozenset(section.hydra for section in SECTIONS if section.prefix) | {"hydra"}
_LAUNCHERS = frozenset({"terminal_bench", "container", "extra_env", "config_groups"})
"""Sections of recipes only, of which a rule of their own speaks."""
_TOYS = "smoke."


def _strange(key: str) -> bool:
    """Tell whether a key that goes out plain stands in no table, and no rule of its own has it."""
    if key.startswith(_TOYS):
        return key not in toys()
    if key in known() or "sampling_params." in key:
        return False
    return key not in _PLAIN and not any(part in key for part in OPEN)


def _unknown(case: Case) -> Iterator[tuple[str, str]]:
    """Yield the keys that go out plain and stand in no table, each with its near miss."""
    heads = _PLAIN | {"smoke"} if case.toy else _PLAIN
    written = (key for key, value in case.leaves if value is not None)
    told = [key for key in written if key.partition(".")[0] in heads and _strange(key)]
    yield from ((key, near(key)) for key in dict.fromkeys((*told, *_overridden(case))))


def _overridden(case: Case) -> Iterator[str]:
    """Yield the strange keys of plain overrides; Hydra refuses them as it does a recipe's."""
    added = {one.key for one in case.overrides if one.prefix in ("+", "++")}
    groups = look(case.run.recipe.body, "config_groups") or ()
    open_to = (_OTHERS | _LAUNCHERS).union(groups) - ({"smoke"} if case.toy else set())
    for override in case.overrides:
        if override.prefix or not _is_key(override.key) or override.key in added:
            continue
        if override.key.partition(".")[0] not in open_to:
            found = (key for key, _ in leaves(override.value, override.key))
            yield from (key for key in found if key not in _parents() | _OTHERS and _strange(key))


def _is_key(name: str) -> bool:
    """True for a key; a configuration group with a package or below another one is none."""
    return "/" not in name and "@" not in name


@rule("skyrl.key-typo", waivable=True)
def keys_are_spelt_right(case: Case) -> Iterator[Fault]:
    """A key that nearly is one of the trainer's.

    The base configuration refuses keys that it does not have, minutes into the bring-up and after the
    GPUs were given. A trainer that does have the key: `--allow skyrl.key-typo`.
    """
    for key, other in _unknown(case):
        if other:
            yield Fault(
                key, f"the trainer is not known to have `{key}`", f"did you mean `{other}`?"
            )


@rule("skyrl.key-unknown", level="warning")
def keys_are_known(case: Case) -> Iterator[Fault]:
    """A key that stands in no table of the trainer's keys.

    Newer trainers have keys that rlaunch has not heard of; older ones refuse them. The toy trainer takes
    any key and reads those that it knows.
    """
    for key, other in _unknown(case):
        if not other:
            hint = "if the trainer refuses it, `--skyrl_override ++KEY=VALUE` adds it"
            hint = "leave it out: the toy trainer reads no such key" if case.toy else hint
            yield Fault(key, f"`{key}` is in no table of the trainer's keys", hint)


@rule("skyrl.key-added", level="note")
def added_keys_are_meant(case: Case) -> Iterator[Fault]:
    """`+key=value` or `++key=value` adds a key that nearly is one of the trainer's.

    Hydra adds it without a word, and nothing reads it: the key that was meant keeps its value.
    """
    for override in case.overrides:
        if override.prefix not in ("+", "++") or not _is_key(override.key):
            continue
        if override.key.partition(".")[0] in _PLAIN and _strange(override.key):
            other = near(override.key)
            if other:
                message = f"`{override.key}` is added beside the trainer's `{other}`"
                yield Fault(
                    f"--skyrl_override {override.text}", message, f"did you mean `{other}`?"
                )


RULES = (keys_are_spelt_right, keys_are_known, added_keys_are_meant)
