"""`rlaunch port`: the new recipe, the table of changes, and what stops it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
import yaml
from tests.cli.conftest import Said

from rlaunch import schemas

Rl = Callable[..., Said]
RECIPE = """\
# an experiment
entrypoint: terminal_bench
trainer:
  logger: wandb          # everything
  placement: {colocate_all: false, policy_num_nodes: 1, policy_num_gpus_per_node: 8}
generator:
  num_inference_engines: 8
  inference_engine_tensor_parallel_size: 1
  max_num_seqs: 24
"""
WHOLE = "policy_num_nodes: 1, policy_num_gpus_per_node: 8"
TWO_SMALL = "policy_num_nodes: 2, policy_num_gpus_per_node: 4"
SMALL = """\
name: small
plugin: scripted
gpus_per_node: 4
egress: false
run_dir: /scratch/{run}
storage_root: /scratch/{run}
data_root: /scratch/data
proposals:
  generator.max_num_seqs: {value: 16, reason: smaller GPUs}
env_rules:
  SKYRL_PROBE: {action: drop, reason: no probes here}
"""
LARGE = """\
name: large
plugin: scripted
gpus_per_node: 8
run_dir: /scratch/{run}
storage_root: /scratch/{run}
data_root: /scratch/data
secrets: [WANDB_API_KEY]
proposals:
  generator.max_num_seqs: {value: 24, reason: larger GPUs}
"""


@pytest.fixture
def sides(tmp_path: Path, scripted: object) -> tuple[str, ...]:
    """A recipe for nodes of 8 GPUs with internet, and where it shall go: nodes of 4 without."""
    for name, text in (("r.yaml", RECIPE), ("large.yaml", LARGE), ("small.yaml", SMALL)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return (
        str(tmp_path / "r.yaml"), "--from", str(tmp_path / "large.yaml"), "--to",
        str(tmp_path / "small.yaml"),
    )  # fmt: skip


def test_the_recipe_goes_to_stdout_and_the_table_to_stderr(rl: Rl, sides: tuple[str, ...]):
    """So that `rlaunch port … > new.yaml` is a recipe; comments and order are kept."""
    said = rl("port", *sides)
    assert said.code == 0
    expected = RECIPE.replace("wandb", "console", 1).replace(
        "1, policy_num_gpus_per_node: 8", "2, policy_num_gpus_per_node: 4"
    )
    assert said.out == expected
    assert 'mechanical   trainer.logger: "wandb" → "console"' in said.err
    assert "the nodes of `small` have no internet" in said.err
    assert "trainer.placement.policy_num_nodes: 1 → 2" in said.err
    assert "1×8 = 8 GPUs = 2×4: the world size stays" in said.err
    assert "large → small: changes: 3 mechanical; 1 proposed and kept as they were" in said.err


def test_an_output_file_is_written_and_never_over_another(
    rl: Rl, sides: tuple[str, ...], tmp_path: Path
):
    """With `-o` stdout has the table; a name that is taken is refused without `--force`."""
    output = tmp_path / "new.yaml"
    said = rl("port", *sides, "-o", str(output))
    assert said.code == 0
    assert said.out.endswith(f"{output}: written\n")
    assert "trainer.logger" in said.out
    assert yaml.safe_load(output.read_text(encoding="utf-8"))["trainer"]["logger"] == "console"
    output.write_text("precious", encoding="utf-8")
    said = rl("port", *sides, "-o", str(output))
    assert said.code == 3
    assert "error[port.exists]" in said.err
    assert output.read_text(encoding="utf-8") == "precious"
    assert rl("port", *sides, "-o", str(output), "--force").code == 0
    assert output.read_text(encoding="utf-8") != "precious"
    assert sorted(p.name for p in tmp_path.glob(".*")) == []


def test_a_proposal_is_made_when_it_is_accepted(rl: Rl, sides: tuple[str, ...]):
    """The table says how; accepted, the value changes with its class."""
    said = rl("port", *sides)
    key = "generator.max_num_seqs"
    assert f"tuning       {key}: 24 stays; `--accept {key}` makes it 16" in said.err
    said = rl("port", *sides, "--accept", key)
    assert yaml.safe_load(said.out)["generator"]["max_num_seqs"] == 16
    assert f"tuning       {key}: 24 → 16\n             smaller GPUs" in said.err


def test_what_changes_the_experiment_is_refused(rl: Rl, sides: tuple[str, ...], tmp_path: Path):
    """Nothing is written until each such key is accepted by its name."""
    recipe, output = tmp_path / "r.yaml", tmp_path / "new.yaml"
    recipe.write_text(f"{RECIPE}extra_env:\n  SKYRL_PROBE: 1\n", encoding="utf-8")
    said = rl("port", *sides, "-o", str(output))
    assert said.code == 3
    assert "error[port.needs-accept]: `extra_env.SKYRL_PROBE` would be taken out" in said.err
    assert f"at {recipe}:11:3: extra_env.SKYRL_PROBE" in said.err
    assert "hint: `--accept extra_env.SKYRL_PROBE`: no probes here" in said.err
    assert not output.exists()
    assert rl("port", *sides, "-o", str(output), "--accept", "extra_env.SKYRL_PROBE").code == 0
    assert "extra_env" not in yaml.safe_load(output.read_text(encoding="utf-8"))


def test_a_recipe_that_the_target_would_refuse_says_why(
    rl: Rl, sides: tuple[str, ...], tmp_path: Path
):
    """What was wrong before stays wrong: the file is written, the finding shown, and the code is 3."""
    recipe, output = tmp_path / "r.yaml", tmp_path / "new.yaml"
    recipe.write_text(
        RECIPE.replace("trainer:", "trainer:\n  enable_db_registration: true"), encoding="utf-8"
    )
    said = rl("port", *sides, "-o", str(output))
    assert said.code == 3
    assert "error[skyrl.db-registration]" in said.err
    assert f"at {output}:4:3" in said.err
    assert said.out.endswith(f"{output}: written; `small` would refuse it, see above\n")
    assert output.exists()


def test_the_ported_recipe_passes_check(rl: Rl, sides: tuple[str, ...], tmp_path: Path):
    """What comes out is what `check` says is good on the target."""
    output = tmp_path / "new.yaml"
    rl("port", *sides, "-o", str(output))
    assert rl("check", str(output), "--cluster", sides[-1]).code == 0


@pytest.mark.parametrize("more", [(), ("--accept", "generator.max_num_seq")])
def test_the_document_fits_its_schema(rl: Rl, sides: tuple[str, ...], more: tuple[str, ...]):
    """`--json` is one document, with or without a recipe in it."""
    said = rl("port", *sides, "--json", *more)
    jsonschema.Draft202012Validator(schemas.schema("port")).validate(said.document)
    assert said.document["ok"] is (said.code == 0)
    assert (said.document["text"] is None) is bool(more)
    assert said.code == (3 if more else 0)
    rows = {row["key"]: row for row in said.document["changes"]}
    assert rows["trainer.logger"]["before"] == "wandb"
    assert rows["trainer.logger"]["kind"] == "mechanical"


def test_geometry_is_whole_or_refused_with_the_sum(rl: Rl, sides: tuple[str, ...], tmp_path: Path):
    """Back from 3 nodes of 4 there are no whole nodes of 8."""
    recipe = tmp_path / "r.yaml"
    text = RECIPE.replace(WHOLE, TWO_SMALL).replace(
        "num_inference_engines: 8", "num_inference_engines: 4"
    )
    recipe.write_text(text, encoding="utf-8")
    said = rl("port", str(recipe), "--from", sides[4], "--to", sides[2])
    assert said.code == 3
    assert said.out == ""
    assert "error[port.geometry]" in said.err
    assert "8 (policy) + 4×1 (engines) = 12 GPUs / 8 = 1.5 nodes" in said.err


def test_trouble_with_files_is_told(rl: Rl, sides: tuple[str, ...], tmp_path: Path):
    """A recipe that is not there, and a directory that is not there."""
    said = rl("port", str(tmp_path / "gone.yaml"), *sides[1:])
    assert said.code == 3
    assert "error[recipe.missing]" in said.err
    assert "\n  at RECIPE\n" in said.err
    said = rl("port", *sides, "-o", str(tmp_path / "no" / "new.yaml"))
    assert said.code == 3
    assert "error[core.output]" in said.err


@pytest.mark.parametrize("flag", ["--from", "--to"])
def test_an_unknown_cluster_is_told_at_the_flag_that_named_it(
    rl: Rl, sides: tuple[str, ...], flag: str
):
    """`port` has two clusters and no `--cluster`."""
    words = list(sides)
    words[words.index(flag) + 1] = "nope"
    said = rl("port", *words)
    assert said.code == 3
    assert f"error[core.cluster-unknown]: no cluster `nope` is installed\n  at {flag}\n" in said.err
