"""Without internet, model and data lie on the shared file system, and the hint is what brings them there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rlaunch.cluster import PreflightQuery
from rlaunch.model import Finding, Plan, Recipe, Run
from rlaunch.shell import Shell
from rlaunch_slurm_jupiter.preflight import CHECKS, check
from rlaunch_slurm_jupiter.site import Here

HUB = """
from pathlib import Path

def snapshot_download(repo_id, repo_type, local_dir):
    Path(local_dir).mkdir(parents=True)
    Path(local_dir, "task.toml").write_text(repo_id + " " + repo_type)
"""
OTHERS = {"source", *CHECKS} - {"staged"}


@pytest.fixture
def plan(
    tmp_path: Path, run_on: Callable[..., Run], plan_of: Callable[..., Plan], saved: Callable[[str], Recipe]
) -> Callable[..., Plan]:  # fmt: skip
    """Plan a JUPITER recipe on directories of this machine."""

    def make(**settings: Any) -> Plan:
        places = {"run_dir": f"{tmp_path}/a b/{{run}}", "data_root": f"{tmp_path}/the data"}
        recipe = saved("jupiter_24GPU_qwen3_coder_30b_a3b")
        return plan_of(
            run_on("jupiter", recipe, **{**places, "python": sys.executable, **settings})
        )

    return make


def ask(plan: Plan, host: str | None = None) -> dict[str, Finding]:
    """Ask what is not staged, by the flag that named it; a `host` is this machine under another name."""
    site = Here(Shell())
    site.host = host
    found = check(PreflightQuery(plan, skip=frozenset(OTHERS)), site, site.shell)
    return {finding.place: finding for finding in found}


def type_in(hint: str, tmp_path: Path) -> None:
    """Type what a hint has between its first backticks, on a machine with a hub of its own."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "huggingface_hub.py").write_text(HUB)
    (tools / "ssh").write_text('#!/bin/sh\n[ "$1" = me@login ] && exec sh -c "$2"\n')
    (tools / "ssh").chmod(0o755)
    env = {**os.environ, "PYTHONPATH": str(tools), "PATH": f"{tools}:{os.environ['PATH']}"}
    command = re.search(r"`(.*?)`", hint)
    assert command is not None, hint
    subprocess.run(["sh", "-c", command[1]], env=env, cwd=tmp_path, check=True)


@pytest.mark.parametrize("host", [None, "me@login"])
def test_the_hint_stages_the_data(
    plan: Callable[..., Plan], tmp_path: Path, host: str | None
) -> None:
    """What is missing is named with a command, and after that was typed nothing is missing."""
    made = plan()
    found = ask(made, host)["--train_data"]
    assert (found.level, found.code) == ("error", "slurm_jupiter.not-staged")
    assert "`org/tasks`" in found.message
    type_in(found.hint, tmp_path)
    assert "--train_data" not in ask(made, host)


def test_a_model_is_looked_for_where_the_job_will(
    plan: Callable[..., Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hf_home` holds the models; without it they lie in the hub's own cache below the home directory."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for settings, cache in (
        ({"hf_home": f"{tmp_path}/hf home"}, tmp_path / "hf home"),
        ({}, tmp_path / "home/.cache/huggingface"),
    ):
        made = plan(**settings)
        found = ask(made)["--model_path"]
        assert "hf download Qwen/Qwen3-8B`" in found.hint
        assert ("HF_HOME=" in found.hint) == bool(settings)
        (cache / "hub/models--Qwen--Qwen3-8B/snapshots/abc").mkdir(parents=True)
        assert "--model_path" not in ask(made)


def test_directories_that_are_not_there(plan: Callable[..., Plan], tmp_path: Path) -> None:
    """A model or data named by path must be there, and are not fetched from anywhere."""
    run = plan().run
    places = {"model_path": str(tmp_path / "m"), "train_data": (str(tmp_path / "d"),)}
    made = plan()._replace(run=run._replace(**places))
    assert set(ask(made)) == {"--model_path", "--train_data"}
    assert not any("download" in f.hint or "stage" in f.hint for f in ask(made).values())
    for folder in ("m", "d"):
        (tmp_path / folder / "x").mkdir(parents=True)
    assert ask(made) == {}


@pytest.mark.parametrize(
    ("host", "user"), [(None, "ada"), ("grace@login01", "grace"), ("login01", "ada")]
)
def test_paths_of_a_login_node_have_its_user(
    run_on: Callable[..., Run], host: str | None, user: str
) -> None:
    """`{user}` is who one is there: the name before the `@` of the host, else one's own."""
    run = run_on("jupiter", **({"host": host} if host else {}))
    assert run.paths.run_dir.startswith(f"/e/scratch/reformo/{user}/")
    assert run.paths.data == f"/e/scratch/reformo/{user}/rlaunch/data"
    assert run.user == "ada"
