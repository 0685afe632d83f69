"""What is looked at before planning: workspace, MarinSkyRL, nodes. Read-only, all at once, at most 5 s."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlaunch import folders
from rlaunch.errors import ClusterError
from rlaunch.model import Finding, Observed, Run
from rlaunch.settings import size_in_bytes
from rlaunch.shell import Shell
from rlaunch.travel import left_out, members
from rlaunch_iris import archive, checkout, headroom, kube, travel

LIMIT_S = 4.5
REST = 512 * 1024
"""Bytes of the bundle that are not the workspace's: zipapps and texts."""


def look(run: Run, shell: Shell, now: str) -> Observed:
    """Look at everything at once; what was not done in time, or failed, stands under `unseen`."""
    looks: dict[str, Callable[[], Mapping[str, Any]]] = {
        "workspace": lambda: workspace(run, shell),
        "skyrl": lambda: checkout.compare(run.profile, run.task_image, shell),
        "nodes": lambda: nodes(run),
        "cluster_config": lambda: cluster_config(run),
    }
    seen: dict[str, Mapping[str, Any]] = {}
    unseen: dict[str, str] = {}
    threads = {
        name: threading.Thread(target=_look, args=(name, ask, seen, unseen), daemon=True)
        for name, ask in looks.items()
    }
    for thread in threads.values():
        thread.start()
    deadline = time.monotonic() + LIMIT_S
    for name, thread in threads.items():
        thread.join(max(0.0, deadline - time.monotonic()))
        if thread.is_alive():
            unseen.setdefault(name, f"no answer in {LIMIT_S:g} s")
    facts: dict[str, Any] = {name: dict(data) for name, data in list(seen.items()) if data}
    if unseen:
        facts["unseen"] = dict(unseen)
    return Observed(now, "this machine and the cluster's node listing", facts)


def _look(
    name: str,
    ask: Callable[[], Mapping[str, Any]],
    seen: dict[str, Mapping[str, Any]],
    unseen: dict[str, str],
) -> None:
    try:
        seen[name] = ask()
    except ClusterError as error:
        unseen[name] = error.findings[0].message


def cache_folder() -> str:
    """Return where packed workspaces are kept."""
    return f"{folders.cache()}/iris"


def workspace(run: Run, shell: Shell) -> dict[str, Any]:
    """Pack the workspace (or find it packed) and judge it; plain data."""
    root = run.workspace.root
    if not Path(root).is_dir():
        return {}
    listed = members(root, shell)
    packed = archive.bundle(root, shell, cache_folder(), listed=listed)
    limit = size_in_bytes(run.profile["bundle_limit"]) - REST
    findings = [
        *travel.judge(packed, travel.forbidden(root, listed), limit),
        *travel.shadowing(listed),
        *left_out(listed),
    ]
    return {
        "sha256": packed.sha256,
        "size": packed.size,
        "files": packed.files,
        "findings": [list(f) for f in findings],
    }


def cluster_config(run: Run) -> dict[str, Any]:
    """Look whether Iris's own file is there and is YAML, where one is named; the client judges the rest."""
    given = str(run.profile["cluster_config"] or "")
    if not given:
        return {}
    from rlaunch_iris.configuration import read_config

    try:
        read_config(given)
    except ClusterError as error:
        return {"findings": [list(f) for f in error.findings]}
    return {}


def seen_findings(facts: Mapping[str, Any]) -> tuple[Finding, ...]:
    """Read the findings back out of what was observed."""
    looks = (facts.get(name) or {} for name in ("workspace", "cluster_config"))
    return tuple(Finding(*f) for look in looks for f in look.get("findings", ()))


def nodes(run: Run) -> dict[str, Any]:
    """List nodes and pods, where the profile has a kubeconfig."""
    api = kube.open_kube(run.profile)
    if api is None:
        return {}
    listing = headroom.survey(
        api.nodes(run.profile["node_selector"]), api.pods(fields="status.phase!=Succeeded")
    )
    return headroom.summary(listing, run.nodes, run.gpus_per_node)
