"""Run + command + what was seen → the request as Iris's wire carries it (`LaunchJobRequest`, as JSON). Pure.

The shape is protobuf's own JSON: camel case, whole numbers of 64 bits as text, enums by name, empty fields
left out. Secrets stand there by name; the values are filled in at submit.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from rlaunch.model import Run
from rlaunch_iris import sizing

FOLDER = "_rlaunch"
"""What we bring lies in this folder of the job's work directory."""
SECRET = "(filled in at submit)"  # noqa: S105  # what stands for a value
START = f'exec "$0" -I "${{IRIS_WORKDIR:-/app}}/{FOLDER}/start.py"'
"""`bash -c` runs this: the only shell text, with nothing of the run in it. `$0` is the job's Python."""
NAME_LIMIT = 63


def job_name(run: Run) -> str:
    """Return the job's name: the run's id, which is unique, as a DNS label of at most 63 characters.

    What is too long, or has other characters, keeps its beginning and gets a hash, so that it stays unique.
    """
    slug = re.sub(r"[^a-z0-9]+", "-", run.id.lower()).strip("-") or "run"
    if slug == run.id and len(slug) <= NAME_LIMIT:
        return slug
    digest = hashlib.sha256(run.id.encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{slug[: NAME_LIMIT - 7].rstrip('-')}-{digest}"


def job_user(run: Run) -> str:
    """Return the first part of the job's id; a controller with identities of its own replaces it."""
    user = str(run.profile["job_user"]).replace("{user}", run.user)
    return user.replace("/", "-") or "root"


def job_id(run: Run) -> str:
    """Return `/user/name`."""
    return f"/{job_user(run)}/{job_name(run)}"


def build(run: Run, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole request."""
    profile = run.profile
    request: dict[str, Any] = {
        "name": job_id(run),
        "entrypoint": {"runCommand": {"argv": ["bash", "-c", START, run.python]}},
        "resources": resources(run, facts),
        "environment": {"envVars": variables(run), "secrets": dict.fromkeys(run.secrets, SECRET)},
        "maxTaskFailures": run.max_retries,
        "maxRetriesFailure": run.max_retries,
        "maxRetriesPreemption": profile["max_retries_preemption"],
        "coscheduling": {"groupBy": profile["group_by"]} if run.nodes > 1 else {},
        "replicas": run.nodes,
        "timeout": {"milliseconds": str(run.timeout_s * 1000)} if run.timeout_s else {},
        "existingJobPolicy": "EXISTING_JOB_POLICY_ERROR",
        "priorityBand": f"PRIORITY_BAND_{run.priority.upper()}" if run.priority else "",
        "taskImage": run.task_image or "",
        "constraints": constraints(run),
    }
    if not run.secrets:
        del request["environment"]["secrets"]
    return {name: value for name, value in request.items() if value not in ({}, [], "", 0)}


def resources(run: Run, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what one node asks for."""
    found: dict[str, Any] = {
        "cpuMillicores": millicores(run),
        "memoryBytes": str(sizing.decide(run, "memory", facts).amount),
        "diskBytes": str(sizing.decide(run, "disk", facts).amount),
    }
    if run.gpus_per_node:
        gpu = {"variant": run.profile["gpu_variant"], "count": run.gpus_per_node}
        found["device"] = {"gpu": gpu}
    return found


def millicores(run: Run) -> int:
    """Return cores in thousandths; the client raises a GPU task to at least four cores."""
    asked = round((run.cpu or 1) * 1000)
    return max(4000, asked) if run.gpus_per_node else asked


def constraints(run: Run) -> list[dict[str, Any]]:
    """Return the scheduling constraints: only `preemptible`, where the cluster knows it."""
    if run.preemptible is None:
        return []
    wanted = "true" if run.preemptible else "false"
    return [{"key": "preemptible", "value": {"stringValue": wanted}}]


def variables(run: Run) -> dict[str, str]:
    """Return the variables of the request itself.

    The run's own environment travels in `job.json` and not here: Kubernetes expands `$(NAME)` in the value
    of a variable. These are set so that the client adds none of its own; its MARIN_PROVENANCE would carry
    this program's whole command line, which the controller stores and shows.
    """
    return {
        "HF_DATASETS_TRUST_REMOTE_CODE": "1",
        "MARIN_PROVENANCE": provenance(run),
        "RLAUNCH_RUN_ID": run.id,
        "TOKENIZERS_PARALLELISM": "false",
    }


def provenance(run: Run) -> str:
    """Return where the run's code comes from, in the shape that Marin's tools read."""
    work = run.workspace
    return json.dumps(
        {
            "base_commit": work.commit or "unknown",
            "branch": None,
            "built_by": run.user,
            "command_line": ["rlaunch", run.id],
            "created_at": run.created,
            "dirty": bool(work.dirty),
            "git_remote": None,
            "tree_hash": work.digest or work.commit or "unknown",
        },
        sort_keys=True,
    )
