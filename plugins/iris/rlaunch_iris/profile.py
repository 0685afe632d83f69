"""The facts of an Iris cluster, beside those that every cluster has."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rlaunch.profiles import Model, Profile, Size


class Image(Model):
    """A task image that is known by its digest."""

    tag: str = ""
    date: str = ""
    skyrl: str = ""
    """The commit of MarinSkyRL that it bakes."""
    about: str = ""
    withdrawn: str = ""
    """Why nobody should use it any more; empty: it is fine."""


class Storage(Model):
    """How the object store is reached, from inside the job and from the operator's machine."""

    endpoint: str = ""
    """As the job sees it; empty: what the job's environment says (`AWS_ENDPOINT_URL`)."""
    outside_endpoint: str = ""
    """As the operator's machine sees it; empty: not reachable from there."""
    addressing: Literal["virtual", "path"] = "virtual"
    region: str = "auto"
    key_id: str = "CW_KEY_ID"
    """Name of the secret that has the access key's id; the job's own credentials."""
    key_secret: str = "CW_KEY_SECRET"  # noqa: S105  # a name, not a secret


class IrisProfile(Profile):
    """One Iris controller and the nodes behind it."""

    cluster_config: str = ""
    """Iris's own YAML (`--cluster-config`); empty: the one that the installed client brings."""
    iris_cluster: str = ""
    """Name of the cluster in the client's configurations."""
    controller: str = ""
    """URL of the controller; empty: found through the configuration, by `kubectl port-forward`."""
    backend: Literal["kubernetes", "workers"] = "kubernetes"
    job_user: str = "{user}"
    """First part of the job's id `/<user>/<name>`."""

    kubeconfig: str = ""
    """A file; `auto`: `$KUBECONFIG` where it has the context, else `~/.kube/coreweave-iris`; empty: no look
    at nodes and pods."""
    kube_context: str = ""
    namespace: str = "iris"
    node_selector: str = ""
    """Label selector of the nodes that this cluster's jobs run on."""
    local_queue: str = ""
    cluster_queue: str = ""

    gpu_variant: str = "H100"
    node_gpus: int = Field(default=8, gt=0)
    """GPUs of one node; a run takes all of them or none."""
    group_by: str = "leafgroup"
    """Topology level that a gang of more than one node shares."""
    node_cpu: float = Field(default=128, gt=0)
    node_memory: str = "2014GiB"
    node_disk: str = "27.2TiB"
    """Largest allocatable of one node, per resource: more never fits."""
    node_count: int = Field(default=32, gt=0)
    crowded_cpu: float | None = None
    """From so many cores on most nodes do not fit, since the system's own pods hold the rest."""
    memory_share: float = Field(default=0.85, gt=0, le=1)
    disk_share: float = Field(default=0.8, gt=0, le=1)
    """What `auto` takes of the smallest allocatable."""
    offload_memory: str = "1400GiB"
    """With `cpu_offload` a forward pass peaked at 1303 GiB; less than this is a warning."""
    max_retries_preemption: int = Field(default=1000, ge=0)

    workspace_dir: str = "/app"
    """Where the workspace is unpacked; empty, or where it is not writable: `$IRIS_WORKDIR`."""
    bundle_limit: str = "25MiB"
    node_address: Literal["advertised", "loopback"] = "advertised"
    """`loopback`: every rank gets a 127.x.y.z of its own (all ranks on one machine, for tests)."""
    ports: dict[str, int] = Field(default_factory=dict)
    """Ports of the node agent and of Ray by name; those not named are probed."""
    shared_storage: bool = False
    """True: paths of this machine are seen by all ranks (tests)."""
    ray_temp: str = ""
    object_store: Size | Literal[""] = ""

    images: dict[str, Image] = Field(default_factory=dict)
    """By digest, `sha256:…`."""
    pythonpath: tuple[str, ...] = ()
    """After the workspace, before what the trainer asks for."""
    skyrl_dir: str = "/opt/skyrl"
    skyrl_checkout: str = ""
    """The operator's own MarinSkyRL, compared with what the image bakes; empty: not compared."""
    skyrl_used: tuple[str, ...] = ("skyrl-train/skyrl_train/", "skyrl-train/examples/")
    """Paths inside MarinSkyRL that a run executes."""
    storage: Storage = Storage()
