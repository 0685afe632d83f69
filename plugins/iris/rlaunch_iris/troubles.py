"""What can go wrong between us and a controller, in words. Each code has its page in `codes.py`."""

from __future__ import annotations

import re

from rlaunch.errors import ClusterError, UnclearSubmitError

INSTALL = "`make iris-client` in the checkout of rlaunch"
"""Installs the newest client that fits; what has no name in a registry cannot be installed by name."""


def client_missing(error: ModuleNotFoundError) -> ClusterError:
    """No client, or half of one."""
    return ClusterError.of(
        "iris.client-missing", f"the Iris client is not installed here: no module `{error.name}`",
        hint=INSTALL,
    )  # fmt: skip


def client_broken(error: Exception) -> ClusterError:
    """A client that cannot be imported."""
    first = str(error).partition("\n")[0]
    return ClusterError.of(
        "iris.client-broken", f"the Iris client does not import: {type(error).__name__}: {first}",
        hint="install `marin-iris` and `marin-finelog` of the same day, without `--pre`: " + INSTALL,
    )  # fmt: skip


def silent(what: str, seconds: float) -> ClusterError:
    """No answer in time."""
    error = ClusterError.of(
        "iris.controller-silent", f"the controller gave no answer about {what} in {seconds:g} s",
        hint="try again; `iris cluster status` says how the controller does",
    )  # fmt: skip
    error.transient = True
    return error


def unreachable(url: str, reason: str) -> ClusterError:
    """Nobody at the other end."""
    error = ClusterError.of(
        "iris.controller-unreachable", f"the controller `{url}` cannot be reached: {reason}", place=url,
        hint="look at the kubeconfig, the VPN and `iris cluster status`; the job itself goes on",
    )  # fmt: skip
    error.transient = True
    return error


def no_connection(cluster: str, reason: str) -> ClusterError:
    """The way to the controller could not be opened."""
    error = ClusterError.of(
        "iris.no-connection", f"no way to the controller of `{cluster}`: {reason}",
        hint="`--cluster-config FILE` names Iris's own YAML; `iris cluster list` lists the known ones",
    )  # fmt: skip
    error.transient = True
    return error


def bad_config(path: str, reason: str) -> ClusterError:
    """A cluster file that this client does not take."""
    return ClusterError.of(
        "iris.config-invalid", f"the cluster file `{path}` cannot be used: {reason}",
        place=path, hint="leave `--cluster-config` out: the client brings the file that fits it",
    )  # fmt: skip


def bad_id(job_id: str, reason: str) -> ClusterError:
    """No job could have this id."""
    return ClusterError.of(
        "iris.bad-id", f"`{job_id}` is no id of an Iris job: {reason}",
        hint="an id is `/user/name`, as `rlaunch runs` prints it",
    )  # fmt: skip


def name_taken(job_id: str) -> ClusterError:
    """Somebody has a job of this name."""
    return ClusterError.of(
        "iris.name-taken", f"the controller has a job `{job_id}` already", place="--job-name",
        hint="make a new plan: a job's name is used once",
    )  # fmt: skip


def refused(reason: str) -> ClusterError:
    """The client or the controller does not take the request."""
    return ClusterError.of(
        "iris.refused", f"the request was refused: {one_line(reason)}",
        hint="`--dry-run` shows the request; the controller's own words say what it wants",
    )  # fmt: skip


def rubbish(what: str, error: Exception) -> ClusterError:
    """An answer that is none."""
    return ClusterError.of(
        "iris.answer-unreadable", f"the answer about {what} cannot be read: {type(error).__name__}",
        hint="is this the controller's address? `rlaunch doctor` says what is installed",
    )  # fmt: skip


def explain(code: str, text: str) -> ClusterError:
    """Translate an RPC error by its code and words."""
    said = one_line(text)
    if "client is too old" in said:
        return ClusterError.of(
            "iris.client-old", f"the Iris client is too old for this controller: {said}",
            hint=f"{INSTALL} brings the newest; a client lasts 14 days",
        )  # fmt: skip
    if "object-storage credentials" in said:
        return ClusterError.of(
            "iris.keys-missing", f"the controller wants your own storage keys: {said}",
            hint="put `CW_KEY_ID` and `CW_KEY_SECRET` into the secrets file",
        )  # fmt: skip
    if code in {"PERMISSION_DENIED", "UNAUTHENTICATED"}:
        return ClusterError.of(
            "iris.not-allowed", f"the controller does not allow it: {said}",
            hint="`iris login`; the bands `production` and `system` need an administrator",
        )  # fmt: skip
    if code in {"UNAVAILABLE", "DEADLINE_EXCEEDED", "INTERNAL", "RESOURCE_EXHAUSTED", "UNKNOWN"}:
        error = ClusterError.of(
            "iris.controller-failed", f"the controller could not answer ({code.lower()}): {said}",
            hint="try again; the job itself goes on",
        )  # fmt: skip
        error.transient = True
        return error
    return refused(said)


def one_line(text: str) -> str:
    """Return a message's words on one line."""
    return re.sub(r"\s+", " ", text).strip()


def submit_unknown(job_id: str, reason: str) -> UnclearSubmitError:
    """The launch may or may not have arrived."""
    return UnclearSubmitError.of(
        "iris.submit-unknown", f"nobody knows whether `{job_id}` was submitted: {reason}", place=job_id,
        hint="`rlaunch status` asks again; do not launch it a second time before it has answered",
    )  # fmt: skip


def workspace_changed(planned: str, found: str) -> ClusterError:
    """Another archive than the planned one."""
    return ClusterError.of(
        "iris.workspace-changed",
        f"the workspace packs to sha256 {found[:12]}, and {planned[:12]} was planned",
        hint="make the plan again with `rlaunch plan`",
    )  # fmt: skip


def artifact_changed(name: str) -> ClusterError:
    """Another zipapp than the planned one."""
    return ClusterError.of(
        "iris.artifact-changed", f"`{name}` is not the one that the plan was made with", place=name,
        hint="make the plan again: the installed rlaunch has changed since",
    )  # fmt: skip


def kubeconfig(path: str, reason: str) -> ClusterError:
    """A kubeconfig that leads nowhere."""
    return ClusterError.of(
        "iris.kubeconfig", f"the kubeconfig `{path}` cannot be used: {reason}", place=path,
        hint="download one (CoreWeave console, Tokens); `export KUBECONFIG=FILE`, or `--set kubeconfig=FILE`",
    )  # fmt: skip


def kube_failed(host: str, reason: str) -> ClusterError:
    """Kubernetes does not answer."""
    error = ClusterError.of(
        "iris.kubernetes-failed", f"the Kubernetes API `{host}` could not be asked: {reason}", place=host,
        hint="is this the profile's cluster, and does your token last? `kubectl get nodes` tells",
    )  # fmt: skip
    error.transient = True
    return error
