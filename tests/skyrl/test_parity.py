"""The arguments of saved recipes equal those of the older builder, but for one table of differences."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from rlaunch import recipes

NO_DEFAULT = "an organisation was a personal default: a null repository is not published anywhere"
ROLLOUT = "the older builder dropped the section `rollout` without a word"
STAGED = "datasets are staged on every node, and the trainer gets their directories"
REGISTRATION = "the base's default is not relied upon where the recipe does not say false"

ROLLOUTS = (
    "iris_2node_qwen3_coder_30b_r3decentral_SMOKE",
    "iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3",
    "iris_grid_30b_EP8_FSDP2_CP2",
    "jupiter_16node_qwen3_30b_a3b_131k_cp_dcp_r3",
    "jupiter_24GPU_qwen3_coder_30b_a3b",
)
NAMES = (
    *ROLLOUTS,
    "iris_56GPU_seqnorm_tis",
    "iris_smoke_seqnorm_tis",
    "jupiter_56GPU_seqnorm_tis",
    "odd_28GPU_distill_glm46_teacher",
    "odd_beam_logger_list",
)
DIFFERENCES: dict[tuple[str, str], tuple[str | None, str | None, str]] = {
    **{
        (name, "trainer.hf_hub_repo_id"): ("++trainer.hf_hub_repo_id=laion/job-x", None, NO_DEFAULT)
        for name in NAMES
    },
    **{
        (name, f"rollout.fanout.{key}"): (None, f"rollout.fanout.{key}={value}", ROLLOUT)
        for name in ROLLOUTS
        for key, value in (("enabled", "true"), ("cpus_per_coordinator", "8"))
    },
    **{
        (name, "rollout.fanout.num_coordinators"): (
            None,
            f"rollout.fanout.num_coordinators={2 if 'SMOKE' in name else 4}",
            ROLLOUT,
        )
        for name in ROLLOUTS
    },
    ("odd_28GPU_distill_glm46_teacher", "data.val_data"): (
        'data.val_data=["open-thoughts/OpenThoughts-TB-dev"]',
        'data.val_data=["/data/fa18feffc9d82907"]',
        STAGED,
    ),
    ("odd_beam_logger_list", "trainer.enable_db_registration"): (
        None,
        "++trainer.enable_db_registration=false",
        REGISTRATION,
    ),
}
"""(recipe, key) -> (the older builder's argument, ours, the reason)."""


def by_key(arguments: list[str]) -> dict[str, str]:
    """Return arguments by their key."""
    return {argument.lstrip("+").partition("=")[0]: argument for argument in arguments}


@pytest.mark.parametrize("name", NAMES)
def test_arguments_equal_the_reference(
    name: str, shared_recipes: Path, sent: Callable[..., tuple[str, ...]]
):
    """Every argument is the older builder's, letter for letter, or stands in the table."""
    expected = json.loads((shared_recipes / "expected" / f"{name}.json").read_text())
    given = expected["inputs"]
    recipe = recipes.read(str(shared_recipes / f"{name}.yaml"))
    ours = by_key(
        list(
            sent(
                recipe,
                nodes=given["num_nodes"],
                gpus_per_node=given["gpus_per_node"],
                model_path=given["model_path"],
                train_data=tuple(given["train_data"]),
                val_data=tuple(given["val_data"] or recipe.body["data"]["val_data"]),
            )
        )
    )
    theirs = by_key(expected["args"])
    different = {
        (name, key): (theirs.get(key), ours.get(key))
        for key in theirs.keys() | ours.keys()
        if theirs.get(key) != ours.get(key)
    }
    listed = {key: both[:2] for key, both in DIFFERENCES.items() if key[0] == name}
    assert different == listed


def test_every_reference_is_compared(shared_recipes: Path):
    """No reference output is left out."""
    assert sorted(p.stem for p in (shared_recipes / "expected").iterdir()) == sorted(NAMES)


def test_order_is_that_of_the_reference(shared_recipes: Path, sent: Callable[..., tuple[str, ...]]):
    """Groups first, then trainer, generator, data, teacher and terminal_bench, as in the reference."""
    name = "odd_28GPU_distill_glm46_teacher"
    expected = json.loads((shared_recipes / "expected" / f"{name}.json").read_text())
    recipe = recipes.read(str(shared_recipes / f"{name}.yaml"))
    ours = sent(recipe, nodes=7, gpus_per_node=4)

    def sections(arguments: list[str]) -> list[str]:
        heads = [a.lstrip("+").partition("=")[0].partition(".")[0] for a in arguments]
        return list(dict.fromkeys(heads)) + heads[-1:]

    assert sections(list(ours)) == sections(expected["args"])
