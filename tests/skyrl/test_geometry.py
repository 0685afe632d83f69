"""The GPU budget of recipes: who takes how many, and how many nodes that makes."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rlaunch import recipes
from rlaunch.skyrl import geometry

SAVED = (
    ("iris_56GPU_seqnorm_tis", 8, 56, 7, {"policy": (1, 8), "engines": (48, 1)}),
    ("jupiter_56GPU_seqnorm_tis", 4, 56, 14, {"policy": (2, 4), "engines": (48, 1)}),
    ("iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3", 8, 64, 8, {"policy": (4, 8), "engines": (4, 8)}),
    ("iris_grid_30b_EP8_FSDP2_CP2", 8, 64, 8, {"policy": (4, 8), "engines": (4, 8)}),
    (
        "jupiter_16node_qwen3_30b_a3b_131k_cp_dcp_r3",
        4,
        64,
        16,
        {"policy": (8, 4), "engines": (8, 4)},
    ),
    ("jupiter_24GPU_qwen3_coder_30b_a3b", 4, 24, 6, {"policy": (4, 4), "engines": (4, 2)}),
    (
        "odd_28GPU_distill_glm46_teacher",
        4,
        28,
        7,
        {"policy": (2, 4), "engines": (16, 1), "teacher": (1, 4)},
    ),
    ("odd_beam_logger_list", 4, 28, 7, {"policy": (4, 4), "engines": (12, 1)}),
)
"""Recipe, GPUs per node, total, nodes, roles (units, size): the table of saved recipes."""


def body(text: str) -> dict[str, Any]:
    """Return a body from YAML."""
    read: dict[str, Any] = yaml.safe_load(text)
    return read


def apart(
    policy: int = 1, engines: Any = 8, tp: int = 1, gpus: int = 8, more: str = ""
) -> dict[str, Any]:
    """Return a disaggregated recipe."""
    return body(f"""
entrypoint: terminal_bench
trainer:
  algorithm: {{use_kl_loss: false}}
  placement: {{colocate_all: false, policy_num_nodes: {policy}, policy_num_gpus_per_node: {gpus}}}
generator: {{num_inference_engines: {engines}, inference_engine_tensor_parallel_size: {tp}}}
{more}
""")


def codes(budget: geometry.Budget) -> list[str]:
    """Codes of the findings."""
    return [finding.code for finding in budget.findings]


@pytest.mark.parametrize("row", SAVED, ids=lambda row: row[0])
def test_saved_recipes_have_the_known_budget(row: Any, shared_recipes: Path):
    """The saved recipes' arithmetic is that of the table, whatever their names say."""
    name, size, total, nodes, roles = row
    found = geometry.budget(recipes.read(str(shared_recipes / f"{name}.yaml")).body, size, None)
    assert (found.total, found.nodes, codes(found)) == (total, nodes, [])
    own = {role.name: (role.units, role.size) for role in found.roles if role.gpus}
    assert own == roles


@pytest.mark.parametrize(
    ("name", "nodes", "engines"),
    [("iris_2node_qwen3_coder_30b_r3decentral_SMOKE", 2, 4), ("iris_smoke_seqnorm_tis", 1, 8)],
)
def test_colocated_recipes_take_the_nodes_they_are_given(
    name: str, nodes: int, engines: int, shared_recipes: Path
):
    """Null counts mean all nodes; engines share the policy's GPUs."""
    found = geometry.budget(recipes.read(str(shared_recipes / f"{name}.yaml")).body, 8, nodes)
    assert (found.nodes, found.total, found.engines, codes(found)) == (
        nodes,
        nodes * 8,
        engines,
        [],
    )
    assert found.colocated


def test_a_colocated_recipe_without_a_number_takes_one_node(shared_recipes: Path):
    """Nothing asks for more, and `--num-nodes` says more."""
    recipe = recipes.read(str(shared_recipes / "iris_smoke_seqnorm_tis.yaml"))
    assert geometry.budget(recipe.body, 8, None).nodes == 1


def test_another_number_of_nodes_is_refused_with_the_arithmetic():
    """The message has the sum, and the hint the number."""
    found = geometry.budget(apart(1, 48), 8, 6)
    (finding,) = found.findings
    assert finding.code == "skyrl.nodes-mismatch"
    assert finding.message == (
        "the recipe needs 8 (policy) + 48×1 (engines) = 56 GPUs = 7 nodes of 8, not 6"
    )
    assert "--num-nodes 7" in finding.hint


def test_null_engines_are_refused_with_the_number_that_fits():
    """Derived from all GPUs it would count the policy's too: 8×8 / 8 = 8, but 4 fit."""
    found = geometry.budget(apart(4, "null", 8), 8, 8)
    assert (codes(found), found.nodes) == (["skyrl.engines-missing"], None)
    assert found.findings[0].hint == "`num_inference_engines: 4`"
    assert "8×8 − 32 = 32" in found.findings[0].message


def test_null_engines_without_nodes_name_the_formula():
    """Nobody said how many nodes, so the number has a formula."""
    assert "(nodes × 8 − 8) / 1" in geometry.budget(apart(1, "null"), 8, None).findings[0].hint


def test_a_null_policy_apart_from_its_engines_is_refused():
    """All nodes for the policy would leave none for the engines."""
    found = geometry.budget(apart("null", 8), 8, 2)  # type: ignore[arg-type]  # null is the point
    assert codes(found) == ["skyrl.policy-missing"]
    assert found.findings[0].hint == "`policy_num_nodes: 1`"


def test_gpus_that_stay_idle_are_reported():
    """Whole nodes are taken, and the rest is said."""
    found = geometry.budget(apart(1, 5), 8, None)
    assert (found.nodes, codes(found)) == (2, ["skyrl.gpus-left-over"])
    assert "3 of 16 GPUs stay idle" in found.findings[0].message


def test_a_group_that_breaks_at_a_node_needs_more_nodes():
    """TP 3 on nodes of 8: two groups each, so 4 groups take two nodes and not 12 / 8."""
    found = geometry.budget(apart(1, 5, 3), 8, None)
    assert found.total == 23
    assert found.nodes == 4
    assert "stays inside a node" in found.findings[0].message


def test_a_group_wider_than_a_node_is_refused():
    """A tensor-parallel group never crosses a node."""
    assert codes(geometry.budget(apart(2, 1, 8, 4), 4, None)) == ["skyrl.tp-crosses-node"]


def test_pipeline_and_data_parallel_ranks_count():
    """An engine has TP × PP × DP GPUs."""
    more = {"inference_engine_pipeline_parallel_size": 2, "inference_engine_data_parallel_size": 2}
    recipe = apart(1, 2, 2)
    recipe["generator"] |= more
    assert geometry.budget(recipe, 8, None).total == 8 + 2 * 2 * 2 * 2


@pytest.mark.parametrize(
    ("placement", "total"), [("colocate_policy_ref: true", 16), ("colocate_policy_ref: false", 24)]
)
def test_a_reference_model_counts_only_on_gpus_of_its_own(placement: str, total: int):
    """With a KL term it shares the policy's GPUs, unless it is told not to."""
    recipe = apart(1, 8)
    recipe["trainer"]["algorithm"]["use_kl_loss"] = True
    recipe["trainer"]["placement"] |= body(placement)
    assert geometry.budget(recipe, 8, None).total == total


def test_a_critic_counts():
    """A critic has a placement of its own."""
    recipe = apart(1, 8)
    recipe["trainer"]["critic"] = {"model": {"path": "org/critic"}}
    assert geometry.budget(recipe, 8, None).total == 24


def test_colocated_engines_take_exactly_the_policys_gpus():
    """SkyRL asserts it; the hint has the number."""
    recipe = apart(1, 3)
    recipe["trainer"]["placement"]["colocate_all"] = True
    found = geometry.budget(recipe, 8, None)
    assert (codes(found), found.findings[0].hint) == (
        ["skyrl.colocated-sum"],
        "`num_inference_engines: 8`",
    )


def test_a_placement_for_other_nodes_is_laid_on_these():
    """8 nodes of 4 become 4 of 8, with a note; what does not come out even is refused."""
    found = geometry.budget(apart(8, 8, 4, 4), 8, None)
    assert (found.total, found.nodes) == (64, 8)
    assert codes(found) == ["skyrl.placement-reshaped"]
    assert (found.roles[0].units, found.roles[0].size) == (4, 8)
    assert codes(geometry.budget(apart(1, 8, 1, 6), 4, None)) == ["skyrl.policy-too-wide"]
    assert codes(geometry.budget(apart(1, 4, 1, 4), 8, None)) == []


@pytest.mark.parametrize("value", [0, -1, "8", 1.5, True])
def test_a_size_that_is_no_count_is_refused(value: Any):
    """Text and fractions are no numbers of GPUs."""
    recipe = apart()
    recipe["generator"]["num_inference_engines"] = value
    found = geometry.budget(recipe, 8, None)
    assert (codes(found), found.findings[0].place) == (["skyrl.not-a-count"], geometry.ENGINES)


def test_no_nodes_at_all_is_refused():
    """Zero nodes run nothing."""
    assert codes(geometry.budget(apart(), 8, 0)) == ["skyrl.nodes-mismatch"]


def test_nodes_without_gpus_run_the_toy_only():
    """A real recipe needs GPUs; the toy takes as many nodes as it is given, unless it names a number."""
    assert codes(geometry.budget(apart(), 0, 2)) == ["skyrl.no-gpus"]
    toy: dict[str, Any] = {"entrypoint": "rlaunch.smoke"}
    assert geometry.budget(toy, 0, 2).nodes == 2
    assert geometry.budget(toy, 8, None).nodes == 1
    toy["trainer"] = {"placement": {"policy_num_nodes": 2}}
    assert geometry.budget(toy, 0, None).nodes == 2
    assert codes(geometry.budget(toy, 0, 3)) == ["skyrl.nodes-mismatch"]


@given(
    st.integers(1, 6), st.integers(1, 40), st.sampled_from([1, 2, 3, 4, 8]), st.sampled_from([4, 8]),
    st.booleans(),
)  # fmt: skip
def test_the_nodes_hold_all_roles(policy: int, engines: int, tp: int, size: int, spread: bool):
    """The number of nodes is enough for the GPUs, and asking for it again changes nothing."""
    recipe = apart(policy, engines, tp, size)
    recipe["trainer"]["placement"]["policy_strict_spread_pg"] = spread
    found = geometry.budget(recipe, size, None)
    if tp > size:
        assert found.nodes is None
        return
    assert found.total == policy * size + engines * tp
    assert found.nodes is not None
    assert found.nodes * size >= found.total
    assert found.nodes - policy == -(-engines // (size // tp))
    assert geometry.budget(recipe, size, found.nodes).nodes == found.nodes
