"""Write the run directory and call sbatch, once for each link of the chain. Decides nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache

from rlaunch.cluster import Report
from rlaunch.errors import ClusterError
from rlaunch.model import JobRef, Plan
from rlaunch.shell import Done, Shell
from rlaunch_slurm_jupiter import queries, source
from rlaunch_slurm_jupiter.site import Parcel, Site
from rlaunch_slurm_jupiter.ssh import LOST

TRANSIENT = (
    "Socket timed out",
    "Unable to contact slurm controller",
    "Connection refused",
    "Zero Bytes were",
)
"""What sbatch says when it does not know whether the job was taken."""


def submit_plan(
    shell: Shell, site: Site, plan: Plan, secrets: Mapping[str, str], report: Report
) -> JobRef:
    """Send the plan; the reference has the job ids of all links, joined by `+`.

    Raises ClusterError `run-exists`, `not-written`, `source`, `refused`, `host`. Where a later link is
    refused, the earlier ones are cancelled again.
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
    site.put(root, _parcels(plan, secrets, run.paths.artifacts == root))
    report(f"submitting {native['links']} job(s) from {root}")
    return JobRef(run.cluster, "+".join(_send(site, plan)), run.id)


def _send(site: Site, plan: Plan) -> list[str]:
    """Call sbatch for every link; return the job ids."""
    jobs: list[str] = []
    for link in range(1, plan.native["links"] + 1):
        try:
            jobs.append(_sbatch(site, plan, link, jobs[-1] if jobs else None))
        except ClusterError:
            if jobs:
                site.run(("scancel", *jobs), timeout=30)
            raise
    return jobs


def link_argv(plan: Plan, link: int, after: str | None) -> tuple[str, ...]:
    """Return the command of one link: the plan's own, with its number and what it waits for."""
    program, *options, script = plan.native["argv"]
    wait = [f"--dependency=afterany:{after}"] if after else []
    return (program, *options, *wait, script, str(link))


def _sbatch(site: Site, plan: Plan, link: int, after: str | None) -> str:
    done = site.batch(link_argv(plan, link, after), timeout=120)
    job = queries.read_submitted(done.out) if done.code == 0 else None
    if job is not None:
        return job
    if _ambiguous(done) and (found := _find(site, plan, after)):
        return found
    raise refused(done, "sbatch")


def _ambiguous(done: Done) -> bool:
    """Tell whether the job may have been taken although sbatch did not say so."""
    return done.code in (0, 124, LOST) or done.code < 0 or any(t in done.err for t in TRANSIENT)


def _find(site: Site, plan: Plan, after: str | None) -> str | None:
    """Look a job up by its name, which is the run id: never send it twice."""
    done = site.run(queries.ask_named(plan.run.id))
    try:
        found = queries.read_queue(done.out) if done.code == 0 else {}
    except queries.NotAnswered:
        return None
    fresh = [job for job in found if after is None or int(job) > int(after)]
    return max(fresh, key=int, default=None)


def refused(done: Done, tool: str) -> ClusterError:
    """Return the error of a submission that SLURM did not take, in its own words."""
    lines = [x.removeprefix(f"{tool}: error: ") for x in done.err.strip().splitlines() if x.strip()]
    why = lines[-1] if lines else f"{tool} ended with {done.code} and without a word"
    transient = _ambiguous(done)
    finding = ClusterError.of(
        "slurm_jupiter.refused", f"SLURM did not take the job: {why}", place=tool,
        hint="see `scontrol show partition` and `sacctmgr show assoc user=$USER`",
    ).findings[0]  # fmt: skip
    return ClusterError(finding, transient=transient)


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
