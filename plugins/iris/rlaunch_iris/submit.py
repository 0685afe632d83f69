"""Send a plan: write its files into a folder, pack the workspace beside them, and launch. Decides nothing."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rlaunch.cluster import Report
from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, Plan
from rlaunch.settings import size_in_bytes
from rlaunch.shell import Shell
from rlaunch.travel import members
from rlaunch_iris import archive, planning, request, travel, troubles
from rlaunch_iris.adapter import Controller
from rlaunch_iris.observe import REST, cache_folder

DATE = 1577836800
"""All files of the bundle are of 2020-01-01, so that the same content is the same bundle."""
ASK_AGAIN_S = (1.0, 5.0)


def submit_plan(
    plan: Plan,
    secrets: Mapping[str, str],
    report: Report,
    *,
    shell: Shell,
    connect: Callable[[], Controller],
    sleep: Callable[[float], None],
) -> JobRef:
    """Send the plan and return its reference. Raises ClusterError; what is uncertain is looked up, never
    sent a second time.
    """
    run, job_id = plan.run, str(plan.native["job"])
    packed = pack(plan, shell, report)
    zipapps = {a.path: build_zipapp(a.path, a.sha256) for a in plan.artifacts if _is_zipapp(a.path)}
    with tempfile.TemporaryDirectory(prefix="rlaunch-iris-") as folder:
        write_bundle(Path(folder), plan, packed.data, zipapps)
        report(f"asking the controller about `{job_id}`")
        controller = connect()
        if controller.job(job_id) is not None:
            raise troubles.name_taken(job_id)
        report(f"sending {run.nodes} node(s), {packed.size / 2**20:.1f} MiB of workspace")
        native = launch(controller, plan.native["request"], secrets, Path(folder), sleep)
    report(f"submitted `{native}`")
    return JobRef(run.cluster, native, run.id)


def launch(
    controller: Controller,
    wanted: Mapping[str, Any],
    secrets: Mapping[str, str],
    folder: Path,
    sleep: Callable[[float], None],
) -> str:
    """Launch once. Where no answer came, or the name was taken in between by our own first try, ask.

    The name was free a moment ago and is of this run alone, so a job that is there now is ours.
    """
    job_id = str(wanted["name"])
    try:
        return controller.launch(wanted, secrets, folder)
    except ClusterError as error:
        taken = any(f.code == "iris.name-taken" for f in error.findings)
        if not (error.transient or taken):
            raise
        reason = str(error)
    trouble = reason
    for pause in ASK_AGAIN_S:
        sleep(pause)
        try:
            if controller.job(job_id) is not None:
                return job_id
            trouble = ""
        except ClusterError as error:
            trouble = str(error)
    raise troubles.submit_unknown(job_id, trouble or f"it is not there yet, after: {reason}")


def pack(plan: Plan, shell: Shell, report: Report) -> archive.Archive:
    """Pack the workspace again and compare it with what was planned. Raises ClusterError."""
    root = plan.run.workspace.root
    listed = members(root, shell)
    packed = archive.bundle(root, shell, cache_folder(), report, listed=listed)
    limit = size_in_bytes(plan.run.profile["bundle_limit"]) - REST
    findings = tuple(travel.judge(packed, travel.forbidden(root, listed), limit))
    if findings:
        raise ClusterError(*findings)
    planned = next((a for a in plan.artifacts if a.path == planning.ARCHIVE_PATH), None)
    if planned is not None and planned.sha256 != packed.sha256:
        raise troubles.workspace_changed(planned.sha256, packed.sha256)
    return packed


def _is_zipapp(name: str) -> bool:
    from rlaunch import zipapps

    return name in zipapps.NAMES


def build_zipapp(name: str, sha256: str) -> bytes:
    """Build a zipapp, which must be the planned one."""
    from rlaunch import zipapps

    data = zipapps.build(name)
    if hashlib.sha256(data).hexdigest() != sha256:
        raise troubles.artifact_changed(name)
    return data


def write_bundle(folder: Path, plan: Plan, workspace: bytes, zipapps: Mapping[str, bytes]) -> None:
    """Write what Iris carries into the job's work directory: nothing but our own folder."""
    ours = folder / request.FOLDER
    ours.mkdir()
    for file in plan.files:
        if file.path in (planning.START_PATH, planning.JOB_PATH):
            (folder / file.path).write_text(file.content, encoding="utf-8")
    (ours / archive.NAME).write_bytes(workspace)
    for name, data in zipapps.items():
        (ours / name).write_bytes(data)
    for path in ours.iterdir():
        os.utime(path, (DATE, DATE))
