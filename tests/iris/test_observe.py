"""What is looked at before planning: the operator's MarinSkyRL, the store, and what could not be seen."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from rlaunch.model import Workspace
from rlaunch.shell import Shell
from rlaunch_iris import checkout, observe

from .conftest import Maker
from .test_archive import git

IMAGE = "ghcr.io/x/y@sha256:" + "1" * 64


def head(root: Path) -> str:
    """Return HEAD."""
    words = ["git", "-C", str(root), "rev-parse", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A MarinSkyRL with one commit, the one that an image bakes."""
    root = tmp_path / "MarinSkyRL"
    (root / "skyrl-train/skyrl_train").mkdir(parents=True)
    (root / "skyrl-train/skyrl_train/moe.py").write_text("old")
    (root / "README.md").write_text("x")
    git(tmp_path, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "baked")
    return root


def profile(clone: Path, baked: str) -> dict[str, Any]:
    """Make the parts of a profile that the comparison reads."""
    return {
        "images": {"sha256:" + "1" * 64: {"skyrl": baked}}, "skyrl_checkout": str(clone),
        "skyrl_used": ["skyrl-train/skyrl_train/"],
    }  # fmt: skip


def test_ahead_in_a_file_that_runs(clone: Path) -> None:
    """Commits of the checkout that the image lacks are counted, and the files in use are named."""
    baked = head(clone)
    (clone / "skyrl-train/skyrl_train/moe.py").write_text("new")
    git(clone, "commit", "-qam", "fix")
    found = checkout.compare(profile(clone, baked[:8]), IMAGE, Shell())
    assert (found["ahead"], found["changed"]) == (1, ["skyrl-train/skyrl_train/moe.py"])
    assert found["head"] == head(clone)


def test_ahead_elsewhere(clone: Path) -> None:
    """A commit that touches nothing in use names no file."""
    baked = head(clone)
    (clone / "README.md").write_text("y")
    git(clone, "commit", "-qam", "docs")
    found = checkout.compare(profile(clone, baked), IMAGE, Shell())
    assert (found["ahead"], found["changed"]) == (1, [])


def test_nothing_to_compare(clone: Path, tmp_path: Path) -> None:
    """An unknown image or an unknown commit: nothing is claimed. A missing checkout is told as one."""
    baked = head(clone)
    missing = checkout.compare(profile(tmp_path / "absent", baked), IMAGE, Shell())
    assert (missing["path"], missing["absent"]) == (str(tmp_path / "absent"), True)
    assert checkout.compare(profile(clone, baked), "ghcr.io/x/y@sha256:" + "2" * 64, Shell()) == {}
    assert checkout.compare(profile(clone, ""), IMAGE, Shell()) == {}
    assert checkout.compare(profile(clone, baked), None, Shell()) == {}


def test_comparison_that_cannot_be_made(clone: Path, tmp_path: Path) -> None:
    """A folder that is no checkout, and a commit that it does not have, are told."""
    plain = tmp_path / "plain"
    plain.mkdir()
    assert "no git checkout" in checkout.compare(profile(plain, "abc"), IMAGE, Shell())["problem"]
    found = checkout.compare(profile(clone, "feedface"), IMAGE, Shell())
    assert "does not have the image's commit feedface" in found["problem"]


def test_known_by_its_beginning() -> None:
    """A digest of which only the beginning is known is found, and an exact one stands before it."""
    images = {"sha256:65b0": {"tag": "short"}, "sha256:65b07c": {"tag": "longer"}}
    found = checkout.image_of({"images": images}, "x@sha256:65b0" + "0" * 60)
    assert found == {"tag": "short"}


def test_what_is_not_seen_is_told(
    make: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look that fails stands under `unseen` with its reason; the others are there."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tree").mkdir()
    run = make.run(kubeconfig="/nowhere/kube")._replace(workspace=Workspace(str(tmp_path / "tree")))
    seen = observe.look(run, Shell(), "2026-01-02T03:04:05Z")
    assert seen.facts["workspace"]["files"] == 0
    assert "there is no such file" in seen.facts["unseen"]["nodes"]
    assert seen.at
    assert seen.source


def test_late_looks_are_left(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look that takes too long is given up by its name."""
    import time

    monkeypatch.setattr(observe, "LIMIT_S", 0.3)
    monkeypatch.setattr(observe, "nodes", lambda run: time.sleep(2) or {})
    began = time.monotonic()
    seen = observe.look(make.run(), Shell(), "now")
    assert time.monotonic() - began < 1.5
    assert seen.facts["unseen"] == {"nodes": "no answer in 0.3 s"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "there is no such file"), ("a: [", "expected"), ("- a", "it is no YAML mapping"),
        ("", "it is no YAML mapping"), ("a: 2026-13-45", "month must be"),
    ],
)  # fmt: skip
def test_a_cluster_file_that_no_client_takes(
    make: Maker, tmp_path: Path, text: str | None, reason: str
) -> None:
    """A dry run says already that Iris's own file is missing or no YAML mapping."""
    file = tmp_path / "iris.yaml"
    if text is not None:
        file.write_text(text)
    run = make.run(kubeconfig="", cluster_config=str(file))
    seen = observe.look(run._replace(workspace=Workspace(str(tmp_path / "none"))), Shell(), "now")
    found = make.check(run, observed=seen)["iris.config-invalid"]
    assert (found.level, found.place) == ("error", str(file))
    assert reason in found.message


def test_a_cluster_file_that_is_one(make: Maker, tmp_path: Path) -> None:
    """A YAML mapping passes: its schema is the installed client's."""
    file = tmp_path / "iris.yaml"
    file.write_text("name: x\n")
    run = make.run(kubeconfig="", cluster_config=str(file))
    assert observe.cluster_config(run) == {}
    assert observe.cluster_config(make.run(cluster_config="~nobody-here/x"))["findings"]
