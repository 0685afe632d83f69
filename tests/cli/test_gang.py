"""The main job through the command line: a real gang of two nodes, from flags to summary."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rlaunch import schemas

ROOT = Path(__file__).parents[2]
RECIPE = str(ROOT / "docs" / "recipes" / "smoke.yaml")


@pytest.mark.gang
def test_the_main_job_learns_and_is_summed_up(rl: Callable[..., Any], home: Path):
    """The smoke recipe on `--cluster local` waits, succeeds and tells rewards, rungs and places."""
    said = rl(
        "--cluster", "local", "--rl_config", RECIPE, "--model_path", "toy/grpo",
        "--train_data", '["builtin/sums"]', "--num-nodes", "2", "--interval", "1", "--json",
    )  # fmt: skip
    assert said.code == 0, said.err
    document = said.document
    jsonschema.Draft202012Validator(schemas.schema("launch")).validate(document)
    assert document["status"]["state"] == "SUCCEEDED"
    summary = document["summary"]
    assert summary["first_reward"] <= 0.3
    assert summary["last_reward"] >= 0.8
    assert summary["rungs"] == summary["rungs_in_all"] > 4
    assert Path(summary["run_dir"]).is_relative_to(home)
    assert (Path(summary["storage"]) / "checkpoints" / "latest_ckpt_global_step.txt").is_file()
    run = document["run"]
    assert "Training done!" in rl("logs", run, "--rank", "0").out
    assert rl("diagnose", run, "--json").document["verdict"] == "succeeded"
    assert rl("watch", run).code == 0
    assert rl("stop", run).code == 0
    (row,) = rl("runs", "--json").document["runs"]
    assert (row["run"], row["state"], row["exit_code"]) == (run, "SUCCEEDED", 0)


@pytest.mark.gang
def test_a_run_without_a_driver_is_told_as_such(rl: Callable[..., Any], home: Path):
    """Staging fails on both nodes: the summary, `status` and `diagnose` say so, and quote no driver.

    One may be told of the other's end before it has come to its own.
    """
    said = rl(
        "--cluster", "local", "--rl_config", RECIPE, "--model_path", "toy/grpo",
        "--train_data", '["builtin/nope"]', "--num-nodes", "2", "--interval", "1", "--job-name", "nope",
    )  # fmt: skip
    assert said.code == 1
    detail = "staging exited 2: rlaunch-smoke: no dataset is called `builtin/nope`"
    end = rf"FAILED \(staging-failed\) attempt=1: .*{re.escape(detail)}"
    assert re.search(end, said.out)
    diagnosed = rl("diagnose", "nope").out
    for text in (said.out, diagnosed):
        assert re.search(r"the driver was not launched: rank [01] was in the phase `staging`", text)
        word = r"the staging program's last line \(rank [01]\): `rlaunch-smoke: no dataset"
        assert re.search(word, text)
        assert "driver's last line" not in text
    assert re.search(r"not seen: ranks? (0|1|0, 1) ended there: staging-failed: ", diagnosed)
    assert re.search(end, rl("status", "nope").out)
    assert rl("explain", "staging-failed").code == 0
