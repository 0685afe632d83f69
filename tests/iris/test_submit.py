"""Submit: what is sent is what was planned, once; what is uncertain is looked up."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from rlaunch import zipapps
from rlaunch.errors import ClusterError, UnclearSubmitError
from rlaunch.model import Plan, Workspace
from rlaunch.shell import Shell
from rlaunch.testing.fakes import FakeClock
from rlaunch_iris import observe, submit, troubles
from rlaunch_iris.views import JobView

from .conftest import Maker


class Controller:
    """A controller that goes wrong on request: faults that a real one cannot be brought to."""

    def __init__(
        self, *launches: Exception | str, there: tuple[bool | Exception, ...] = ()
    ) -> None:
        self.launches, self.there = list(launches), list(there)
        self.sent: list[tuple[Mapping[str, Any], Mapping[str, str], list[str]]] = []

    def launch(self, wanted: Mapping[str, Any], secrets: Mapping[str, str], folder: Path) -> str:
        """Answer or fail as told; note what was sent."""
        files = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        self.sent.append((wanted, secrets, files))
        answer = self.launches.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def job(self, job_id: str) -> JobView | None:
        """Say whether the job is there."""
        answer = self.there.pop(0) if self.there else False
        if isinstance(answer, Exception):
            raise answer
        return JobView(job_id, "pending") if answer else None


@pytest.fixture
def plan(tmp_path: Path, make: Maker, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """A plan of a real, small workspace."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "tree"
    root.mkdir()
    (root / "code.txt").write_text("x")
    run = make.run()._replace(workspace=Workspace(str(root)))
    planned = make.plan(run, observed=observe.look(run._replace(profile={**run.profile, "kubeconfig": ""}),
                                                   Shell(), "2026-01-02T03:04:05Z"))  # fmt: skip
    artifacts = tuple(zipapps.artifact(name) for name in zipapps.NAMES)
    return planned._replace(artifacts=(*artifacts, *planned.artifacts))


def send(plan: Plan, controller: Any, clock: FakeClock | None = None) -> Any:
    """Submit through the module, with the controller in place of a connection."""
    clock = clock or FakeClock()
    return submit.submit_plan(
        plan, {"HF_TOKEN": "t"}, lambda line: None, shell=Shell(), connect=lambda: controller,
        sleep=clock.sleep,
    )  # fmt: skip


def test_what_is_sent(plan: Plan) -> None:
    """The request is the planned one, with the planned files beside the workspace, and secrets apart."""
    controller = Controller("/ada/rl-0a1b2c3d")
    ref = send(plan, controller)
    assert (ref.native, ref.run_id) == ("/ada/rl-0a1b2c3d", plan.run.id)
    ((request, secrets, files),) = controller.sent
    assert request == plan.native["request"]
    assert secrets == {"HF_TOKEN": "t"}
    assert files == sorted(plan.native["bundle"])


def test_the_identity_is_the_controllers(plan: Plan) -> None:
    """A controller that knows the operator under another name says under which id the job is."""
    assert (
        send(plan, Controller("/ada@example.org/rl-0a1b2c3d")).native
        == "/ada@example.org/rl-0a1b2c3d"
    )


def test_bundle_is_the_same_each_time(plan: Plan, tmp_path: Path) -> None:
    """Two bundles of one plan are byte for byte the same, so the controller keeps one."""
    zips = []
    for name in "ab":
        folder = tmp_path / name
        folder.mkdir()
        built = {n: zipapps.build(n) for n in zipapps.NAMES}
        submit.write_bundle(folder, plan, b"workspace", built)
        buffer = BytesIO()
        with zipfile.ZipFile(buffer, "w") as packed:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    packed.write(path, path.relative_to(folder))
        zips.append(buffer.getvalue())
    assert zips[0] == zips[1]


def test_a_name_that_is_taken(plan: Plan) -> None:
    """A job of that name that is there before is refused, and nothing is sent."""
    controller = Controller(there=(True,))
    with pytest.raises(ClusterError, match=r"iris\.name-taken"):
        send(plan, controller)
    assert controller.sent == []


@pytest.mark.parametrize(
    "trouble",
    [
        troubles.silent("the launch", 200), troubles.explain("UNAVAILABLE", "gone"),
        troubles.name_taken("/ada/rl-0a1b2c3d"),
    ],
    ids=["silent", "unavailable", "taken by our own first try"],
)  # fmt: skip
def test_an_uncertain_launch_is_looked_up(plan: Plan, trouble: ClusterError) -> None:
    """No answer, and the job is there: it is ours, and it was sent once."""
    controller = Controller(trouble, there=(False, False, True))
    assert send(plan, controller).native == plan.native["job"]
    assert len(controller.sent) == 1


@pytest.mark.parametrize(
    "there", [(False, False, False), (False, troubles.silent("x", 1), troubles.silent("x", 1))]
)
def test_a_launch_that_nobody_knows(plan: Plan, there: Any) -> None:
    """No answer, and no job or no answer again: nobody knows, and it is not sent a second time."""
    controller = Controller(troubles.silent("the launch", 200), there=there)
    with pytest.raises(UnclearSubmitError, match=r"iris\.submit-unknown"):
        send(plan, controller)
    assert len(controller.sent) == 1


def test_a_refusal_is_no_doubt(plan: Plan) -> None:
    """A request that the controller refuses is refused at once."""
    controller = Controller(
        troubles.explain("FAILED_PRECONDITION", "marin-iris client is too old: x")
    )
    with pytest.raises(ClusterError, match=r"iris\.client-old"):
        send(plan, controller)


def test_a_workspace_that_changed(plan: Plan) -> None:
    """A workspace that is not the planned one any more is refused before anything is sent."""
    Path(plan.run.workspace.root, "new.py").write_text("y")
    controller = Controller("x")
    with pytest.raises(ClusterError, match=r"iris\.workspace-changed"):
        send(plan, controller)
    assert controller.sent == []


def test_a_secret_that_came_in_between(plan: Plan) -> None:
    """A `.env` that lies there at submit is refused, even where the plan knew no archive."""
    Path(plan.run.workspace.root, ".env").write_text("TOKEN=1")
    offline = plan._replace(artifacts=plan.artifacts[:2])
    with pytest.raises(ClusterError, match=r"iris\.workspace-secret"):
        send(offline, Controller("x"))


def test_another_zipapp(plan: Plan) -> None:
    """A zipapp of another rlaunch than the plan's is refused."""
    changed = plan.artifacts[0]._replace(sha256="0" * 64)
    with pytest.raises(ClusterError, match=r"iris\.artifact-changed"):
        send(plan._replace(artifacts=(changed, *plan.artifacts[1:])), Controller("x"))


def test_nothing_is_left_behind(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder with the bundle is removed, also when the launch fails."""
    place = tmp_path / "tmp"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    with pytest.raises(ClusterError):
        send(plan, Controller(troubles.refused("no")))
    assert list(place.iterdir()) == []


def test_the_second_look_is_quick(plan: Plan) -> None:
    """Observing an unchanged workspace again finds the packed one; the cache is the operator's own."""
    run = plan.run._replace(profile={**plan.run.profile, "kubeconfig": ""})
    first = observe.workspace(run, Shell())
    assert observe.workspace(run, Shell()) == first
    kept = list(Path(os.environ["XDG_CACHE_HOME"], "rlaunch/iris").iterdir())
    assert {path.stat().st_mode & 0o777 for path in kept} == {0o600}
