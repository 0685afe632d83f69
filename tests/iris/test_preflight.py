"""Preflight: each check speaks where it should; all of them together in bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlaunch.cluster import PreflightQuery
from rlaunch.model import Finding, Plan
from rlaunch_iris import kube, preflight, troubles
from rlaunch_iris.cluster import Iris
from rlaunch_iris.observe import nodes as observe_nodes
from rlaunch_iris.views import Health, JobView

from .conftest import Maker
from .kubernetes_api import Api, serve
from .test_headroom import node, pod

MANAGED = {"iris-cw-use02a-managed": "true"}


class Controller:
    """A controller that says what a test wants."""

    def __init__(self, *jobs: JobView, date: str = "2026-01-01") -> None:
        self.jobs, self.date = jobs, date

    @property
    def health(self) -> Health:
        """A client of some day."""
        return Health("http://c", "0.2.227", self.date, "B")

    def job(self, job_id: str) -> JobView | None:
        """Look a job up."""
        return next((j for j in self.jobs if j.job_id == job_id), None)

    def running(self) -> tuple[JobView, ...]:
        """All of them."""
        return self.jobs


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    """A Kubernetes API with four empty nodes of the cluster."""
    with serve(tmp_path) as running:
        running.nodes = [managed(f"n{i}") for i in range(4)]
        yield running


def managed(name: str) -> dict[str, Any]:
    """Make a node of this cluster."""
    made = node(name)
    made["metadata"]["labels"] = MANAGED
    return made


def plan_with(make: Maker, api: Api | None = None, **settings: Any) -> Plan:
    """Plan a toy run on the default profile, with the API's kubeconfig or none."""
    path = str(api.kubeconfig) if api else ""
    return make.plan(make.run(kubeconfig=path, kube_context="marin" if api else "", **settings))


def check(
    plan: Plan,
    controller: Any = None,
    present: frozenset[str] = frozenset({"CW_KEY_ID", "CW_KEY_SECRET"}),
    skip: frozenset[str] = frozenset(),
) -> dict[str, Finding]:
    """Ask preflight."""
    controller = controller or Controller()
    query = PreflightQuery(plan, present, skip)
    found = preflight.check(query, lambda: controller, "2026-01-02T03:04:05Z")
    assert all(f.hint for f in found)
    return {f.code: f for f in found}


def test_a_good_world(make: Maker, api: Api) -> None:
    """With a fresh client, room, queue and secrets nothing is said."""
    assert check(plan_with(make, api)) == {}


def test_client_that_ages(make: Maker) -> None:
    """A client older than a controller may accept is a warning with its age."""
    found = check(plan_with(make), Controller(date="2025-12-01"))
    assert "32 days old" in found["iris.client-aging"].message
    assert check(plan_with(make), Controller(date="")) == {}


def test_name_that_is_taken(make: Maker) -> None:
    """A job of the same id on the controller is an error before anything is sent."""
    plan = plan_with(make)
    found = check(plan, Controller(JobView(plan.native["job"], "succeeded")))
    assert found["iris.name-taken"].level == "error"


def rl(name: str, counts: dict[str, int], gpus: int = 8) -> JobView:
    """Make a running job of somebody."""
    return JobView(f"/bob/{name}", "running", counts=counts, gpus=gpus)


def test_running_limit(make: Maker) -> None:
    """Six RL runs that really run are the limit; what waits, has no GPU or is no RL run does not count."""
    busy = [rl(f"rl-{i}", {"running": 8}) for i in range(5)]
    others = [
        rl("rl-gated", {"building": 8}), rl("rl-cpu", {"running": 1}, gpus=0), rl("eval", {"running": 8}),
    ]  # fmt: skip
    assert check(plan_with(make), Controller(*busy, *others)) == {}
    sixth = rl("mine-0a1b2c3d", {"running": 4, "building": 4})
    found = check(plan_with(make), Controller(*busy, *others, sixth))["iris.running-limit"]
    assert "6 RL runs run" in found.message
    assert "`/bob/mine-0a1b2c3d`" in found.message
    assert "--allow iris.running-limit" in found.hint


def test_another_cluster(make: Maker, api: Api) -> None:
    """A kubeconfig that leads to another cluster is an error that names it."""
    api.nodes = [node("a")]
    assert api.url in check(plan_with(make, api))["iris.wrong-cluster"].message


def test_queue_that_is_missing(make: Maker, api: Api) -> None:
    """A queue that Kueue does not have is an error."""
    api.queues = set()
    assert "`cw-use02a-lq`" in check(plan_with(make, api))["iris.queue-missing"].message


def test_gang_that_never_fits(make: Maker, api: Api) -> None:
    """What the system's pods hold for good is an error, with the cores that would fit."""
    api.pods = [pod(f"n{i}", cpu="66") for i in range(3)]
    found = check(plan_with(make, api, nodes=2, cpu="64"))["iris.never-fits"]
    assert found.level == "error"
    assert "1 of 4 have it free" in found.message
    assert found.hint == "`--cpu 60` fits"


def test_gang_that_waits(make: Maker, api: Api) -> None:
    """What other jobs hold is a warning: the gang waits for them."""
    api.pods = [pod(f"n{i}", gpus="8", labels={"iris.managed": "true"}) for i in range(3)]
    found = check(plan_with(make, api, nodes=2))["iris.no-room"]
    assert found.level == "warning"
    assert "gpus is short on 3" in found.message


@pytest.mark.parametrize(
    "harm", ["no file", "no yaml", "no context", "no server", "HTTP 403", "no JSON", "a list"]
)
def test_kubernetes_that_fails(make: Maker, api: Api, harm: str) -> None:
    """A kubeconfig or API that cannot be used is one explained finding, in seconds."""
    match harm:
        case "no file":
            api.kubeconfig.unlink()
        case "no yaml":
            api.kubeconfig.write_text("{")
        case "no context":
            api.write_config(api.url, context="other")
        case "no server":
            api.write_config("http://127.0.0.1:9")
        case "HTTP 403":
            api.status = 403
        case "no JSON":
            api.raw = b"<html>"
        case "a list":
            api.raw = b"[]"
    began = time.monotonic()
    found = check(plan_with(make, api))
    assert set(found) <= {"iris.kubeconfig", "iris.kubernetes-failed"}
    assert found
    assert time.monotonic() - began < 8


def test_skipped_by_name(make: Maker, api: Api) -> None:
    """A check that is skipped is not asked."""
    api.status = 500
    assert check(plan_with(make, api), skip=frozenset({"kubernetes"})) == {}
    assert api.asked == []


def test_every_check_can_be_skipped(make: Maker) -> None:
    """With all names of the cluster skipped nothing is asked."""

    def connect() -> Any:
        raise AssertionError("asked")

    query = PreflightQuery(plan_with(make), skip=frozenset(Iris.checks), collect=connect)
    assert preflight.check(query, connect, "2026-01-02T03:04:05Z") == []


def test_a_check_that_hangs(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check without an answer is an error by its name, and the others are heard."""
    monkeypatch.setattr(preflight, "LIMIT_S", 0.5)

    class Hung(Controller):
        def running(self) -> tuple[JobView, ...]:
            time.sleep(3)
            return ()

    began = time.monotonic()
    found = check(plan_with(make), Hung(date="2025-12-01"))
    assert time.monotonic() - began < 2
    assert "`running`" in found["iris.check-late"].message
    assert found["iris.check-late"].level == "error"
    assert "`--skip-preflight running`" in found["iris.check-late"].hint
    assert "iris.client-aging" in found


def test_a_cluster_that_is_slow_to_list(
    make: Maker, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes and pods that are late are a warning: Kueue decides about them."""
    monkeypatch.setattr(preflight, "LIMIT_S", 0.3)
    monkeypatch.setattr(preflight, "kubernetes", lambda plan: iter([time.sleep(2)]))
    late = check(plan_with(make, api))["iris.check-late"]
    assert (late.level, late.place) == ("warning", "kubernetes")


def test_a_controller_that_is_away(make: Maker) -> None:
    """An unreachable controller is said once, by its own code."""

    class Away(Controller):
        def job(self, job_id: str) -> JobView | None:
            raise troubles.unreachable("http://c", "refused")

    assert set(check(plan_with(make), Away())) == {"iris.controller-unreachable"}


def test_a_check_with_a_bug(make: Maker) -> None:
    """A bug in a check is a finding that names it, not a traceback in a thread."""

    class Broken(Controller):
        def running(self) -> tuple[JobView, ...]:
            raise KeyError("x")

    assert (
        "`running` failed: KeyError"
        in check(plan_with(make), Broken())["iris.check-failed"].message
    )


def test_listing_has_pages(make: Maker, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """More objects than a page holds are all counted, by the profile's selector and context."""
    monkeypatch.setattr(kube, "PAGE", 3)
    api.nodes += [managed(f"m{i}") for i in range(7)] + [node("foreign")]
    run = make.run(kubeconfig=str(api.kubeconfig), kube_context="marin")
    found = observe_nodes(run)
    assert found["count"] == 11
    assert len([path for path in api.asked if "/nodes" in path]) == 4


def test_pods_of_a_job(api: Api, make: Maker) -> None:
    """A job's pods are counted by the label that Iris gives them."""
    api.pods = [{"metadata": {"labels": {"iris.job_id": "ada.rl-1"}}}, {"metadata": {}}]
    opened = kube.open_kube({"kubeconfig": str(api.kubeconfig), "kube_context": "marin"})
    assert opened is not None
    assert opened.count_pods("/ada/rl-1", "iris") == 1
    assert opened.count_pods("/ada/rl-2", "iris") == 0
