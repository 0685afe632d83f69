"""What a key of a recipe is: the experiment (science), or the way it is run. Pure.

Three classes, from the full differences of three real pairs of recipes (one experiment on two
clusters):

    mechanical   follows from the cluster's profile: placement, paths, logger, container
    tuning       belongs to the cluster's hardware: memory shares, batching, parallel sizes of engines
    science      changes what is learned or measured

A key that no pattern knows is `unclassified`, and counts as science wherever that is the safe side.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Literal

Class = Literal["mechanical", "tuning", "science", "unclassified"]

MECHANICAL: tuple[tuple[str, str], ...] = (
    ("container", "the image and its mounts"),
    ("container.*", "the image and its mounts"),
    ("trainer.placement.*_num_nodes", "nodes × GPUs of one shape become those of another"),
    ("trainer.placement.*_num_gpus_per_node", "nodes × GPUs of one shape become those of another"),
    ("trainer.placement.*_pg", "how ranks are laid on nodes"),
    ("trainer.placement.policy_per_gpu_bundles", "how ranks are laid on nodes"),
    ("trainer.placement.policy_force_cvd_mask", "how ranks see their GPUs"),
    ("trainer.logger", "follows from the cluster's way to the internet"),
    ("trainer.project_name", "a label"),
    ("trainer.run_name", "a label"),
    ("trainer.log_level", "observation only"),
    ("trainer.tracker_commit_each_step", "observation only"),
    ("trainer.ckpt_path", "where checkpoints lie"),
    ("trainer.export_path", "where exports lie"),
    ("trainer.resume_*", "how a run goes on"),
    ("trainer.hf_hub_*", "where a model is published"),
    ("trainer.enable_db_registration", "always false"),
    ("trainer.policy.model.path", "given by `--model_path`"),
    ("data.train_data", "given by `--train_data`"),
    ("data.val_data", "given by `--val_data`"),
    ("terminal_bench.trials_dir", "where trials lie"),
    ("terminal_bench.trace_upload.*", "what is published after the run"),
    ("terminal_bench.archiving.*", "what is kept after the run"),
    ("terminal_bench.harbor.log_level", "observation only"),
    ("terminal_bench.harbor.enable_*_logging", "observation only"),
    ("terminal_bench.harbor.record_terminal_session", "observation only"),
    ("generator.engine_init_kwargs.served_model_name", "a label"),
    (
        "generator.engine_init_kwargs.custom_chat_template_chat_completion_path",
        "a path; the file is in the workspace",
    ),
    ("generator.enable_ray_prometheus_stats", "observation only"),
    ("generator.*_stats_interval", "observation only"),
)
"""Pattern -> why a change of it does not change the experiment."""

TUNING: tuple[tuple[str, str], ...] = (
    ("generator.enforce_eager", "CUDA graphs or not"),
    ("generator.inference_engine_*_parallel_size", "geometry of an engine"),
    ("generator.inference_engine_mp_backend", "executor of an engine"),
    ("generator.num_inference_engines", "follows from the geometry of an engine"),
    ("generator.max_num_seqs", "memory of a GPU"),
    ("generator.gpu_memory_utilization", "memory of a GPU"),
    ("generator.max_num_batched_tokens", "memory of a GPU"),
    ("generator.enable_prefix_caching", "speed"),
    ("generator.enable_chunked_prefill", "speed"),
    ("generator.weight_sync_backend", "transport"),
    ("generator.run_engines_locally", "where engines run"),
    ("generator.enable_http_endpoint", "how engines are reached"),
    ("generator.timeout_multiplier", "patience"),
    ("generator.engine_init_kwargs.disable_custom_all_reduce", "kernels"),
    ("generator.engine_init_kwargs.async_scheduling", "scheduling of an engine"),
    ("terminal_bench.harbor.n_concurrent_trials", "how many sandboxes at once"),
    ("trainer.fully_async.num_parallel_generation_workers", "how many trials at once"),
    ("trainer.placement.colocate_all", "who shares GPUs"),
    ("trainer.placement.colocate_policy_ref", "who shares GPUs"),
    ("trainer.micro_*_batch_size_per_gpu", "memory of a GPU"),
    ("trainer.gradient_checkpointing*", "memory of a GPU"),
    ("trainer.flash_attn", "kernels"),
    ("trainer.attn_backend", "kernels"),
    ("trainer.ckpt_interval", "how often a checkpoint is written"),
    ("trainer.hf_save_interval", "how often an export is written"),
    ("trainer.*.fsdp_config.cpu_offload", "memory of a GPU"),
    ("trainer.*.fsdp_config.reshard_after_forward", "memory of a GPU"),
    ("trainer.*.fsdp_config.fsdp_size", "how the model is split"),
    ("trainer.*.fsdp_config.expert_model_parallel_size", "how the model is split"),
    ("trainer.*.fsdp_config.context_parallel_size", "how the model is split"),
    ("trainer.*.fsdp_config.cp_*", "how the model is split"),
    ("trainer.*.fsdp_config.ep_comm_backend", "transport"),
    ("trainer.*.fsdp_config.moe_grouped_gemm", "kernels"),
    ("rollout.fanout.*", "how many processes drive the trials"),
    ("teacher.num_inference_engines", "geometry of the teacher"),
    ("teacher.inference_engine_*_parallel_size", "geometry of the teacher"),
    ("teacher.gpu_memory_utilization", "memory of a GPU"),
    ("teacher.enforce_eager", "CUDA graphs or not"),
)

SCIENCE: tuple[str, ...] = (
    "entrypoint",
    "config_groups.*",
    "trainer.algorithm.*",
    "trainer.strategy",
    "trainer.epochs",
    "trainer.max_steps",
    "trainer.seed",
    "trainer.update_epochs_per_batch",
    "trainer.*_batch_size",
    "trainer.max_prompt_length",
    "trainer.use_sample_packing",
    "trainer.eval_*",
    "trainer.policy.optimizer_config.*",
    "trainer.critic.*",
    "trainer.ref.model.path",
    "trainer.*.fsdp_config.moe_router_replay",
    "trainer.fully_async.max_staleness_steps",
    "trainer.rollout_buffer.*",
    "generator.backend",
    "generator.model_dtype",
    "generator.*n_samples_per_prompt",
    "generator.sampling_params.*",
    "generator.max_turns",
    "generator.batched",
    "generator.async_engine",
    "generator.append_eos_token_after_stop_str_in_multi_turn",
    "generator.engine_init_kwargs.max_model_len",
    "generator.engine_init_kwargs.enable_return_routed_experts",
    "generator.engine_init_kwargs.rope_scaling*",
    "terminal_bench.environment_type",
    "terminal_bench.harbor.*",
    "terminal_bench.model_info.*",
    "teacher.model_path",
    "teacher.top_k_logprobs",
    "teacher.backend",
    "teacher.engine_init_kwargs.*",
    "environment.*",
)

ENV_MECHANICAL: tuple[str, ...] = (
    "APPTAINERENV_*", "CUDA_*", "EPDIAG*", "GLOO_*", "HF_*", "LD_LIBRARY_PATH", "LIBRARY_PATH", "NCCL_*",
    "OMP_*", "PATH", "PYTHON*", "RAY_*", "SKYRL_*TIMEOUT*", "TORCH_FR_*", "TORCH_NCCL_*", "TRANSFORMERS_*",
    "TRITON_*", "UV_*", "VLLM_*TIMEOUT*", "VLLM_MQ_MAX_CHUNK_BYTES_MB", "WANDB_*",
)  # fmt: skip
"""Variables of transport, paths, patience and observation."""
ENV_TUNING: tuple[str, ...] = (
    "NCCL_DEBUG", "PYTORCH_*", "SKYRL_WEIGHT_SYNC_SERIALIZE", "VLLM_ATTENTION_BACKEND",
    "VLLM_USE_FLASHINFER_SAMPLER",
)  # fmt: skip
"""Variables of memory, kernels and verbosity; a name here counts before the patterns above.

All others, such as `SKYRL_W13_RELOAD_BRACKET`, may change results.
"""


def _matches(key: str, patterns: Iterable[str]) -> bool:
    return any(_fits(key, pattern) for pattern in patterns)


def _fits(key: str, pattern: str) -> bool:
    """Match a pattern of text and `*`. By hand: fnmatch compiles 100 expressions, 7 % of a dry run."""
    head, *rest = pattern.split("*")
    if not rest:
        return key == head
    if not key.startswith(head):
        return False
    at = len(head)
    for part in rest[:-1]:
        at = key.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(key) - at >= len(rest[-1]) and key.endswith(rest[-1])


@lru_cache(maxsize=4096)
def classify(key: str) -> Class:
    """Return the class of a recipe's leaf by its dotted path (`extra_env.NAME` for a variable)."""
    for section in ("extra_env.", "container.extra_env."):
        if key.startswith(section):
            return classify_env(key.removeprefix(section))
    if _matches(key, (pattern for pattern, _ in MECHANICAL)):
        return "mechanical"
    if _matches(key, (pattern for pattern, _ in TUNING)):
        return "tuning"
    return "science" if _matches(key, SCIENCE) else "unclassified"


def classify_env(name: str) -> Class:
    """Return the class of an environment variable."""
    if _matches(name, ENV_TUNING):
        return "tuning"
    return "mechanical" if _matches(name, ENV_MECHANICAL) else "unclassified"


def reason(key: str) -> str:
    """Return why a mechanical or tuning key is one; empty for all others."""
    if key.startswith(("extra_env.", "container.extra_env.")):
        return ""
    return next((why for pattern, why in (*MECHANICAL, *TUNING) if _fits(key, pattern)), "")
