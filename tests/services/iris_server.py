"""A real Iris controller in its own process: `iris_server.py local|kubernetes URLFILE`, until stdin ends.

`local` runs tasks as processes of this machine; its GPU nodes are pretended. `kubernetes` is the same
controller on its Kubernetes backend over an in-memory cluster (the wheel brings it): no pod runs, and lines
on stdin tell what Kubernetes and Kueue would do to them. That one is a fake of Kubernetes, not of Iris.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")
import iris.version  # noqa: E402

CONFIG = """
name: rl-local
platform: {local: }
controller: {local: {port: 0}}
worker_provider: {}
scale_groups:
  h100-8x:
    num_vms: 1
    resources:
      {cpu: 128, ram: 2048GB, disk: 1TB, device_type: gpu, device_variant: H100, device_count: 8,
       capacity_type: on-demand}
    worker: {attributes: {pool: h100-8x, leafgroup: lg0}}
    buffer_slices: 4
    max_slices: 4
    priority: 100
    slice_template: {num_vms: 1, local: }
"""
POOL = {"iris-cw-use02a-managed": "true", "iris.pool": "h100-8x"}


def publish(path: str, url: str) -> None:
    """Write the controller's URL where the test waits for it."""
    aside = Path(f"{path}.tmp")
    aside.write_text(url, encoding="utf-8")
    aside.replace(path)


def serve_local(path: str) -> None:
    """Serve until stdin ends."""
    from iris.cluster.config import load_config, make_local_config

    try:
        from iris.cluster.local_cluster import LocalCluster
    except ImportError:  # 0.2.20
        from iris.cluster.backends.local.cluster import LocalCluster

    text = (
        CONFIG
        if hasattr(iris.version, "REVISION_DATE_ENV")
        else CONFIG.replace("name: rl-local\n", "")
    )
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        cluster = LocalCluster(make_local_config(load_config(file.name)))
    try:
        publish(path, cluster.start())
        sys.stdin.read()
    finally:  # its threads would keep the interpreter alive for ever
        cluster.close()


class Pods:
    """What Kubernetes and Kueue do to the pods of one job; each method is a line on stdin."""

    def __init__(self, k8s: Any) -> None:
        self.k8s = k8s

    def of(self, job: str) -> list[Any]:
        """Return the job's live pods."""
        from iris.cluster.platforms.k8s.types import K8sResource

        label = job.strip("/").replace("/", ".")
        pods = self.k8s.list_json(K8sResource.PODS)
        mine = [p for p in pods if p["metadata"]["labels"].get("iris.job_id") == label]
        return [p for p in mine if p["status"].get("phase") not in ("Succeeded", "Failed")]

    def gate(self, job: str) -> None:
        """Kueue's webhook gates the gang, and its workload waits for quota."""
        from iris.cluster.platforms.k8s.types import K8sResource
        from iris.testing.k8s import gated_pod, unadmitted_workload

        pods = self.of(job)
        for pod in pods:
            pod["status"] = deepcopy(gated_pod()["status"])
            names = ("kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology")
            pod["spec"]["schedulingGates"] = [{"name": name} for name in names]
        group = pods[0]["metadata"]["labels"]["kueue.x-k8s.io/pod-group-name"]
        workload = unadmitted_workload(name=group)
        self.k8s.seed_resource(K8sResource.WORKLOADS, group, workload)
        self.workload = workload

    def admit(self, job: str) -> None:
        """Kueue admits the gang; its gates go a moment later."""
        condition = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}
        self.workload["status"] = {
            "admission": {"clusterQueue": "iris-cq"},
            "conditions": [condition],
        }

    def back_off(self, job: str) -> None:
        """The image cannot be pulled."""
        message = 'Back-off pulling image "ghcr.io/nope"'
        waiting = {"reason": "ImagePullBackOff", "message": message}
        for pod in self.of(job):
            status = [{"name": "task", "state": {"waiting": waiting}}]
            pod["status"] = {"phase": "Pending", "containerStatuses": status}

    def run(self, job: str) -> None:
        """The pods run."""
        for pod in self.of(job):
            pod["spec"].pop("schedulingGates", None)
            self.k8s.transition_pod(pod["metadata"]["name"], "Running")

    def preempt(self, job: str) -> None:
        """Kueue evicts the gang for a higher band."""
        condition = {
            "type": "TerminationTarget", "status": "True", "reason": "WorkloadEvictedDueToPreempted",
            "message": "Preempted to accommodate a workload (UID: x) due to prioritization",
        }  # fmt: skip
        for pod in self.of(job):
            pod["status"]["conditions"] = [condition]

    def delete(self, job: str) -> None:
        """The pods vanish."""
        from iris.cluster.platforms.k8s.types import K8sResource

        for pod in self.of(job):
            self.k8s.delete(K8sResource.PODS, pod["metadata"]["name"], force=True)

    def fail(self, job: str) -> None:
        """The driver of rank 0 exits 3."""
        self.k8s.transition_pod(
            self.of(job)[0]["metadata"]["name"], "Failed", exit_code=3, reason="Error"
        )

    def succeed(self, job: str) -> None:
        """All pods end well."""
        for pod in self.of(job):
            self.k8s.transition_pod(
                pod["metadata"]["name"], "Succeeded", exit_code=0, reason="Completed"
            )


def serve_kubernetes(path: str) -> None:  # over 40 lines: a controller is put together
    """Serve until stdin ends; obey `METHOD JOB` lines, each answered with a line of JSON."""
    from iris.cluster.backends.k8s.tasks import K8sTaskProvider, PodConfig
    from iris.cluster.controller.auth import create_controller_auth
    from iris.cluster.controller.backend import BackendCapability, BackendDescriptor, BackendKind
    from iris.cluster.controller.controller import Controller, ControllerConfig
    from iris.cluster.controller.db import ControllerDB
    from iris.cluster.controller.log_stack import build_log_stack
    from iris.cluster.platforms.k8s.fake import FakeNodeResources, InMemoryK8sService
    from iris.cluster.platforms.types import find_free_port
    from iris.cluster.service_mode import ServiceMode
    from iris.managed_thread import ThreadContainer

    folder = Path(tempfile.mkdtemp(prefix="rl-iris-k8s-"))
    k8s = InMemoryK8sService(namespace="iris", mode=ServiceMode.DRY_RUN)
    shape = FakeNodeResources(
        cpu_millicores=128000, memory_bytes=2048 * 1024**3, gpu_count=8,
        ephemeral_storage_bytes=28 * 1024**4,
    )  # fmt: skip
    # Pods of runs that ended hold their nodes for a while: a gang of the next test must not wait for them.
    k8s.add_node_pool("h100-8x", node_count=64, labels=POOL, resources=shape)
    auth = create_controller_auth(None, cluster_name="fake-k8s")
    logs = build_log_stack(
        log_service_address="", local_log_dir=folder / "log", host="127.0.0.1",
        worker_token_provider=auth.worker_token_provider,
    )  # fmt: skip
    port = find_free_port()
    controller = Controller(
        config=ControllerConfig(
            host="127.0.0.1", port=port, remote_state_dir=f"file://{folder}/state",
            local_state_dir=folder / "local", auth_verifier=auth.verifier, auth_provider=auth.provider,
            auth=auth,
        ),
        log_stack=logs, threads=ThreadContainer("k8s-fake").create_child("c"),
        db=ControllerDB(db_dir=folder / "db"),
    )  # fmt: skip
    controller.register_backend(
        K8sTaskProvider(
            descriptor=BackendDescriptor(
                backend_id="default", display_name="k8s", kind=BackendKind.KUBERNETES,
                advertised_attributes={}, capabilities=frozenset({BackendCapability.DIRECT_DISPATCH}),
            ),
            kubectl=k8s,
            pods=PodConfig(
                namespace="iris", default_image="ghcr.io/marin-community/iris-task:latest",
                local_queue="cw-use02a-lq", managed_label="iris-cw-use02a-managed", host_network=True,
                cache_dir="/mnt/local/iris-cache", task_env={"MARIN_PREFIX": "s3://b/marin"},
                controller_address=f"http://127.0.0.1:{port}", require_coreweave_credentials=True,
            ),
            cluster_scan_interval=0.0, task_event_table=logs.task_event_table,
        )
    )  # fmt: skip
    controller.start()
    publish(path, controller.url)
    obey(Pods(k8s))
    controller.stop()


def obey(pods: Pods) -> None:
    """Carry out the lines on stdin."""
    for line in sys.stdin:
        word, _, job = line.strip().partition(" ")
        try:
            if word == "pods":
                answer: Any = pods.of(job)
            else:
                answer = None
                act: Callable[[str], None] = getattr(pods, word)
                act(job)
        except Exception as error:  # noqa: BLE001  # told to the test, which fails by it
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    kind, where = sys.argv[1:3]
    serve_local(where) if kind == "local" else serve_kubernetes(where)
    os._exit(0)  # what is left of its threads ends with the process
