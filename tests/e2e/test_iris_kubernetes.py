"""States on Iris's Kubernetes backend: gates, images, preemption, lost pods, through `watch`.

The controller, its backend and our client are real; Kubernetes and Kueue are the in-memory ones of Iris's own
wheel, since no pod can run here. What they do to the pods is told by the test.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from tests.services.iris_controller import Controller, serve

import rlaunch_iris
from rlaunch import JobRef, Shell, State, Status
from rlaunch.testing.kit import read_profile
from rlaunch.world import SystemClock
from rlaunch_iris.adapter import Controller as Adapter
from rlaunch_iris.cluster import Iris
from rlaunch_iris.connect import open_controller

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
KEYS = {"CW_KEY_ID": "a", "CW_KEY_SECRET": "b"}


@pytest.fixture(scope="module")
def controller() -> Iterator[Controller]:
    """A controller on its Kubernetes backend, with pretended nodes."""
    with serve("kubernetes") as running:
        yield running


@pytest.fixture(scope="module")
def cluster(controller: Controller) -> Iterator[Iris]:
    """The plugin's cluster in front of it."""
    base = read_profile(rlaunch_iris.PROFILES["cw-us-east-02a"])
    told = {**base, "controller": controller.url, "kubeconfig": ""}
    made = Iris(Iris.Profile.model_validate(told), Shell(), SystemClock())
    yield made
    made.close()


@pytest.fixture
def mark() -> str:
    """Part of a test's job names: the controller outlives a test that is tried again."""
    return token_hex(4)


def send(cluster: Iris, tmp_path: Path, name: str, replicas: int = 4, retries: int = 1) -> JobRef:
    """Launch a gang through the adapter: the request is what a plan has."""
    request = {
        "name": f"/ada/{name}",
        "entrypoint": {"runCommand": {"argv": ["sleep", "99"]}},
        "resources": {
            "cpuMillicores": 48000, "memoryBytes": str(1 << 40), "diskBytes": str(1 << 38),
            "device": {"gpu": {"variant": "H100", "count": 8}},
        },
        "environment": {"envVars": {"A": "b"}},
        "maxTaskFailures": retries, "maxRetriesFailure": retries, "maxRetriesPreemption": 1000,
        "coscheduling": {"groupBy": "leafgroup"}, "replicas": replicas,
        "existingJobPolicy": "EXISTING_JOB_POLICY_ERROR", "priorityBand": "PRIORITY_BAND_INTERACTIVE",
        "taskImage": "ghcr.io/x/y@sha256:" + "1" * 64,
    }  # fmt: skip
    (tmp_path / "_rlaunch").mkdir()
    (tmp_path / "_rlaunch/x").touch()
    adapter: Adapter = cluster.connect()
    return JobRef("cw-us-east-02a", adapter.launch(request, KEYS, tmp_path))


def until(cluster: Iris, ref: JobRef, state: State, said: str = "", timeout: float = 60) -> Status:
    """Poll until the job is in a state, with these words in its reason."""
    deadline = time.monotonic() + timeout
    while True:
        seen = cluster.status([ref])[ref]
        if seen.state is state and said in seen.reason:
            return seen
        assert time.monotonic() < deadline, seen
        time.sleep(0.3)


def test_a_gang_through_kueue(
    cluster: Iris, controller: Controller, tmp_path: Path, mark: str
) -> None:
    """Gated, admitted, no image, running, preempted and queued again, running, succeeded: each is told."""
    ref = send(cluster, tmp_path, f"gang-{mark}")
    until(cluster, ref, State.RUNNING)
    controller.act("gate", ref.native)
    waiting = until(cluster, ref, State.WAITING, "kueue:")
    assert "SchedulingGated" not in waiting.reason
    assert waiting.since
    controller.act("admit", ref.native)
    until(cluster, ref, State.STARTING, "admitted by kueue")
    controller.act("back_off", ref.native)
    until(cluster, ref, State.STARTING, "image: ImagePullBackOff")
    controller.act("run", ref.native)
    assert until(cluster, ref, State.RUNNING).attempt == 0
    controller.act("preempt", ref.native)
    time.sleep(3)
    controller.act("delete", ref.native)
    again = until(cluster, ref, State.RUNNING, timeout=90)
    while again.attempt == 0:
        time.sleep(0.5)
        again = until(cluster, ref, State.RUNNING, timeout=90)
    assert again.attempt == 1
    assert again.native["preemptions"] >= 1
    assert again.native["failures"] == 0
    controller.act("succeed", ref.native)
    assert until(cluster, ref, State.SUCCEEDED).exit_code == 0


def test_a_driver_that_fails(
    cluster: Iris, controller: Controller, tmp_path: Path, mark: str
) -> None:
    """With retries spent the gang is FAILED with the driver's exit code."""
    ref = send(cluster, tmp_path, f"fails-{mark}", replicas=2, retries=0)
    until(cluster, ref, State.RUNNING)
    controller.act("fail", ref.native)
    seen = until(cluster, ref, State.FAILED)
    assert seen.exit_code == 3
    assert "rank 0 exited 3" in seen.reason


def test_pods_that_vanish(cluster: Iris, controller: Controller, tmp_path: Path, mark: str) -> None:
    """Pods that are deleted are no failure of the run: it starts again as the next attempt."""
    ref = send(cluster, tmp_path, f"lost-{mark}", replicas=2, retries=0)
    until(cluster, ref, State.RUNNING)
    controller.act("delete", ref.native)
    deadline = time.monotonic() + 90
    while not (seen := cluster.status([ref])[ref]).attempt:
        assert time.monotonic() < deadline, seen
        assert not seen.state.ended, seen
        time.sleep(0.5)
    assert until(cluster, ref, State.RUNNING, timeout=90).attempt == 1
    cluster.stop(ref)
    assert until(cluster, ref, State.KILLED)
    cluster.stop(ref)
    assert controller.act("pods", ref.native) == [] or until(cluster, ref, State.KILLED)


def test_names_and_keys(cluster: Iris, tmp_path: Path, mark: str) -> None:
    """A name that is taken and keys that are missing are refused with their own codes."""
    from rlaunch.errors import ClusterError

    folders = [tmp_path / str(i) for i in range(3)]
    for folder in folders:
        folder.mkdir()
    ref = send(cluster, folders[0], f"taken-{mark}", replicas=1)
    with pytest.raises(ClusterError, match=r"iris\.name-taken"):
        send(cluster, folders[1], f"taken-{mark}", replicas=1)
    before = dict(KEYS)
    KEYS.clear()
    try:
        with pytest.raises(ClusterError, match=r"iris\.keys-missing"):
            send(cluster, folders[2], f"keyless-{mark}", replicas=1)
    finally:
        KEYS.update(before)
    cluster.stop(ref)
    opened = open_controller(cluster.profile.facts())
    assert opened.job(f"/ada/keyless-{mark}") is None
    opened.close()


def test_watch_prints_the_transitions(
    cluster: Iris, controller: Controller, tmp_path: Path, mark: str
) -> None:
    """`rlaunch watch` prints one line for each change, from waiting to the end, and exits 0."""
    home = tmp_path / "home"
    (home / ".config/rlaunch").mkdir(parents=True)
    (home / ".config/rlaunch/rlaunch.toml").write_text(
        f'[clusters.cw-us-east-02a]\ncontroller = "{controller.url}"\nkubeconfig = ""\n'
    )
    (tmp_path / "bundle").mkdir()
    ref = send(cluster, tmp_path / "bundle", f"watched-{mark}", replicas=2)
    until(cluster, ref, State.RUNNING)
    controller.act("gate", ref.native)
    until(cluster, ref, State.WAITING, "kueue:")
    argv = [sys.executable, "-m", "rlaunch", "watch", str(ref), "--interval", "0.3"]
    env = {"HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        words = []
        for line in watching.stdout:  # it speaks first, and then Kubernetes acts
            words.append(line.split()[2])
            match words[-1]:
                case "WAITING":
                    controller.act("admit", ref.native)
                    controller.act("run", ref.native)
                case "RUNNING":
                    controller.act("succeed", ref.native)
    assert watching.returncode == 0
    assert words[0] == "WAITING"
    assert words[-2:] == ["RUNNING", "SUCCEEDED"]
