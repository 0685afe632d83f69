"""What a port does with variables, containers, loggers and paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from tests.skyrl.conftest import read
from tests.skyrl.profiles import iris, jupiter
from tests.skyrl.test_port import IRIS, JUPITER, SMALL, TP, codes, small

from rlaunch.porting import here, places
from rlaunch.porting.translate import translate
from rlaunch.skyrl.tree import look


def test_an_unclassified_variable_needs_consent():
    """A rule that drops a variable which may change results is not enough."""
    rules = {"SKYRL_W13_RELOAD_BRACKET": {"action": "drop", "reason": "not here"}}
    target = {**IRIS, "env_rules": rules}
    recipe = small(more="extra_env: {SKYRL_W13_RELOAD_BRACKET: '1', NCCL_DEBUG: WARN}\n")
    key = "extra_env.SKYRL_W13_RELOAD_BRACKET"
    refused = translate(recipe, target, JUPITER)
    assert codes(refused) == ["port.needs-accept"]
    assert f"`--accept {key}`" in refused.findings[0].hint
    made = translate(recipe, target, JUPITER, [key])
    assert codes(made) == []
    assert look(made.body, "extra_env") == {"NCCL_DEBUG": "WARN"}


def test_accepting_what_nobody_offers_is_an_error():
    """A misspelt key of `--accept` is not passed over."""
    made = translate(small(1, 8, 4, 8), JUPITER, IRIS, [f"{TP}s"])
    assert "port.accept" in codes(made)
    assert f"did you mean `{TP}`?" in {found.hint for found in made.findings}


def test_variables_of_a_container_become_text_at_the_top():
    """Twins are folded, numbers become text, what stands at the top already wins."""
    recipe = small(more=(
        "extra_env: {A: top}\ncontainer:\n  sif: /e/x.sif\n  extra_env:\n"
        "    A: 1\n    B: true\n    APPTAINERENV_B: 1\n    APPTAINERENV_C: 3\n    D: null\n"
    ))  # fmt: skip
    made = translate(recipe, {**IRIS, "env_rules": {}}, JUPITER)
    assert look(made.body, "extra_env") == {"A": "top", "B": "1", "C": "3", "D": None}
    assert "container" not in made.body


def test_twins_that_differ_are_not_folded_away():
    """Which of the two is meant, nobody can know."""
    recipe = small(more="container: {extra_env: {EPDIAG: 1, APPTAINERENV_EPDIAG: 0}}\n")
    assert codes(translate(recipe, IRIS, JUPITER)) == ["env.twins-differ"]


def test_what_only_a_container_or_no_internet_needs_is_dropped():
    """Without any rule for it: libraries inside an image, and libraries kept offline."""
    extra = {"LIBRARY_PATH": "/.singularity.d/libs", "HF_HUB_OFFLINE": "1", "NCCL_DEBUG": "INFO"}
    recipe = small()
    recipe = recipe._replace(body={**recipe.body, "extra_env": extra})
    bare = {**IRIS, "env_rules": {}}
    assert look(translate(recipe, bare, JUPITER).body, "extra_env") == {"NCCL_DEBUG": "INFO"}
    assert look(translate(recipe, jupiter(name="other"), JUPITER).body, "extra_env") == extra


def test_variables_that_are_no_mapping_are_an_error():
    """What cannot be read as variables is not rewritten."""
    assert codes(translate(small(more="extra_env: [A]\n"), IRIS, JUPITER)) == ["env.not-mapping"]
    assert codes(translate(small(more="extra_env: {A: [1]}\n"), IRIS, JUPITER)) == [
        "env.not-scalar"
    ]


def test_twins_at_the_top_are_folded_too():
    """With or without their plain name, and with the target's rules."""
    recipe = small(more=(
        "extra_env: {A: 1, APPTAINERENV_A: 1, APPTAINERENV_B: 2, APPTAINERENV_NCCL_P2P_DISABLE: 1, "
        "APPTAINERENV_LD_LIBRARY_PATH: /x}\n"
    ))  # fmt: skip
    made = translate(recipe, IRIS, JUPITER)
    assert look(made.body, "extra_env") == {
        "A": 1, "B": "2", "LD_LIBRARY_PATH": "/opt/openthoughts/envs/rl/lib",
    }  # fmt: skip
    assert look(translate(recipe, JUPITER, JUPITER).body, "extra_env.APPTAINERENV_B") == 2


def test_a_container_without_a_counterpart_is_taken_away():
    """Another SLURM cluster that knows no image: the paths go, the variables stay, and a note says so."""
    recipe = small(
        more="container: {sif: /e/x.sif, overlays: [/e/o.img], extra_env: {EPDIAG: 1}}\n"
    )
    made = translate(recipe, jupiter(name="capella", binds=()), JUPITER)
    assert look(made.body, "container") == {"extra_env": {"EPDIAG": 1}}
    assert [found.code for found in made.findings] == ["port.no-image"]


def test_twins_go_with_their_plain_name():
    """Where containers are, twins may stay; one whose variable is dropped would bring it back."""
    recipe = small(more=(
        "container: {extra_env: {HF_HUB_OFFLINE: 1, APPTAINERENV_HF_HUB_OFFLINE: 1, EPDIAG: 1, "
        "APPTAINERENV_EPDIAG: 1, LIBRARY_PATH: /.singularity.d/libs}}\n"
    ))  # fmt: skip
    made = translate(recipe, jupiter(name="capella", egress=True, sif="/data/x.sif"), JUPITER)
    assert look(made.body, "container.extra_env") == {
        "EPDIAG": 1, "APPTAINERENV_EPDIAG": 1, "LIBRARY_PATH": "/.singularity.d/libs",
    }  # fmt: skip
    assert made.findings == ()


def test_what_needs_no_gpus_has_no_geometry():
    """The toy trainer takes nodes as they are; a cluster without GPUs refuses everything else."""
    toy = read("entrypoint: rlaunch.smoke\ntrainer: {placement: {policy_num_nodes: 2}}\n")
    assert translate(toy, IRIS, JUPITER).changes == ()
    whole = read(SMALL.replace("policy_num_nodes: %d, ", "") % (4, 8, 1))
    made = translate(whole, IRIS, JUPITER)
    assert look(made.body, "trainer.placement.policy_num_gpus_per_node") == 8
    assert codes(made) == ["skyrl.policy-missing"]


def test_interface_names_stay_behind():
    """The network of one cluster means nothing on another."""
    for head in ("extra_env: %s\n", "container: {extra_env: %s}\n"):
        recipe = small(more=head % "{NCCL_SOCKET_IFNAME: ib0, NCCL_IB_TIMEOUT: '23'}")
        made = translate(recipe, {**IRIS, "env_rules": {}}, JUPITER)
        assert look(made.body, "extra_env") == {"NCCL_IB_TIMEOUT": "23"}


def test_a_container_is_made_from_the_targets_profile():
    """A target with an image of its own gets its block; without one, a note says what will happen."""
    own = jupiter(sif="/e/scratch/rl.sif", pydeps="/e/scratch/deps")
    made = translate(small(1, 8, 8), own, IRIS)
    assert look(made.body, "container") == {
        "sif": "/e/scratch/rl.sif", "binds": ["/e/scratch", "/e/data1"], "pydeps": "/e/scratch/deps",
    }  # fmt: skip
    back = translate(small()._replace(body=made.body), IRIS, own)
    assert "container" not in back.body
    assert "port.no-image" in {f.code for f in translate(small(1, 8, 8), JUPITER, IRIS).findings}


def test_another_clusters_image_is_replaced():
    """An image's path belongs to one file system."""
    other = jupiter(name="capella", gpus_per_node=4, binds=(), sif="/data/rl.sif")
    recipe = small(more="container: {sif: /e/x.sif, binds: [/e/data1], extra_env: {EPDIAG: 1}}\n")
    made = translate(recipe, other, JUPITER)
    assert look(made.body, "container") == {"sif": "/data/rl.sif", "extra_env": {"EPDIAG": 1}}


@pytest.mark.parametrize(
    ("logger", "to", "after"),
    [
        ("wandb", JUPITER, "console"),
        ("null", JUPITER, "console"),
        ("[console, wandb]", JUPITER, ["console"]),
        ("[wandb, mlflow]", JUPITER, ["console", "mlflow"]),
        ("[]", JUPITER, []),
        ("console", IRIS, "wandb"),
        ("[]", IRIS, []),
        ("mlflow", IRIS, "mlflow"),
    ],
)
def test_the_logger_follows_the_internet(logger: str, to: Mapping[str, Any], after: Any):
    """wandb where the nodes have a way to it, the console where they have none."""
    recipe = read((SMALL % (1, 8, 8, 1)).replace("logger: console", f"logger: {logger}"))
    source = JUPITER if to is IRIS else IRIS
    assert look(translate(recipe, to, source).body, "trainer.logger") == after


def test_a_recipe_that_keeps_wandb_offline_keeps_it():
    """Offline wandb needs no internet: its directory is synced later."""
    text = (SMALL % (1, 8, 8, 1)).replace("logger: console", "logger: wandb")
    recipe = read(text + "extra_env: {WANDB_MODE: offline}\n")
    assert look(translate(recipe, JUPITER, IRIS).body, "trainer.logger") == "wandb"


@pytest.mark.parametrize(
    ("path", "source", "target", "after"),
    [
        ("s3://marin-us-east-02a/iris/a/trials", IRIS, JUPITER, None),
        ("s3://marin-na/iris/a/trials", JUPITER, IRIS, "s3://marin-us-east-02a/iris/a/trials"),
        ("/e/data1/a/trials", JUPITER, IRIS, None),
        ("/tmp/trials", JUPITER, IRIS, "/tmp/trials"),
        ("trials", JUPITER, IRIS, "trials"),
        (
            "s3://marin-us-east-02a/iris/a",
            IRIS,
            {**iris(), "name": "other", "storage_root": "s3://bucket/runs"},
            "s3://bucket/runs/a",
        ),
    ],
)
def test_outputs_follow_the_store(path: str, source: Any, target: Any, after: str | None):
    """An output goes to the target's store, or to the run's own directory in it."""
    recipe = read((SMALL % (1, 8, 8, 1)).replace("trials_dir: null", f"trials_dir: {path}"))
    made = translate(recipe, target, source)
    assert look(made.body, "terminal_bench.trials_dir") == after


def test_a_foreign_file_is_kept_and_named():
    """Where a template lies on the other cluster, nobody can know."""
    recipe = small(more="")
    text = (SMALL % (1, 8, 8, 1)).replace(
        "generator: {", "generator: {engine_init_kwargs: {a: ./x.jinja2, b: /e/p/x.jinja2}, "
    )
    made = translate(read(text), IRIS, JUPITER)
    assert [(f.level, f.code) for f in made.findings] == [("warning", "port.foreign-path")]
    assert "`/e/p/x.jinja2`" in made.findings[0].message
    assert recipe.path in made.findings[0].place


def test_a_dump_is_put_where_it_can_be_written():
    """A directory of another cluster becomes a node-local one; others of its kind stay."""
    name = "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"
    wish = here.relocated(name, "/e/data1/x/fr/nccl_fr_rank", IRIS)
    assert wish is not None
    assert wish.value == "/tmp/nccl_fr_rank"
    assert here.relocated(name, "/tmp/nccl_fr_rank", IRIS) is None
    assert here.relocated(name, "/e/data1/x", JUPITER) is None
    assert here.relocated("HF_HOME", "/e/data1/x", IRIS) is None


def test_roots_end_at_the_first_placeholder():
    """What is the same for all runs and users is known; the rest is not."""
    assert places.roots(JUPITER) == ("/e/scratch/reformo/", "/e/scratch", "/e/data1")
    assert not places.foreign("/e/scratch/x", JUPITER)
    assert places.foreign("/e/scratches/x", JUPITER)
    assert not places.foreign("/tmp/rlaunch-abc/x", IRIS)
