"""`--skip-preflight`: every name that is taken skips something, and every other name is refused."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest
from tests.core.scripted import make_world

import rlaunch_iris.preflight
import rlaunch_local.preflight
import rlaunch_slurm_jupiter.preflight
from rlaunch import skipping
from rlaunch.choose import choose


def said(tmp_path: Path, cluster: str, *names: str) -> list[Any]:
    """What is wrong with these names on a shipped cluster."""
    return list(skipping.unknown(names, choose(make_world(tmp_path), cluster)))


@pytest.mark.parametrize("cluster", ["local", "iris", "slurm_jupiter"])
def test_an_unknown_name_is_refused_on_every_cluster(tmp_path: Path, cluster: str):
    """The finding lists the names there are, with the nearest one; codes and names that exist pass."""
    (found,) = said(tmp_path, cluster, "bogus")
    assert (found.level, found.code) == ("error", "core.check-unknown")
    assert "`secrets`, " in found.hint
    (found,) = said(tmp_path, cluster, "secret")
    assert "did you mean `secrets`?" in found.hint
    checks = choose(make_world(tmp_path), cluster).cluster.checks
    assert said(tmp_path, cluster, "secrets", "core.secret-missing", *checks) == []
    assert all(f"`{name}`" in found.hint for name in checks)


def test_an_unknown_code_is_refused(tmp_path: Path):
    """What has a dot, and a blank, is looked up among the codes."""
    assert [f.code for f in said(tmp_path, "iris", "iris.no-rom", " ")] == ["core.code-unknown"] * 2
    assert said(tmp_path, "iris", "iris.no-room") == []


def test_the_names_are_the_checks_that_preflight_asks(tmp_path: Path):
    """A check without a name could not be skipped, and a name without a check would skip nothing."""
    checks = {
        name: set(choose(make_world(tmp_path), name).cluster.checks)
        for name in ("local", "iris", "slurm_jupiter")
    }
    text = inspect.getsource(rlaunch_local.preflight)
    codes = set(re.findall(r'"local\.([a-z-]+)"', text)) - {"not-linux"}
    assert checks["local"] == codes
    asked = re.findall(
        r'^        "([a-z]+)": lambda', inspect.getsource(rlaunch_iris.preflight), re.M
    )
    assert checks["iris"] == set(asked)
    assert checks["slurm_jupiter"] == {"source", *rlaunch_slurm_jupiter.preflight.CHECKS}
