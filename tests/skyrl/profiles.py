"""Profiles of two clusters, as the facts of 2026 have them: what recipes are ported between in these tests.

Kept here and not taken from the plugins, so that the core's tests need none.
"""

from typing import Any

from rlaunch.profiles import Profile


class Slurm(Profile):
    """A profile that takes container blocks."""

    sif: str | None = None
    binds: tuple[str, ...] = ()
    overlays: tuple[str, ...] = ()
    pydeps: str = ""


def _drop(reason: str) -> dict[str, str]:
    return {"action": "drop", "reason": reason}


IRIS_RULES: dict[str, Any] = {
    "APPTAINERENV_*": _drop("there is no Apptainer"),
    "TRITON_LIBCUDA_PATH": _drop("points into a SIF"),
    "LIBRARY_PATH": _drop("points into a SIF"),
    "HF_HUB_OFFLINE": _drop("there is egress"),
    "TRANSFORMERS_OFFLINE": _drop("there is egress"),
    "NCCL_P2P_DISABLE": _drop("it cripples NVLink"),
    "NCCL_NVLS_ENABLE": _drop("a workaround for GH200"),
    "NCCL_COLLNET_ENABLE": _drop("a workaround for GH200"),
    "LD_LIBRARY_PATH": {
        "action": "set",
        "value": "/opt/openthoughts/envs/rl/lib",
        "reason": "the image's RL environment",
    },
}
IRIS_PROPOSALS: dict[str, Any] = {
    "generator.gpu_memory_utilization": {"value": 0.85, "reason": "80 GB of an H100"},
    "generator.max_num_batched_tokens": {"value": 16384, "reason": "80 GB of an H100"},
    "generator.max_num_seqs": {"value": 24, "reason": "80 GB of an H100"},
    "extra_env.NCCL_DEBUG": {"value": "WARN", "reason": "INFO fills the log"},
    "terminal_bench.harbor.verifier_override_timeout_sec": {
        "value": 300,
        "reason": "sandboxes start slower",
    },
}
JUPITER_PROPOSALS: dict[str, Any] = {
    "generator.gpu_memory_utilization": {"value": 0.75, "reason": "unified memory of a GH200"},
    "generator.max_num_batched_tokens": {"value": 65536, "reason": "unified memory of a GH200"},
    "generator.max_num_seqs": {"value": 16, "reason": "unified memory of a GH200"},
    "extra_env.NCCL_DEBUG": {"value": "INFO", "reason": "hangs are looked at here"},
    "terminal_bench.harbor.verifier_override_timeout_sec": {"value": 120, "reason": "as it was"},
}


def iris(**more: Any) -> dict[str, Any]:
    """Return the facts of an H100 cluster behind Iris: pods, S3, internet."""
    return Profile(
        name="iris",
        plugin="iris",
        gpus_per_node=8,
        run_dir="/tmp/rlaunch-{run}",
        storage_root="s3://marin-us-east-02a/iris",
        data_root="/tmp/rlaunch-data",
        rendezvous_dir="s3://marin-us-east-02a/iris/{run}/rendezvous",
        retired_roots=({"root": "s3://marin-na", "reason": "moved"},),  # type: ignore[arg-type]  # validated
        env_rules=IRIS_RULES,
        proposals=IRIS_PROPOSALS,
        unsupported={"container": "the image is the container"},
        **more,
    ).facts()


def jupiter(**more: Any) -> dict[str, Any]:
    """Return the facts of a GH200 cluster under SLURM: SIF, shared file system, no internet."""
    given = {
        "name": "jupiter",
        "plugin": "slurm_jupiter",
        "gpus_per_node": 4,
        "egress": False,
        "run_dir": "/e/scratch/reformo/{user}/rlaunch/{run}",
        "storage_root": "{run_dir}",
        "data_root": "/e/scratch/reformo/{user}/rlaunch/data",
        "binds": ("/e/scratch", "/e/data1"),
        "proposals": JUPITER_PROPOSALS,
        **more,
    }
    return Slurm(**given).facts()
