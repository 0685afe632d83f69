"""What the experiment is, apart from how it is run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from rlaunch import identity, recipes
from rlaunch.model import Recipe
from rlaunch.skyrl import classes
from rlaunch.skyrl.emit import leaves

TEXT = """
entrypoint: terminal_bench
trainer: {epochs: 2, policy: {optimizer_config: {lr: 8e-6}}, placement: {policy_num_nodes: 2}}
generator: {sampling_params: {temperature: 0.7}}
extra_env: {SKYRL_X: 1, NCCL_DEBUG: INFO}
"""


def read(text: str) -> Recipe:
    """Read a recipe."""
    return recipes.parse(text.encode(), "r.yaml")


def hashed(
    text: str = TEXT,
    model: str = "m",
    train: tuple[str, ...] = ("a",),
    overrides: tuple[str, ...] = (),
) -> str:
    """Hash a launch."""
    return identity.hash_of(read(text), model, train, (), overrides)


def test_the_hash_is_sixteen_hex_digits():
    """It is shown beside a run's name."""
    assert len(hashed()) == 16
    assert int(hashed(), 16) >= 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("policy_num_nodes: 2", "policy_num_nodes: 4"),
        ("NCCL_DEBUG: INFO", "NCCL_DEBUG: WARN"),
        ("lr: 8e-6", "lr: 0.000008"),
        ("epochs: 2", "epochs: 2, logger: wandb, run_name: null"),
        ("epochs: 2", "epochs: 2.0"),
        ("entrypoint: terminal_bench", "entrypoint: examples.terminal_bench.entrypoints.main_tbench"),
        ("SKYRL_X: 1", 'SKYRL_X: "1"'),
        ("extra_env: {SKYRL_X: 1, NCCL_DEBUG: INFO}", "container: {extra_env: {APPTAINERENV_SKYRL_X: 1}}"),
    ],
)  # fmt: skip
def test_how_a_run_is_made_does_not_count(old: str, new: str):
    """Placement, logging, labels, the writing of a number and the place of a variable change nothing."""
    assert hashed(TEXT.replace(old, new)) == hashed()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epochs: 2", "epochs: 3"),
        ("lr: 8e-6", "lr: 9e-6"),
        ("lr: 8e-6", "lr: '8e-6'"),
        ("temperature: 0.7", "temperature: 1.0"),
        ("SKYRL_X: 1", "SKYRL_X: 0"),
        ("epochs: 2", "epochs: 2, brand_new: 1"),
        ("entrypoint: terminal_bench", "entrypoint: skyrl_train.entrypoints.main_base"),
    ],
)
def test_what_is_learnt_counts(old: str, new: str):
    """Science, unclassified keys and variables change the hash."""
    assert hashed(TEXT.replace(old, new)) != hashed()


def test_model_data_and_overrides_count():
    """The rest of the experiment is on the command line."""
    others = {
        hashed(), hashed(model="n"), hashed(train=("b",)), hashed(overrides=("trainer.epochs=3",)),
        hashed(overrides=("+group/x=y",)), hashed(overrides=("not an override",)),
    }  # fmt: skip
    assert len(others) == 6
    assert hashed(overrides=("trainer.epochs=3",)) == hashed(TEXT.replace("epochs: 2", "epochs: 3"))
    assert hashed(overrides=("trainer.logger=wandb", "hydra.run.dir=/x")) == hashed()


def flat(recipe: Recipe) -> dict[str, Any]:
    """Leaves by key."""
    return {key: value for key, value in leaves(recipe.body) if value is not None}


@pytest.mark.parametrize(
    ("here", "there"),
    [
        ("jupiter_56GPU_seqnorm_tis", "iris_56GPU_seqnorm_tis"),
        ("jupiter_16node_qwen3_30b_a3b_131k_cp_dcp_r3", "iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3"),
    ],
)
def test_a_pair_differs_by_its_science_only(here: str, there: str, shared_recipes: Path):
    """One experiment on two clusters differs in the verifier's patience, and in nothing else that counts."""
    first, second = (recipes.read(str(shared_recipes / f"{name}.yaml")) for name in (here, there))
    mine, yours = (identity.content(r, "m", ("a",), (), ()) for r in (first, second))
    assert mine["env"] == yours["env"]
    ours, theirs = mine["keys"], yours["keys"]
    different = {key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)}
    assert different == {"terminal_bench.harbor.verifier_override_timeout_sec"}


def test_every_key_of_the_saved_recipes_has_a_class(shared_recipes: Path):
    """The table of classes covers what people write; variables may stay unclassified."""
    for path in shared_recipes.glob("*.yaml"):
        body = yaml.safe_load(path.read_text(encoding="utf-8"))
        for key, _ in leaves(body):
            assert "extra_env" in key or classes.classify(key) != "unclassified", key


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("trainer.placement.policy_num_nodes", "mechanical"),
        ("generator.gpu_memory_utilization", "tuning"),
        ("trainer.algorithm.kl_ctrl.type", "science"),
        ("trainer.brand_new", "unclassified"),
        ("container.extra_env.NCCL_P2P_DISABLE", "mechanical"),
        ("extra_env.VLLM_ATTENTION_BACKEND", "tuning"),
        ("extra_env.SKYRL_W13_RELOAD_BRACKET", "unclassified"),
    ],
)
def test_classes(key: str, expected: str):
    """Each class, and what no pattern knows."""
    assert classes.classify(key) == expected
    assert bool(classes.reason(key)) == (expected in {"mechanical", "tuning"} and "env." not in key)
