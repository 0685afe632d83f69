"""The rules of Iris: each speaks where it should, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

import rlaunch_iris
from rlaunch.model import Command, Observed

from .conftest import SEEN, Maker

DIGEST = "sha256:" + "1" * 64
BAKED = {"path": "/c/MarinSkyRL", "head": "518179d0" + "0" * 32, "baked": "272bf011"}
BEHIND = {**BAKED, "ahead": 3, "changed": ["skyrl-train/skyrl_train/moe.py"], "changed_count": 12}


def seen(**facts: Any) -> Observed:
    """Observe something beside the workspace."""
    return SEEN._replace(facts={**SEEN.facts, **facts})


def test_the_usual_launch_is_quiet(make: Maker) -> None:
    """A toy run on the default profile has no finding of this plugin."""
    assert make.check(make.run()) == {}


@pytest.mark.parametrize(
    "image",
    [
        "ghcr.io/x/y:gpu-rl", "ghcr.io/x/y", "ghcr.io/x/y@sha256:123", "ghcr.io/x/y:latest",
        f"ghcr.io/x/y@{DIGEST} ", f"@{DIGEST}",
    ],
)  # fmt: skip
def test_floating_image(make: Maker, image: str) -> None:
    """A tag, no tag, half a digest and stray characters are refused with the reason."""
    found = make.check(make.run(task_image=image))["iris.image-floating"]
    assert found.level == "error"
    assert found.place == "--task-image"


def test_no_waiver_for_a_floating_image() -> None:
    """No flag lets a floating image pass."""
    codes = {c.code: c for c in rlaunch_iris.CODES}
    assert not codes["iris.image-floating"].waivable
    assert codes["iris.image-behind"].waivable
    assert codes["iris.running-limit"].waivable


def test_unknown_image(make: Maker) -> None:
    """A digest whose commit nobody knows is a warning, and goes."""
    found = make.check(make.run(task_image=f"ghcr.io/x/y@{DIGEST}"))
    assert {code: f.level for code, f in found.items()} == {"iris.image-unknown": "warning"}


def test_withdrawn_image(make: Maker) -> None:
    """An image that is known to be broken is an error with the reason, though only its beginning is known."""
    found = make.check(make.run(task_image="ghcr.io/x/y@sha256:65b07cec" + "0" * 56))
    assert "NCCL times out" in found["iris.image-withdrawn"].message


def test_missing_image(make: Maker) -> None:
    """A pod without an image is refused; a local controller runs processes."""
    pod = make.run()._replace(task_image=None)
    assert "iris.image-missing" in make.check(pod)
    local = make.run("iris-local")._replace(task_image=None)
    assert make.check(local) == {}


def test_megatron(make: Maker) -> None:
    """Megatron needs an image of its own, named by the operator."""
    command = Command(("python", "trainer.strategy=fsdp2", "++trainer.strategy='megatron'"))
    assert "iris.image-megatron" in make.check(make.run(), command)
    named = make.run(task_image=f"ghcr.io/x/y@{DIGEST}")
    assert "iris.image-megatron" not in make.check(named, command)
    assert "iris.image-megatron" not in make.check(make.run(), Command(("trainer.strategy=fsdp2",)))


def test_image_behind_the_checkout(make: Maker) -> None:
    """Commits that the image lacks are an error with both commits and the files in use."""
    found = make.check(make.run(), observed=seen(skyrl=BEHIND))["iris.image-behind"]
    for part in (
        "272bf011",
        "518179d00000",
        "3 commits",
        "`skyrl-train/skyrl_train/moe.py`",
        "11 more",
    ):
        assert part in found.message
    assert "--skyrl-ref 518179d00000" in found.hint


@pytest.mark.parametrize(
    "skyrl", [{}, {**BEHIND, "ahead": 0}, {**BEHIND, "changed": [], "changed_count": 0}]
)
def test_image_not_behind(make: Maker, skyrl: dict[str, Any]) -> None:
    """No checkout, no new commit, or none in files that a run executes: nothing is said."""
    assert make.check(make.run(), observed=seen(skyrl=skyrl)) == {}


def test_reference_answers_the_rule(make: Maker) -> None:
    """`--skyrl-ref` runs the commit, so the image may be behind."""
    run = make.run(skyrl_ref="518179d0")
    assert make.check(run, observed=seen(skyrl=BEHIND)) == {}


def test_reference_without_a_place(make: Maker) -> None:
    """`--skyrl-ref` needs a clone inside the image."""
    assert "iris.skyrl-nowhere" in make.check(make.run("iris-local", skyrl_ref="abc"))


def test_comparison_that_failed(make: Maker) -> None:
    """A checkout that could not be compared is a warning with the reason; none at all is a note."""
    found = make.check(make.run(), observed=seen(skyrl={**BAKED, "problem": "no commit"}))
    assert found["iris.skyrl-unseen"].level == "warning"
    none = {"path": "/m", "problem": "there is no such directory", "absent": True}
    assert make.check(make.run(), observed=seen(skyrl=none))["iris.skyrl-unseen"].level == "note"


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"cpu": "128"}, "iris.too-large"), ({"memory": "2TiB"}, "iris.too-large"),
        ({"disk": "30TiB"}, "iris.too-large"), ({"cpu": "64"}, "iris.cpu-crowded"),
        ({"cpu": "100"}, "iris.cpu-crowded"), ({"gpus_per_node": "4"}, "iris.partial-node"),
        ({"priority": "production"}, "iris.band-restricted"),
        ({"storage_root": "/tmp/x"}, "iris.storage-pod-local"),
        ({"rendezvous_dir": "/tmp/r"}, "iris.rendezvous-local"),
    ],
)  # fmt: skip
def test_settings_that_cannot_work(make: Maker, settings: dict[str, str], code: str) -> None:
    """Each setting that cannot work here is named, and nothing else is."""
    assert set(make.check(make.run(**settings))) == {code}


@pytest.mark.parametrize(
    "settings",
    [
        {"cpu": "48"}, {"cpu": "63"}, {"memory": "1700GB"}, {"disk": "21800Gi"},
        {"storage_root": "/tmp/x", "max_retries": "0"}, {"rendezvous_dir": "s3://marin-us-east-02a/r"},
    ],
)  # fmt: skip
def test_settings_that_work(make: Maker, settings: dict[str, str]) -> None:
    """Settings that were used for real are quiet."""
    assert make.check(make.run(**settings)) == {}


def test_one_node_meets_nobody(make: Maker) -> None:
    """A single node may have its rendezvous in its own pod."""
    assert make.check(make.run(nodes=1, rendezvous_dir="/tmp/r")) == {}


@pytest.mark.parametrize(("memory", "said"), [("512GB", True), ("1400GiB", False), ("auto", False)])
def test_memory_for_the_offload(make: Maker, memory: str, said: bool) -> None:
    """Offloading into less memory than a forward pass needed is a warning."""
    command = Command(("x", "trainer.policy.fsdp_config.cpu_offload=true"))
    found = make.check(make.run(memory=memory), command)
    assert ("iris.memory-low" in found) is said
    assert make.check(make.run(memory="512GB")) == {}


def test_what_was_found_in_the_workspace(make: Maker) -> None:
    """Findings of the packed workspace are repeated with the others, and again at submit."""
    finding = [
        "error",
        "iris.workspace-secret",
        "`.env` would travel with the workspace",
        ".env",
        "x",
    ]
    packed = {**SEEN.facts["workspace"], "findings": [finding]}
    found = make.check(make.run(), observed=seen(workspace=packed))
    assert found["iris.workspace-secret"].message == finding[2]


def test_what_was_not_seen(make: Maker) -> None:
    """A look that failed is a warning by its name."""
    found = make.check(make.run(), observed=seen(unseen={"nodes": "no kubeconfig"}))
    assert found["iris.not-seen"].message == "nodes could not be looked at: no kubeconfig"


def test_an_edited_plan(make: Maker) -> None:
    """A plan whose request or files are not its run's is refused, whatever its digest says."""
    run = make.run()
    plan = make.plan(run)
    request = {**plan.native["request"], "taskImage": "ghcr.io/x/y:latest"}
    edited = (
        plan._replace(native={**plan.native, "request": request}),
        plan._replace(files=plan.files[:1]),
        plan._replace(files=(plan.files[0]._replace(content="import os"), *plan.files[1:])),
    )
    for one in edited:
        codes = {f.code for f in rlaunch_iris.rlaunch_check(run, one)}
        assert codes == {"iris.plan-differs"}


def test_every_code_has_a_page() -> None:
    """No code is listed twice, and each page has a summary and a text."""
    codes = [c.code for c in rlaunch_iris.CODES]
    assert len(codes) == len(set(codes))
    assert all("\n\n" in c.page for c in rlaunch_iris.CODES)
