"""Look whether a plan can work here: all checks at once, read-only, ten seconds together, each by a name."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import date
from typing import Any

from rlaunch.cluster import PreflightQuery
from rlaunch.errors import ClusterError
from rlaunch.model import Finding, Plan
from rlaunch_iris import headroom, kube, storage, troubles
from rlaunch_iris.adapter import Controller
from rlaunch_iris.image_rules import error, warning

LIMIT_S = 9.5
FRESH_DAYS = 14
"""A controller refuses clients that are so much older than itself."""
_OURS = re.compile(r"(?:^rl-|-[0-9a-f]{8}$)")

Check = Callable[[], Iterable[Finding]]


def check(query: PreflightQuery, connect: Callable[[], Controller], today: str) -> list[Finding]:
    """Ask every check that is not skipped; one that does not answer in time is a finding of its own."""
    plan = query.plan
    checks: dict[str, Check] = {
        "controller": lambda: controller(plan, connect, today),
        "running": lambda: running(plan, connect),
        "kubernetes": lambda: kubernetes(plan),
        "storage": lambda: stored(query),
    }
    wanted = {name: ask for name, ask in checks.items() if name not in query.skip}
    found: dict[str, list[Finding]] = {}
    threads = {
        name: threading.Thread(target=_ask, args=(name, ask, found), daemon=True)
        for name, ask in wanted.items()
    }
    for thread in threads.values():
        thread.start()
    deadline = time.monotonic() + LIMIT_S
    for thread in threads.values():
        thread.join(max(0.0, deadline - time.monotonic()))
    findings: list[Finding] = []
    for name in wanted:
        findings += found.get(name) or ([] if name in found else [_late(name)])
    return findings


def _ask(name: str, ask: Check, found: dict[str, list[Finding]]) -> None:
    try:
        found[name] = list(ask())
    except ClusterError as trouble:
        found[name] = [
            f._replace(hint=f.hint or f"`--skip-preflight {name}` goes without this check")
            for f in trouble.findings
        ]
    except Exception as trouble:  # noqa: BLE001  # told as a finding, not lost in a thread
        said = f"{type(trouble).__name__}: {trouble}"
        found[name] = [
            error("iris.check-failed", f"the check `{name}` failed: {said}", name, _SKIP)
        ]


_SKIP = "`rlaunch doctor` says what is installed; `--skip-preflight NAME` goes without a check"


def _late(name: str) -> Finding:
    say = warning if name == "kubernetes" else error  # neither limits nor refusals may be outrun
    return say(
        "iris.check-late", f"the check `{name}` gave no answer in {LIMIT_S:g} s", name,
        f"`--skip-preflight {name}` goes without this check",
    )  # fmt: skip


def controller(plan: Plan, connect: Callable[[], Controller], today: str) -> Iterator[Finding]:
    """The controller answers, its client is not too old, and the job's name is free there."""
    opened = connect()
    health = opened.health
    if health.client_date:
        days = (date.fromisoformat(today[:10]) - date.fromisoformat(health.client_date)).days
        if days > FRESH_DAYS:
            yield warning(
                "iris.client-aging",
                f"the Iris client {health.client_version} is {days} days old; a controller built in the last "
                f"{days - FRESH_DAYS} days refuses it", "", f"{troubles.INSTALL} brings the newest",
            )  # fmt: skip
    job_id = str(plan.native["job"])
    if opened.job(job_id) is not None:
        yield error(
            "iris.name-taken", f"the controller has a job `{job_id}` already", "--job-name",
            "make a new plan: a job's name is used once",
        )  # fmt: skip


def running(plan: Plan, connect: Callable[[], Controller]) -> Iterator[Finding]:
    """Fewer RL runs run on this cluster than the profile allows; those that wait do not count."""
    limit = plan.run.profile["running_runs"]
    if limit is None:
        return
    jobs = [job for job in connect().running() if _OURS.search(job.job_id.rpartition("/")[2])]
    busy = sorted(job.job_id for job in jobs if job.counts.get("running") and job.gpus)
    if len(busy) >= limit:
        names = ", ".join(f"`{name}`" for name in busy[:8])
        yield error(
            "iris.running-limit",
            f"{len(busy)} RL runs run on this cluster, and {limit} is the limit: {names}", "running_runs",
            "wait for one to end, or `--allow iris.running-limit`, which is recorded",
        )  # fmt: skip


def kubernetes(plan: Plan) -> Iterator[Finding]:
    """The kubeconfig leads to the profile's cluster, the queue is there, and the gang finds room."""
    profile, run = plan.run.profile, plan.run
    api = kube.open_kube(profile)
    if api is None:
        return
    nodes = api.nodes(profile["node_selector"])
    if not nodes:
        yield error(
            "iris.wrong-cluster",
            f"`{api.host}` has no node with `{profile['node_selector']}`: it is another cluster than "
            f"`{profile['name']}` ({api.source})", "kubeconfig",
            "`export KUBECONFIG=FILE`, `--set kubeconfig=FILE` or `--set kube_context=NAME`",
        )  # fmt: skip
        return
    queue = profile["local_queue"]
    if queue and api.has_queue(profile["namespace"], queue) is False:
        yield error(
            "iris.queue-missing", f"kueue has no queue `{queue}` in `{profile['namespace']}`", "local_queue",
            "is this the profile's cluster? `kubectl get localqueues -A` lists them",
        )  # fmt: skip
    yield from room(plan, nodes, api.pods(), run.nodes)


def room(plan: Plan, nodes: list[Any], pods: list[Any], wanted: int) -> Iterator[Finding]:
    """Say whether the gang fits: never (beside the system's own pods) is an error, not now a warning."""
    need = wanted_of(plan)
    for jobs, make, code in ((False, error, "iris.never-fits"), (True, warning, "iris.no-room")):
        listing = headroom.survey(nodes, pods, jobs=jobs)
        short = headroom.shortfall(listing, wanted, need)
        if not short:
            continue
        cpu = headroom.fitting_cpu(listing, wanted, need)
        hint = (
            f"`--cpu {cpu}` fits"
            if cpu
            else "it waits until others end; `rlaunch watch` says for what"
        )
        if not jobs and not cpu:
            hint = "ask for less, or fewer nodes: the system's own pods hold the rest for good"
        yield make(code, short, "--cpu" if cpu else "--num-nodes", hint)
        return


def wanted_of(plan: Plan) -> headroom.Amounts:
    """Return what one node of the gang asks for, from the request itself."""
    said = plan.native["request"]["resources"]
    gpus = said.get("device", {}).get("gpu", {}).get("count", 0)
    return headroom.Amounts(
        said["cpuMillicores"] / 1000, int(said["memoryBytes"]), int(said["diskBytes"]), int(gpus)
    )


def stored(query: PreflightQuery) -> Iterator[Finding]:
    """The store takes the keys that the job will have, wherever they come from."""
    untried = storage.probe(query.plan, query.collect())
    if untried:
        yield Finding(
            "note", "iris.storage-untried", f"the store was not tried: {untried}", "storage",
            "the job's way to it is another one; a store that refuses it stops the gang at bring-up",
        )  # fmt: skip
