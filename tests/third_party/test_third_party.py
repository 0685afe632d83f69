"""A plugin in a package of its own: found by its entry point, used by name, proved by the kit."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ACME = Path(__file__).parent / "acme"
RECIPE = """\
entrypoint: rlaunch.smoke
trainer:
  epochs: 1
  placement:
    colocate_all: true
    policy_num_nodes: {nodes}
    policy_num_gpus_per_node: 4
"""


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """Install the outsider's distribution into a folder of its own; returns an environment with it."""
    site = tmp_path / "site"
    shutil.copytree(ACME / "rlaunch_acme", site / "rlaunch_acme")
    project = tomllib.loads((ACME / "pyproject.toml").read_text())["project"]
    info = site / f"rlaunch_acme-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"].items()
    text = "".join(
        f"[{group}]\n" + "".join(f"{name} = {module}\n" for name, module in points.items())
        for group, points in groups
    )
    (info / "entry_points.txt").write_text(text)
    home = tmp_path / "home"
    home.mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "USER": "kit",
        "PYTHONPATH": str(site),
    }


def rlaunch(env: dict[str, str], *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "rlaunch", *words],
        env=env, cwd=cwd, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def launch(env: dict[str, str], tmp: Path, nodes: int) -> subprocess.CompletedProcess[str]:
    """Ask for a dry run on the outsider's cluster."""
    (tmp / "recipe.yaml").write_text(RECIPE.format(nodes=nodes))
    return rlaunch(
        env, "--cluster", "acme", "--rl_config", "recipe.yaml", "--model_path", "toy/grpo",
        "--train_data", '["builtin/sums"]', "--dry-run", "--json", cwd=tmp,
    )  # fmt: skip


def test_cluster_is_listed_with_its_distribution(installed: dict[str, str], tmp_path: Path) -> None:
    """`rlaunch clusters` lists the outsider's cluster beside our own, with who brings it."""
    done = rlaunch(installed, "clusters", "--json", cwd=tmp_path)
    known = {c["name"]: c for c in json.loads(done.stdout)["clusters"]}
    assert known["acme"]["distributions"] == ["rlaunch-acme"]
    assert "local" in known


def test_cluster_plans_by_name(installed: dict[str, str], tmp_path: Path) -> None:
    """`--cluster acme` plans on the outsider's cluster: its own request, its profile's settings."""
    done = launch(installed, tmp_path, 1)
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["native"]["command"] == ["queue", "submit"]
    assert json.loads(plan["native"]["request"])["argv"] == plan["command"]["argv"]
    assert plan["provenance"]["gpus_per_node"]["source"] == "profile acme"


def test_rule_of_the_plugin_is_asked(installed: dict[str, str], tmp_path: Path) -> None:
    """A rule of the outsider's plugin refuses a run, and its page can be read."""
    done = launch(installed, tmp_path, 2)
    assert done.returncode == 3
    assert "acme.one-node" in done.stdout + done.stderr
    page = rlaunch(installed, "explain", "acme.one-node", cwd=tmp_path)
    assert "one process, on one node" in page.stdout


def test_kit_is_green(installed: dict[str, str], tmp_path: Path) -> None:
    """The outsider's own test file, six lines and a bench, passes every promise of the kit."""
    tests = tmp_path / "tests"
    tests.mkdir()
    shutil.copy(ACME / "conformance_acme.py", tests / "test_acme.py")
    (tests / "conftest.py").write_text('pytest_plugins = ["rlaunch.testing.plugin"]\n')
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)],
        env=installed, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    assert "33 passed" in done.stdout, done.stdout
