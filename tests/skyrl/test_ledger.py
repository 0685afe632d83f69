"""The ledger: what became of every leaf of a recipe."""

from collections.abc import Callable
from pathlib import Path

from rlaunch import recipes
from rlaunch.model import Run, Setting
from rlaunch.skyrl import command
from rlaunch.skyrl.emit import leaves

Launch = Callable[..., Run]


def test_every_leaf_has_one_fate(shared_recipes: Path, launch: Launch):
    """The ledger has each leaf of each saved recipe exactly once, and nothing else."""
    for path in sorted(shared_recipes.glob("*.yaml")):
        recipe = recipes.read(str(path))
        made = command.command(launch(recipe, nodes=8))
        assert made is not None
        assert [entry.key for entry in made.ledger] == [key for key, _ in leaves(recipe.body)]
        assert {entry.fate for entry in made.ledger} <= {
            "argument", "environment", "setting", "derived", "dropped",
        }  # fmt: skip
        for entry in made.ledger:
            if entry.fate == "argument" and not entry.detail.startswith("in the file"):
                assert entry.detail in made.argv


def test_the_ledger_says_what_became_of_each_leaf(launch: Launch):
    """Arguments, environment, settings, derived values, drops and errors, each with its detail."""
    text = """
entrypoint: terminal_bench
config_groups: {terminal_bench_config: terminal_bench}
trainer: {epochs: 2, run_name: null, max_grad_norm: null, empty: {}}
extra_env: {A: 1, B: null, C: 3}
container: {sif: /x.sif, extra_env: {APPTAINERENV_A: 1}}
nonsense: {deep: 1}
"""
    provenance = {
        "env.C": Setting(None, "recipe", "dropped: crippling here"),
        "env.APPTAINERENV_A": Setting(None, "recipe", "folded into A"),
    }
    run = launch(
        text,
        env={"A": "1"},
        provenance=provenance,
        overrides=["trainer.epochs=3"],
        profile={"unsupported": {"container": "pods run the image by its digest"}},
    )
    made = command.command(run)
    assert made is not None
    fates = {entry.key: (entry.fate, entry.detail) for entry in made.ledger}
    assert fates["trainer.epochs"] == (
        "argument", "trainer.epochs=2; then overridden by `trainer.epochs=3`",
    )  # fmt: skip
    assert fates["trainer.run_name"][0] == "derived"
    assert fates["trainer.max_grad_norm"][0] == "dropped"
    assert fates["trainer.empty"] == ("dropped", "empty-mapping: nothing to send")
    assert fates["extra_env.A"] == ("environment", "A")
    assert fates["extra_env.B"] == ("dropped", "null-leaf: not set")
    assert fates["extra_env.C"] == ("dropped", "environment-rule: crippling here")
    assert fates["container.extra_env.APPTAINERENV_A"] == ("environment", "folded into A")
    assert fates["container.sif"] == (
        "dropped",
        "no-container-here: pods run the image by its digest",
    )
    assert fates["entrypoint"][0] == "setting"
    assert fates["nonsense.deep"][0] == "error"
