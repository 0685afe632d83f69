"""What is free on the nodes, from listings as Kubernetes gives them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch_iris import headroom
from rlaunch_iris.headroom import Amounts

GIB = 1024**3
NEED = Amounts(48, 512 * GIB, 100 * GIB, 8)


def node(name: str, **changes: Any) -> dict[str, Any]:
    """Make an H100 node, ready and empty."""
    labels = {"backend.coreweave.cloud/leafgroup": "lg0"}
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": changes.get("spec", {}),
        "status": {
            "allocatable": {
                "cpu": "127960m", "memory": "2014Gi", "ephemeral-storage": "27Ti", "nvidia.com/gpu": "8",
                **changes.get("allocatable", {}),
            },
            "conditions": [{"type": "Ready", "status": changes.get("ready", "True")}],
        },
    }  # fmt: skip


def pod(where: str, cpu: str = "0", gpus: str = "0", **changes: Any) -> dict[str, Any]:
    """Make a pod that is bound to a node."""
    resources = {"requests": {"cpu": cpu, "memory": changes.get("memory", "0")}}
    resources["limits"] = {"nvidia.com/gpu": gpus}
    return {
        "metadata": {"labels": changes.get("labels", {})},
        "spec": {"nodeName": where, "containers": [{"resources": resources}], **changes.get("spec", {})},
        "status": {"phase": changes.get("phase", "Running")},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("127960m", 127.96), ("48", 48), (50, 50), ("2014Gi", 2014 * GIB), ("1e3", 1000), ("2k", 2000),
        ("1Ti", 1024**4), ("500M", 5e8), ("27.2Ti", 27.2 * 1024**4), ("x", 0), ("5Xi", 0), ("", 0),
    ],
)  # fmt: skip
def test_quantities(text: Any, number: float) -> None:
    """Kubernetes' quantities are read with their units; what is none counts as nothing."""
    assert headroom.quantity(text) == pytest.approx(number)


@given(st.text(max_size=10))
def test_any_text_is_a_quantity(text: str) -> None:
    """No text makes the reading fail."""
    assert headroom.quantity(text) >= 0


def test_room_for_the_gang() -> None:
    """Empty nodes have room, and nothing is said."""
    listing = headroom.survey([node("a"), node("b")], [])
    assert headroom.shortfall(listing, 2, NEED) == ""


def test_cpu_that_is_held_by_the_system() -> None:
    """The usual case is named with its arithmetic, and with a number of cores that fits."""
    nodes = [node(f"n{i}") for i in range(32)]
    pods = [pod(f"n{i}", cpu="66") for i in range(30)]
    listing = headroom.survey(nodes, pods)
    need = NEED._replace(cpu=64)
    said = headroom.shortfall(listing, 8, need)
    assert said.startswith(
        "needs 8 node(s) with 8 GPUs, 64 cpu, 512 GiB, 100 GiB disk; 2 of 32 have it"
    )
    assert said.endswith("cpu is short on 30")
    assert headroom.fitting_cpu(listing, 8, need) == 60
    assert headroom.fitting_cpu(listing, 2, NEED) is None


def test_what_does_not_count() -> None:
    """Ended pods hold nothing; cordoned, unready and smaller nodes are no room."""
    nodes = [
        node("a"), node("b", spec={"unschedulable": True}), node("c", ready="False"),
        node("d", allocatable={"nvidia.com/gpu": "4"}),
    ]  # fmt: skip
    listing = headroom.survey(nodes, [pod("a", cpu="100", phase="Succeeded"), pod("", cpu="9")])
    assert "1 of 1 have it free" in headroom.shortfall(listing, 2, NEED)


def test_jobs_of_iris_end_some_day() -> None:
    """Without Iris's own jobs only what the system holds counts: that will never be free."""
    pods = [
        pod("a", cpu="90", gpus="8", labels={"iris.managed": "true"}), pod("a", cpu="60"),
    ]  # fmt: skip
    now = headroom.survey([node("a")], pods)[0].free
    ever = headroom.survey([node("a")], pods, jobs=False)[0].free
    assert (now.cpu, now.gpus) == (0, 0)
    assert (ever.cpu, ever.gpus) == (pytest.approx(67.96), 8)


def test_init_containers_and_overhead() -> None:
    """A pod holds its containers or its largest init container, its sidecars and its overhead."""
    asked = {"resources": {"requests": {"cpu": "2"}}}
    spec = {
        "initContainers": [{"resources": {"requests": {"cpu": "10"}}}, {**asked, "restartPolicy": "Always"}],
        "overhead": {"cpu": "500m"},
    }  # fmt: skip
    assert headroom.request_of(pod("a", cpu="3", spec=spec)).cpu == 10.5
    spec["initContainers"] = [{**asked, "restartPolicy": "Always"}]
    assert headroom.request_of(pod("a", cpu="3", spec=spec)).cpu == 5.5


def test_summary() -> None:
    """Planning gets the smallest allocatable, and what the last of the N emptiest idle nodes has free."""
    nodes = [node("a"), node("b", allocatable={"memory": "1000Gi"}), node("c")]
    pods = [pod("a", memory="14Gi"), pod("c", gpus="8")]
    found = headroom.summary(headroom.survey(nodes, pods), 2, 8)
    assert (found["count"], found["idle"]) == (3, 2)
    assert found["smallest_memory"] == 1000 * GIB
    assert found["free_memory"] == 1000 * GIB
    assert "free_memory" not in headroom.summary(headroom.survey(nodes, pods), 3, 8)
    assert headroom.summary([], 1, 8) == {"count": 0, "idle": 0}


@pytest.mark.parametrize(
    "broken", [{}, {"spec": None}, {"status": {"conditions": None}}, {"metadata": {}}]
)
def test_odd_objects(broken: dict[str, Any]) -> None:
    """An object that lacks a part is a node or pod with nothing, never an exception."""
    listing = headroom.survey([broken, node("a")], [broken, {"spec": {"nodeName": "a"}}])
    assert headroom.shortfall(listing, 1, NEED) == ""
