"""Write the run directory and call sbatch, once for each link of the chain. Decides nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache

from rlaunch.cluster import Clock, Report
from rlaunch.errors import ClusterError, UnclearSubmitError
from rlaunch.model import JobRef, Plan
from rlaunch.shell import Shell
from rlaunch_slurm_jupiter import source
from rlaunch_slurm_jupiter.chain import send_links
from rlaunch_slurm_jupiter.site import Parcel, Site


def submit_plan(
    plan: Plan,
    secrets: Mapping[str, str],
    report: Report,
    *,
    shell: Shell,
    site: Site,
    clock: Clock,
) -> JobRef:
    """Send the plan; the reference has the job ids of all links, joined by `+`.

    Raises ClusterError `run-exists`, `not-written`, `source`, `refused`, `host`: SLURM has nothing of the
    run, no secret is left, and the plan may be sent again. Raises UnclearSubmitError where it may have a job.
    """
    run, native = plan.run, plan.native
    root = run.paths.run_dir
    if site.cat([f"{root}/job.sh"], 1):
        raise ClusterError.of(
            "slurm_jupiter.run-exists", f"the run directory `{root}` holds a run already", place=root,
            hint="make a new plan: a run id is used once",
        )  # fmt: skip
    if native["source"] is not None:
        report(f"sending the workspace to {native['source']}")
        source.ship(shell, site, plan)
    if run.paths.artifacts != root:
        site.put(run.paths.artifacts, _artifacts(plan))
    try:
        site.put(root, _parcels(plan, secrets, run.paths.artifacts == root))
    except BaseException:
        forget(site, plan)
        raise
    report(f"submitting {native['links']} job(s) from {root}")
    try:
        jobs = send_links(site, clock, plan)
    except UnclearSubmitError:
        raise  # a job that was taken all the same needs its files
    except ClusterError:
        forget(site, plan)
        raise
    return JobRef(run.cluster, "+".join(jobs), run.id)


def forget(site: Site, plan: Plan) -> None:
    """Remove what a plan that was not taken must not leave: its secrets, and the mark of a run."""
    root = plan.run.paths.run_dir
    names = ("job.sh", *(secret.path for secret in plan.secret_files))
    site.run(("rm", "-f", "--", *(f"{root}/{name}" for name in names)))


def _parcels(plan: Plan, secrets: Mapping[str, str], artifacts: bool) -> Iterator[Parcel]:
    from rlaunch.documents import plan_to_line

    for file in plan.files:
        yield Parcel(file.path, file.mode, file.content.encode("utf-8", "surrogateescape"))
    for secret in plan.secret_files:
        values = {name: secrets[name] for name in secret.names if name in secrets}
        yield Parcel(secret.path, secret.mode, json.dumps(values).encode())
    if artifacts:
        yield from _artifacts(plan)
    yield Parcel("plan.json", 0o600, plan_to_line(plan).encode("utf-8", "surrogateescape"))


def _artifacts(plan: Plan) -> Iterator[Parcel]:
    for artifact in plan.artifacts:
        data, digest = _built(artifact.path)
        if digest != artifact.sha256:
            raise ClusterError.of(
                "slurm_jupiter.artifact-changed", f"`{artifact.path}` is not the one that was planned",
                place=artifact.path, hint="make the plan again: the installed rlaunch has changed since",
            )  # fmt: skip
        yield Parcel(artifact.path, 0o600, data)


@cache
def _built(name: str) -> tuple[bytes, str]:
    """Return a zipapp and its digest, built once for all runs of this process."""
    from rlaunch import zipapps

    data = zipapps.build(name)
    return data, hashlib.sha256(data).hexdigest()
