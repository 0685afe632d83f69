"""Every saved recipe on every installed cluster: checked, planned and shown, or refused with reason."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest
from tests import ada

from rlaunch import checking, discovery, documents, flow, render
from rlaunch.model import Finding, Request, Workspace
from rlaunch.porting import porter

CLUSTERS = ("local", "iris", "slurm_jupiter")
INSTALLED = tuple(name for name in CLUSTERS if name in discovery.names())
"""Plugins of this repository that can be asked here; `local` is one of them always."""
OWNERS = ("core", "env", "recipe", "skyrl")
"""Whose warnings are listed below; those of a plugin are its own tests' business, its errors are not."""
DENSE, MOE = "Qwen/Qwen3-8B", "Qwen/Qwen3-Coder-30B-A3B-Instruct"
UPLOAD = "skyrl.upload-offline"  # traces are uploaded after training, and the hub is out of reach
WIDE = (
    "skyrl.tp-crosses-node"  # engines of 8 on nodes of 4: `rlaunch port` splits them, if accepted
)
SCATTER = "skyrl.colocated-scatter"  # colocated, several nodes, engines of 4: its ranks never find each other
ONE_PLACE = "skyrl.foreign-run"  # trials of every run in one directory of the recipe
IDLE = "skyrl.gpus-left-over"  # 28 GPUs on nodes of 8
TEMPLATE = "skyrl.absolute-path"  # a chat template in somebody's directory
COMPETE = "skyrl.policy-not-reserved"  # teacher and policy on nodes of 4


class Told(NamedTuple):
    """What is to be said about one recipe on one cluster."""

    nodes: int | None
    """None: the recipe does not come so far."""
    errors: frozenset[str] = frozenset()
    warnings: frozenset[str] = frozenset()


class Saved(NamedTuple):
    """A recipe with the flags that it is launched with."""

    model: str
    gpus: int | None
    """GPUs in all, where the recipe leaves them to `--num-nodes`."""
    told: dict[str, Told]


def told(nodes: int | None, *codes: str, warned: tuple[str, ...] = ()) -> Told:
    """Write a row of the table."""
    return Told(nodes, frozenset(codes), frozenset(warned))


EXPECTED: dict[str, Saved] = {
    "iris_2node_qwen3_coder_30b_r3decentral_SMOKE": Saved(
        MOE, 16,
        {
            "local": told(2, SCATTER),
            "iris": told(2, SCATTER, warned=(ONE_PLACE,)),
            "slurm_jupiter": told(4, SCATTER),
        },
    ),
    "iris_56GPU_seqnorm_tis": Saved(
        DENSE, None,
        {"local": told(7), "iris": told(7, warned=(ONE_PLACE,)), "slurm_jupiter": told(14, UPLOAD)},
    ),
    "iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3": Saved(
        MOE, None,
        {"local": told(8), "iris": told(8, warned=(ONE_PLACE,)), "slurm_jupiter": told(None, WIDE)},
    ),
    "iris_grid_30b_EP8_FSDP2_CP2": Saved(
        MOE, None,
        {"local": told(8), "iris": told(8, warned=(ONE_PLACE,)), "slurm_jupiter": told(None, WIDE)},
    ),
    "iris_smoke_seqnorm_tis": Saved(
        DENSE, 8,
        {"local": told(1), "iris": told(1, warned=(ONE_PLACE,)), "slurm_jupiter": told(2)},
    ),
    "jupiter_16node_qwen3_30b_a3b_131k_cp_dcp_r3": Saved(
        MOE, None,
        {"local": told(8), "iris": told(8), "slurm_jupiter": told(16, UPLOAD)},
    ),
    "jupiter_24GPU_qwen3_coder_30b_a3b": Saved(
        MOE, None,
        {"local": told(3), "iris": told(3), "slurm_jupiter": told(6, UPLOAD)},
    ),
    "jupiter_56GPU_seqnorm_tis": Saved(
        DENSE, None,
        {"local": told(7), "iris": told(7), "slurm_jupiter": told(14, UPLOAD)},
    ),
    "odd_28GPU_distill_glm46_teacher": Saved(
        DENSE, None,
        {
            "local": told(4, warned=(IDLE,)),
            "iris": told(4, warned=(IDLE,)),
            "slurm_jupiter": told(7, UPLOAD, warned=(COMPETE,)),
        },
    ),
    "odd_beam_logger_list": Saved(
        DENSE, None,
        {
            "local": told(4, warned=(IDLE, TEMPLATE)),
            "iris": told(4, warned=(IDLE, TEMPLATE)),
            "slurm_jupiter": told(7, warned=(TEMPLATE,)),
        },
    ),
}  # fmt: skip
CASES = [(name, cluster) for name in EXPECTED for cluster in INSTALLED]


@pytest.fixture
def world(shared_recipes: Path) -> flow.World:
    """A machine whose workspace has the recipes, and that can neither run nor record anything."""
    root = str(shared_recipes)
    return ada.world(ada.CONTEXT._replace(cwd=root, workspace=Workspace(root, "c" * 40)))


def split(findings: tuple[Finding, ...], nodes: int | None) -> Told:
    """Return findings as a row of the table."""
    errors = frozenset(f.code for f in findings if f.level == "error")
    warned = {f.code for f in findings if f.level == "warning"}
    return Told(nodes, errors, frozenset(c for c in warned if c.partition(".")[0] in OWNERS))


def test_every_saved_recipe_is_in_the_table(shared_recipes: Path):
    """A recipe that is added has to be judged here."""
    assert {path.stem for path in shared_recipes.glob("*.yaml")} == EXPECTED.keys()
    assert "local" in INSTALLED


@pytest.mark.parametrize(("name", "cluster"), CASES)
def test_a_recipe_is_planned_and_shown(
    name: str, cluster: str, shared_recipes: Path, world: flow.World
):
    """The dry run is complete and its plan survives JSON, or the findings say why there is none."""
    saved = EXPECTED[name]
    expected = saved.told[cluster]
    given = {"nodes": expected.nodes} if saved.gpus else {}
    request = Request(
        rl_config=str(shared_recipes / f"{name}.yaml"),
        cluster=cluster,
        model_path=saved.model,
        train_data='["org/tasks"]',
        settings=given,
        flags={"nodes": "--num-nodes"},
        offline=True,
    )
    prepared = flow.prepare(world, request)
    plan = prepared.plan
    assert split(prepared.findings, plan.run.nodes if plan else None) == expected
    if plan is None:
        return
    text = render.plan(plan)
    assert all(
        f"{key}=" in text for key in ("trainer.run_name", "trainer.logger", "data.train_data")
    )
    assert documents.plan_from_json(documents.plan_to_json(plan)) == plan


@pytest.mark.parametrize("cluster", INSTALLED)
def test_a_recipe_is_checked(cluster: str, shared_recipes: Path, world: flow.World):
    """`check` finds what a launch would: the same errors and warnings, for all recipes at once."""
    for model in (DENSE, MOE):
        bench = checking.Bench.open(world, cluster, model=model)
        names = [
            name for name, saved in EXPECTED.items() if saved.model == model and not saved.gpus
        ]
        paths = [str(shared_recipes / f"{name}.yaml") for name in names]
        for name, checked in zip(names, checking.check(bench, paths), strict=True):
            assert split(checked.findings, checked.nodes) == EXPECTED[name].told[cluster], name


TP = "generator.inference_engine_tensor_parallel_size"
DCP = "generator.inference_engine_decode_context_parallel_size"
GEOMETRY = "port.geometry"  # 28 GPUs: whole nodes of 4, not of 8
PORTS: dict[str, tuple[str, str, tuple[str, ...], frozenset[str]]] = {
    "iris_2node_qwen3_coder_30b_r3decentral_SMOKE": (
        "iris", "slurm_jupiter", (), frozenset({"skyrl.policy-world"}),  # 8 GPUs need `--num-nodes 2`
    ),
    "iris_56GPU_seqnorm_tis": ("iris", "slurm_jupiter", (), frozenset({UPLOAD})),
    "iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3": ("iris", "slurm_jupiter", (TP, DCP), frozenset({UPLOAD})),
    "iris_grid_30b_EP8_FSDP2_CP2": ("iris", "slurm_jupiter", (TP, DCP), frozenset({UPLOAD})),
    "iris_smoke_seqnorm_tis": ("iris", "slurm_jupiter", (), frozenset()),
    "jupiter_16node_qwen3_30b_a3b_131k_cp_dcp_r3": ("slurm_jupiter", "iris", (), frozenset()),
    "jupiter_24GPU_qwen3_coder_30b_a3b": ("slurm_jupiter", "iris", (), frozenset()),
    "jupiter_56GPU_seqnorm_tis": ("slurm_jupiter", "iris", (), frozenset()),
    "odd_28GPU_distill_glm46_teacher": ("slurm_jupiter", "iris", (), frozenset({GEOMETRY})),
    "odd_beam_logger_list": ("slurm_jupiter", "iris", (), frozenset({GEOMETRY})),
}  # fmt: skip
"""Recipe -> from, to, accepted keys, and the errors of the port or of `check` on what came out."""


def test_a_ported_recipe_passes_or_says_why(shared_recipes: Path, world: flow.World):
    """Between the shipped profiles, each saved recipe comes out good, or with the findings it deserves."""
    assert PORTS.keys() == EXPECTED.keys()
    for name, (source, target, accept, errors) in PORTS.items():
        if {source, target} <= set(INSTALLED):
            path = str(shared_recipes / f"{name}.yaml")
            ported = porter.port(world, path, source, target, accept=accept)
            found = {f.code for f in ported.findings if f.level == "error"}
            assert found == errors, name
            assert (ported.text is None) is (GEOMETRY in errors), name


def test_a_recipe_comes_back_as_it_went(shared_recipes: Path, world: flow.World, tmp_path: Path):
    """There and back are the same lines, but for the path of one run and engines that were split."""
    for name, (source, target, accept, errors) in PORTS.items():
        if source != "iris" or not {source, target} <= set(INSTALLED) or GEOMETRY in errors:
            continue
        path = shared_recipes / f"{name}.yaml"
        there = porter.port(world, str(path), source, target, accept=accept)
        halfway = tmp_path / path.name
        halfway.write_text(there.text or "", encoding="utf-8")
        back = porter.port(world, str(halfway), target, source).text or ""
        was, now = (sorted(text.splitlines()) for text in (path.read_text(encoding="utf-8"), back))
        lost = {line.strip().partition(":")[0] for line in was if line not in now}
        split = (
            {key.rpartition(".")[2] for key in (TP, DCP, "x.num_inference_engines")}
            if accept
            else set()
        )
        assert lost == {"trials_dir"} | split, name
