"""A recipe that was written for another cluster, launched as it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.skyrl.conftest import read
from tests.skyrl.profiles import iris, jupiter

from rlaunch import env as environment
from rlaunch import recipes
from rlaunch.model import Finding, Run
from rlaunch.porting import here
from rlaunch.skyrl import command

IRIS, JUPITER = iris(), jupiter()
Sent = Callable[..., tuple[str, ...]]
Judged = Callable[..., tuple[Finding, ...]]


def test_an_iris_recipe_on_jupiter(sent: Sent, shared_recipes: Path):
    """Nodes, outputs and logger are Jupiter's; the recipe is not edited for it."""
    recipe = recipes.read(str(shared_recipes / "iris_56GPU_seqnorm_tis.yaml"))
    arguments = sent(recipe, nodes=14, gpus_per_node=4, profile=JUPITER)
    for argument in (
        "trainer.placement.policy_num_nodes=2",
        "trainer.placement.policy_num_gpus_per_node=4",
        "trainer.logger=console",
        "+terminal_bench_config.trials_dir=/exp/job-x/trace_jobs",
    ):
        assert argument in arguments


def test_a_jupiter_recipe_on_iris(sent: Sent, shared_recipes: Path):
    """What runs anyway is left as it is: the console takes logs with and without internet."""
    recipe = recipes.read(str(shared_recipes / "jupiter_56GPU_seqnorm_tis.yaml"))
    arguments = sent(recipe, nodes=7, gpus_per_node=8, profile=IRIS)
    assert "trainer.placement.policy_num_nodes=1" in arguments
    assert "trainer.logger=console" in arguments


@pytest.mark.parametrize(
    ("key", "path", "folder"),
    [
        ("terminal_bench.trials_dir", "/e/data1/me/trials", "trace_jobs"),
        ("trainer.ckpt_path", "/e/data1/me/ckpt", "checkpoints"),
        ("trainer.export_path", "/e/data1/me/exports", "exports"),
    ],
)
def test_a_directory_that_pods_do_not_have(
    key: str, path: str, folder: str, launch: Callable[..., Run]
):
    """Its output goes to the run's storage, and the ledger says why; a pod's own /tmp is another rule's."""
    section, _, name = key.partition(".")
    for value, derived in ((path, True), ("/tmp/x", False), ("s3://bucket/x", False)):
        recipe = read(f"entrypoint: terminal_bench\n{section}:\n  {name}: {value}\n")
        made = command.command(launch(recipe, profile=IRIS))
        assert made is not None
        (entry,) = [entry for entry in made.ledger if entry.key == key]
        assert (entry.fate == "derived") is derived
        assert (f"/exp/job-x/{folder}" in entry.detail) is derived


def test_an_override_is_the_last_word(sent: Sent, judged: Judged):
    """What is typed stays as it was typed, and the note is silent."""
    given: dict[str, Any] = {"profile": JUPITER, "overrides": ("trainer.logger=[wandb,console]",)}
    assert sent(**given)[-1] == "trainer.logger=[wandb,console]"
    more = "trainer: {logger: wandb}"
    assert "skyrl.adapted" in {found.code for found in judged(more, profile=JUPITER)}
    assert "skyrl.adapted" not in {found.code for found in judged(more, **given)}


def test_the_note_has_both_values(judged: Judged):
    """What was written, what is sent, and the reason."""
    (found,) = [
        f for f in judged("trainer: {logger: wandb}", profile=JUPITER) if f.code == "skyrl.adapted"
    ]
    assert found.level == "note"
    assert found.message == (
        "`trainer.logger` is `console` instead of `wandb`: the nodes of `jupiter` have no internet"
    )


def test_dumps_find_a_place():
    """A dump in a directory of another cluster goes to /tmp, and its provenance keeps the old path."""
    name = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
    recipe = read(
        f"entrypoint: terminal_bench\nextra_env: {{{name}: /e/data1/fr/rank, A: /e/data1/x}}\n"
    )
    gathered = environment.gather(recipe, typed={}, user={}, profile={}, rules={}, cluster="iris")
    env = here.at_home(gathered, IRIS)
    assert env.values == {name: "/tmp/rank", "A": "/e/data1/x"}
    setting = env.provenance[f"env.{name}"]
    assert setting.source == "recipe"
    assert "`/e/data1/fr/rank`" in setting.reason
    assert here.at_home(gathered, JUPITER) == gathered
