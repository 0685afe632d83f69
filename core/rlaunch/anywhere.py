"""No cluster in particular: what stands in for a profile while a recipe is judged by itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlaunch.layers import Layered
from rlaunch.profiles import Profile
from rlaunch.skyrl.tree import count

GPUS = 8
"""GPUs of a node where the recipe names no number."""
KEY = "trainer.placement.policy_num_gpus_per_node"


class Anywhere(Profile):
    """Nodes of any size on which every path may exist, with internet and all keys."""

    sif: str | None = None
    """There may be containers."""
    binds: tuple[str, ...] = ("",)
    """Read by the rules of paths: below nothing lies everything."""


def layered(body: Mapping[str, Any]) -> Layered:
    """Return the profile that a recipe's own numbers ask for."""
    profile = Anywhere(
        name="any cluster",
        plugin="",
        gpus_per_node=count(body, KEY, GPUS),
        run_dir="/run",
        storage_root="{run_dir}",
        data_root="/data",
        secrets=("WANDB_API_KEY",),
    )
    return Layered(profile, {}, {})
