"""Ports of recipes between two clusters: every change has its class, and nothing else changes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.skyrl.conftest import read
from tests.skyrl.profiles import iris, jupiter

from rlaunch import identity, recipes
from rlaunch.model import Recipe
from rlaunch.porting.changes import Translation
from rlaunch.porting.translate import mechanical, translate
from rlaunch.skyrl.classes import classify
from rlaunch.skyrl.emit import leaves
from rlaunch.skyrl.tree import look

IRIS, JUPITER = iris(), jupiter()
TP = "generator.inference_engine_tensor_parallel_size"
DCP = "generator.inference_engine_decode_context_parallel_size"
NARROWER = (TP, DCP)
DENSE = ("jupiter_56GPU_seqnorm_tis.yaml", "iris_56GPU_seqnorm_tis.yaml")
MOE = (
    "jupiter_16node_qwen3_30b_a3b_131k_cp_dcp_r3.yaml",
    "iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3.yaml",
)
LEFT = {
    DENSE: {"generator.gpu_memory_utilization", "generator.max_num_batched_tokens"},
    MOE: {
        TP, DCP, "generator.num_inference_engines", "generator.max_num_seqs", "generator.enforce_eager",
        "extra_env.NCCL_DEBUG", "extra_env.SKYRL_WEIGHT_SYNC_SERIALIZE",
        "terminal_bench.harbor.n_concurrent_trials",
    },
}  # fmt: skip
"""What people had tuned between the two recipes of a pair, beside the verifier's patience and the path of
trials: the table of real differences (facts of 2026), all of class tuning or science."""
ALWAYS_LEFT = {
    "terminal_bench.harbor.verifier_override_timeout_sec",
    "terminal_bench.trials_dir",  # a path of one run, in a retired bucket; null is each run's own
}
SMALL = """
entrypoint: terminal_bench
terminal_bench: {trials_dir: null}
trainer:
  logger: console
  placement: {colocate_all: false, policy_num_nodes: %d, policy_num_gpus_per_node: %d}
generator: {num_inference_engines: %d, inference_engine_tensor_parallel_size: %d}
"""


def small(nodes: int = 2, gpus: int = 4, engines: int = 8, tp: int = 1, more: str = "") -> Recipe:
    """Return a recipe of few keys."""
    return read(SMALL % (nodes, gpus, engines, tp) + more)


def flat(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return every leaf by its key."""
    return dict(leaves(body))


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """Return the keys that two bodies do not agree on."""
    a, b = flat(one), flat(other)
    return {key for key in a.keys() | b.keys() if a.get(key, "absent") != b.get(key, "absent")}


def codes(made: Translation) -> list[str]:
    """Return the codes of all errors."""
    return [found.code for found in made.findings if found.level == "error"]


@pytest.mark.parametrize("pair", [DENSE, MOE], ids=["dense", "moe"])
def test_a_port_makes_what_people_made(pair: tuple[str, str], shared_recipes: Path):
    """Jupiter's recipe ported to Iris is the one that runs there, but for what was tuned by hand."""
    theirs, ours = (recipes.read(str(shared_recipes / name)) for name in pair)
    made = translate(theirs, IRIS, JUPITER)
    assert codes(made) == []
    assert differences(made.body, ours.body) == LEFT[pair] | ALWAYS_LEFT
    assert all(classify(key) != "mechanical" for key in LEFT[pair])
    assert all(c.kind != "mechanical" for c in made.changes if c.action == "keep")


def test_accepted_proposals_are_made(shared_recipes: Path):
    """With the usual values of Iris accepted, only the verifier's patience is left to be accepted."""
    theirs, ours = (recipes.read(str(shared_recipes / name)) for name in DENSE)
    made = translate(theirs, IRIS, JUPITER, LEFT[DENSE])
    assert differences(made.body, ours.body) == ALWAYS_LEFT
    kept = [change for change in made.changes if change.action == "keep"]
    assert [(c.key, c.before, c.after, c.kind) for c in kept] == [
        ("terminal_bench.harbor.verifier_override_timeout_sec", 120, 300, "science")
    ]


def test_a_value_of_ones_own_is_not_proposed_away(shared_recipes: Path):
    """A value that is not the source's usual one was chosen, and stays without a word."""
    theirs = recipes.read(str(shared_recipes / MOE[0]))
    made = translate(theirs, IRIS, JUPITER)
    proposed = {change.key for change in made.changes if change.action == "keep"}
    assert "generator.gpu_memory_utilization" not in proposed  # 0.80 on both
    assert {"generator.max_num_seqs", "extra_env.NCCL_DEBUG"} <= proposed


def test_there_and_back_is_the_identity(shared_recipes: Path):
    """Iris to Jupiter and back changes no key, but for paths of one run and engines that had to be split."""
    for path in sorted(shared_recipes.glob("iris_*.yaml")):
        recipe = recipes.read(str(path))
        wide = (look(recipe.body, TP) or 1) > 4
        there = translate(recipe, JUPITER, IRIS, NARROWER if wide else ())
        assert codes(there) == []
        back = translate(recipe._replace(body=there.body), IRIS, JUPITER)
        assert codes(back) == []
        split = {TP, DCP, "generator.num_inference_engines"} if wide else set()
        assert differences(recipe.body, back.body) == {"terminal_bench.trials_dir"} | split
        assert look(back.body, "terminal_bench.trials_dir") is None


@pytest.mark.parametrize("to", [IRIS, JUPITER], ids=["iris", "jupiter"])
def test_the_experiment_stays(to: Mapping[str, Any], shared_recipes: Path):
    """Without `--accept` a port never changes what the experiment is, and says the class of all it does."""
    source = JUPITER if to is IRIS else IRIS
    for path in sorted(shared_recipes.glob("*.yaml")):
        recipe = recipes.read(str(path))
        made = translate(recipe, to, source)
        one = identity.hash_of(recipe, "m", ("d",), (), ())
        assert identity.hash_of(recipe._replace(body=made.body), "m", ("d",), (), ()) == one
        for change in made.changes:
            assert change.reason
            assert change.kind in {"mechanical", "tuning"} or change.action in {"keep", "move"}


def test_a_port_to_the_same_cluster_changes_nothing(shared_recipes: Path):
    """Each cluster's recipes are what a port to it would make of them, retired paths aside."""
    for path in sorted(shared_recipes.glob("iris_*.yaml")):
        made = translate(recipes.read(str(path)), IRIS, IRIS)
        assert {change.key for change in made.changes} <= {"terminal_bench.trials_dir"}
    for path in sorted(shared_recipes.glob("jupiter_*.yaml")):
        made = translate(recipes.read(str(path)), JUPITER, JUPITER)
        assert {change.key for change in made.changes} <= {
            "generator.engine_init_kwargs.custom_chat_template_chat_completion_path"
        }


def test_nodes_follow_the_world_size():
    """2×4 GPUs of the policy are 1×8, with the sum as the reason."""
    made = translate(small(2, 4, 8), IRIS, JUPITER)
    assert look(made.body, "trainer.placement.policy_num_nodes") == 1
    assert look(made.body, "trainer.placement.policy_num_gpus_per_node") == 8
    assert {c.reason for c in made.changes if "policy" in c.key} == {
        "2×4 = 8 GPUs = 1×8: the world size stays"
    }


def test_nodes_without_a_number_of_gpus_are_the_sources():
    """Nodes whose size is not written have the size of the cluster that the recipe is written for."""
    recipe = read(SMALL.replace(", policy_num_gpus_per_node: %d", "") % (2, 8, 1))
    made = translate(recipe, IRIS, JUPITER)
    assert look(made.body, "trainer.placement.policy_num_nodes") == 1
    assert look(made.body, "trainer.placement.policy_num_gpus_per_node") is None


def test_whole_nodes_that_become_broken_ones_are_refused():
    """28 GPUs are 7 nodes of 4 and 3.5 of 8: refused, with the arithmetic."""
    made = translate(small(4, 4, 12), IRIS, JUPITER)
    (found,) = made.findings
    assert found.code == "port.geometry"
    assert "2×8 (policy) + 12×1 (engines) = 28 GPUs / 8 = 3.5 nodes" in found.message
    assert "4 of 32 GPUs would stay idle" in found.message


def test_half_a_node_is_fine_where_the_sum_is_whole():
    """A policy of 4 and 4 engines fill one node of 8 together."""
    made = translate(small(1, 4, 4), IRIS, JUPITER)
    assert made.findings == ()
    assert look(made.body, "trainer.placement.policy_num_gpus_per_node") == 4


def test_wide_engines_are_split_only_if_accepted():
    """A group of 8 does not fit a node of 4; accepted, it becomes two of 4, and so many more engines."""
    recipe = small(1, 8, 4, 8)
    refused = translate(recipe, JUPITER, IRIS)
    (found,) = [f for f in refused.findings if f.level == "error"]
    assert found.code == "port.tensor-parallel"
    assert "4×8 = 32 GPUs = 8×4" in found.message
    made = translate(recipe, JUPITER, IRIS, [TP])
    assert codes(made) == []
    assert look(made.body, TP) == 4
    assert look(made.body, "generator.num_inference_engines") == 8


def test_each_key_is_accepted_by_itself():
    """Accepting the engines' width does not accept their context parallelism."""
    recipe = small(1, 8, 4, 8, "")
    body = {**recipe.body, "generator": {**recipe.body["generator"], DCP.partition(".")[2]: 2}}
    made = translate(recipe._replace(body=body), JUPITER, IRIS, [TP])
    assert [found.hint for found in made.findings if found.level == "error"] == [
        f"`--accept {DCP}` makes it 1"
    ]


def test_a_launch_changes_only_what_it_must(shared_recipes: Path):
    """Without a source, `mechanical` makes what the target needs, and leaves what would be a choice."""
    recipe = recipes.read(str(shared_recipes / DENSE[0]))
    made, changes, findings = mechanical(recipe, IRIS)
    assert findings == ()
    assert look(made.body, "trainer.logger") == "console"
    assert {change.kind for change in changes} == {"mechanical"}
    _, changes, findings = mechanical(recipes.read(str(shared_recipes / MOE[1])), JUPITER)
    assert "port.tensor-parallel" in {found.code for found in findings}
    assert "trainer.logger" in {change.key for change in changes}


NAMES = st.sampled_from(
    ["EPDIAG", "NCCL_DEBUG", "OMP_NUM_THREADS", "SKYRL_X", "VLLM_ATTENTION_BACKEND"]
)
VALUES = st.one_of(st.integers(-9, 99).map(str), st.text("abcXYZ:=,. ", max_size=8))


@given(
    variables=st.dictionaries(NAMES, VALUES, max_size=4),
    engines=st.integers(1, 8).map(lambda n: n * 8),
    nodes=st.integers(1, 6),
    logger=st.sampled_from(["wandb", ["console"], []]),
)
def test_there_and_back_for_any_recipe(
    variables: dict[str, str], engines: int, nodes: int, logger: Any
):
    """Of recipes of whole nodes, variables and loggers, Iris to Jupiter and back is the identity."""
    recipe = small(nodes, 8, engines, 1)
    trainer = {**recipe.body["trainer"], "logger": logger}
    extra = {"extra_env": {**variables, "LD_LIBRARY_PATH": "/opt/openthoughts/envs/rl/lib"}}
    body = {**recipe.body, "trainer": trainer, **(extra if variables else {})}
    there = translate(recipe._replace(body=body), JUPITER, IRIS)
    assert codes(there) == []
    back = translate(recipe._replace(body=there.body), IRIS, JUPITER)
    assert back.body == body
