"""`rlaunch check`: many recipes, offline, as text, JSON or SARIF."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import jsonschema
import pytest
from tests.cli.conftest import RECIPE, ROOT, Said

from rlaunch import schemas

Rl = Callable[..., Said]
GOOD = """\
entrypoint: terminal_bench
trainer:
  logger: console
  placement: {colocate_all: false, policy_num_nodes: 2, policy_num_gpus_per_node: 4}
generator: {num_inference_engines: 8, inference_engine_tensor_parallel_size: 1}
"""
BAD = GOOD.replace("logger:", "enable_db_registration: true\n  logger:")
WIDE = GOOD.replace("num_inference_engines: 8, inference_engine_tensor_parallel_size: 1",
                    "num_inference_engines: 1, inference_engine_tensor_parallel_size: 8")  # fmt: skip


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], str]:
    """Write a recipe far away from the workspace."""

    def make(name: str, text: str) -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return str(path)

    return make


def test_a_good_recipe_is_ok_wherever_it_lies(rl: Rl, write: Callable[[str, str], str]):
    """No cluster, no model, no data and no workspace is needed; what stood in for them is a note."""
    path = write("good.yaml", GOOD)
    said = rl("check", path)
    assert said.code == 0
    assert said.out == f"{path}: ok, 4 × 4 GPUs (1 note)\n"
    assert (
        "note[core.stand-in]: checked with stand-ins for `--model_path` and `--train_data`"
        in said.err
    )


def test_no_cluster_means_no_questions_about_one(rl: Rl, write: Callable[[str, str], str]):
    """Containers, paths, keys and the internet are a cluster's; without one nothing is said of them."""
    more = "container: {sif: /e/x.sif}\nextra_env: {A: /e/data1/x}\n"
    path = write("free.yaml", GOOD.replace("logger: console", "logger: wandb") + more)
    said = rl("check", "--json", path)
    assert {found["code"] for found in said.document["recipes"][0]["findings"]} == {"core.stand-in"}


def test_stand_ins_are_not_spoken_of(rl: Rl, write: Callable[[str, str], str]):
    """What a launch changes for its cluster or model is said with one that was named, not for a stand-in."""
    more = "terminal_bench: {trials_dir: 's3://bucket/x/trials'}\n"
    served = ", engine_init_kwargs: {served_model_name: Qwen3-8B}}"
    path = write("moved.yaml", GOOD.replace("_size: 1}", f"_size: 1{served}") + more)

    def told(*words: str) -> set[str]:
        document = rl("check", "--json", path, *words).document
        return {found["code"] for found in document["recipes"][0]["findings"]}

    changed = {"skyrl.adapted", "skyrl.served-name"}
    assert not told() & changed
    assert told("--model-path", "Qwen/Qwen3-4B") & changed == {"skyrl.served-name"}
    assert told("--cluster", "local") & changed == {"skyrl.adapted"}


def test_one_error_is_exit_3(rl: Rl, write: Callable[[str, str], str]):
    """The bad one is named with its line, and the good one is judged all the same."""
    bad, good = write("bad.yaml", BAD), write("good.yaml", GOOD)
    said = rl("check", bad, good)
    assert said.code == 3
    assert said.out.endswith("2 recipes: 1 ok, 1 refused\n")
    assert f"{good}: ok" in said.out
    assert "error[skyrl.db-registration]" in said.err
    assert f"at {bad}:3:3: trainer.enable_db_registration" in said.err


def test_what_cannot_be_read_stops_nothing(
    rl: Rl, write: Callable[[str, str], str], tmp_path: Path
):
    """A missing file, a directory, broken YAML and bytes that are no text stand beside a good recipe."""
    good, broken = write("good.yaml", GOOD), write("broken.yaml", "a: [1\nb: 2\n")
    odd = tmp_path / "odd.yaml"
    odd.write_bytes(b"a: \xff\n")
    paths = (str(tmp_path / "gone.yaml"), str(tmp_path), broken, str(odd), good)
    said = rl("check", "--json", *paths)
    assert said.code == 3
    found = {r["path"]: {f["code"] for f in r["findings"]} for r in said.document["recipes"]}
    assert list(found) == list(paths)
    assert [found[path] for path in paths[:4]] == [
        {"recipe.missing"}, {"recipe.unreadable"}, {"recipe.not-yaml"}, {"recipe.not-utf8"},
    ]  # fmt: skip
    assert said.document["recipes"][4]["ok"] is True


def test_a_cluster_is_part_of_the_question(
    rl: Rl, write: Callable[[str, str], str], scripted: object
):
    """The same recipe is too wide for nodes of one cluster and fits those of another."""
    path = write("wide.yaml", WIDE)
    profile = write(
        "small.yaml",
        (Path(__file__).parent / "scripted" / "scripted.yaml").read_text(encoding="utf-8"),
    )
    text = re.sub(
        r"gpus_per_node: \d+", "gpus_per_node: 4", Path(profile).read_text(encoding="utf-8")
    )
    Path(profile).write_text(text, encoding="utf-8")
    assert rl("check", path, "--cluster", "scripted").code == 0
    said = rl("check", path, "--cluster", profile)
    assert said.code == 3
    assert "error[skyrl.tp-crosses-node]" in said.err


def test_an_unknown_cluster_is_said_once(rl: Rl, write: Callable[[str, str], str]):
    """A wrong name is one error, before any recipe."""
    said = rl("check", write("good.yaml", GOOD), "--cluster", "nowhere")
    assert said.code == 3
    assert said.err.count("error[") == 1
    assert "error[core.cluster-unknown]" in said.err


def test_the_document_fits_its_schema(rl: Rl, write: Callable[[str, str], str]):
    """`--json` is one document, with the sums."""
    said = rl("check", "--json", write("bad.yaml", BAD), write("good.yaml", GOOD))
    jsonschema.Draft202012Validator(schemas.schema("check")).validate(said.document)
    assert said.document["ok"] is False
    assert said.document["errors"] == 1
    assert [recipe["ok"] for recipe in said.document["recipes"]] == [False, True]
    assert said.document["recipes"][1]["nodes"] == 4


def test_a_waived_error_is_a_warning(rl: Rl, write: Callable[[str, str], str]):
    """`--allow` works as at a launch, and not for what nothing allows."""
    path = write("dollar.yaml", f"{GOOD}extra_env: {{A: $HOME}}\n")
    assert rl("check", path).code == 3
    said = rl("check", path, "--allow", "env.dollar")
    assert said.code == 0
    assert "warning[env.dollar]" in said.err
    assert rl("check", write("bad.yaml", BAD), "--allow", "skyrl.db-registration").code == 3


def test_a_models_shape_is_looked_up(rl: Rl, write: Callable[[str, str], str]):
    """With the model named, what depends on it is judged."""
    path = write(
        "wide.yaml", WIDE.replace("_per_node: 4", "_per_node: 8").replace("nodes: 2", "nodes: 1")
    )
    said = rl("check", path)
    assert "note[skyrl.model-unknown]" in said.err
    said = rl("check", path, "--model-path", "Qwen/Qwen3-8B")
    assert "skyrl.model-unknown" not in said.err


def test_sarif_points_at_the_line(rl: Rl, write: Callable[[str, str], str], tmp_path: Path):
    """Each finding is a result with rule, level and place; of an unreadable file the place is the file."""
    bad = write("my recipe.yaml", BAD)
    said = rl("check", "--sarif", bad, str(tmp_path / "gone.yaml"))
    assert said.code == 3
    (run,) = said.document["runs"]
    assert said.document["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    for result in run["results"]:
        assert rules[result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["level"] in {"error", "warning", "note"}
        assert result["message"]["text"]
    (found,) = [r for r in run["results"] if r["ruleId"] == "skyrl.db-registration"]
    (location,) = found["locations"]
    place = location["physicalLocation"]
    assert place["artifactLocation"]["uri"] == f"file://{bad.replace(' ', '%20')}"
    assert place["region"] == {"startLine": 3, "startColumn": 3}
    assert location["logicalLocations"] == [
        {"fullyQualifiedName": "trainer.enable_db_registration", "kind": "member"}
    ]
    assert "shortDescription" in rules[found["ruleIndex"]]
    (gone,) = [r for r in run["results"] if r["ruleId"] == "recipe.missing"]
    assert "region" not in gone["locations"][0]["physicalLocation"]


def test_relative_paths_stay_relative_in_sarif(rl: Rl):
    """Code hosts match results with files by their path in the repository."""
    said = rl("check", "--sarif", "docs/recipes/smoke.yaml")
    uris = {
        result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
        for result in said.document["runs"][0]["results"]
    }
    assert uris == {"docs/recipes/smoke.yaml"}


def test_the_operators_shell_says_nothing(rl: Rl, monkeypatch: pytest.MonkeyPatch):
    """Keys that happen to lie in the shell are preflight's business, not a recipe's."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    assert "env.not-forwarded" not in rl("check", RECIPE).err


def test_json_and_text_agree(rl: Rl, write: Callable[[str, str], str]):
    """The same findings in both."""
    path = write("bad.yaml", BAD)
    document = rl("check", "--json", path).document
    text = rl("check", path).err
    for finding in document["recipes"][0]["findings"]:
        assert f"{finding['level']}[{finding['code']}]: {finding['message']}" in text
    assert json.dumps(document)


def test_many_recipes_are_judged_at_once(rl: Rl, write: Callable[[str, str], str]):
    """Many files of one call are each judged; how fast is for `benchmarks/check.py`."""
    saved = sorted((ROOT.parent / "shared" / "recipes").glob("*.yaml"))
    saved = saved or sorted((ROOT / "shared" / "recipes").glob("*.yaml"))
    paths = [write(f"{n}-{p.name}", p.read_text(encoding="utf-8")) for n in range(3) for p in saved]
    said = rl("check", "--json", "--cluster", "local", *paths)
    assert [r["path"] for r in said.document["recipes"]] == paths
