"""Run + command + what was seen → plan. Pure: reads nothing, decides everything."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlaunch.model import Artifact, Command, File, Observed, Plan, Run
from rlaunch.settings import size_in_bytes
from rlaunch_iris import archive, request

AGENT = "rlaunch-node.pyz"
START_PATH = f"{request.FOLDER}/start.py"
JOB_PATH = f"{request.FOLDER}/job.json"
ARCHIVE_PATH = f"{request.FOLDER}/{archive.NAME}"
START_TEXT = Path(__file__).with_name("start.py").read_text(encoding="utf-8")
"""Read once, when the plugin is loaded: it is code of ours that travels as text."""


def plan_run(run: Run, command: Command, observed: Observed) -> Plan:
    """Plan a run on Iris. Total and deterministic; `observed` may be empty (`--offline`)."""
    packed = observed.facts.get("workspace") or {}
    job = json.dumps(_job(run, command, packed), indent=1, sort_keys=True, ensure_ascii=True) + "\n"
    files = (File(START_PATH, "job", 0o644, START_TEXT), File(JOB_PATH, "job", 0o644, job))
    artifacts: tuple[Artifact, ...] = ()
    if packed.get("sha256"):
        artifacts = (Artifact(ARCHIVE_PATH, "job", packed["sha256"], int(packed["size"])),)
    return Plan(
        run=run,
        command=command,
        env=dict(run.env),
        secrets=run.secrets,
        files=(*files, *command.files),
        artifacts=artifacts,
        secret_files=(),
        native=_native(run, command, observed),
        observed=observed,
    )


def _native(run: Run, command: Command, observed: Observed) -> dict[str, Any]:
    profile = run.profile
    return {
        "rpc": "iris.cluster.ControllerService/LaunchJob",
        "controller": profile["controller"] or profile["cluster_config"] or profile["iris_cluster"],
        "job": request.job_id(run),
        "request": request.build(run, observed.facts),
        "added_by_the_client": {
            "bundleBlob": "a zip of the files and artifacts under `_rlaunch/`, as planned",
            "clientRevisionDate": "the day on which the installed client was built",
            "environment.secrets": "the values of those names that are at hand; the others are left out",
        },
        "bundle": [START_PATH, JOB_PATH, *_zipapps(command), ARCHIVE_PATH],
    }


def _zipapps(command: Command) -> list[str]:
    return [f"{request.FOLDER}/{name}" for name in (AGENT, *command.artifacts)]


def _job(run: Run, command: Command, packed: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `start.py` reads in the job."""
    profile = run.profile
    return {
        "run": run.id,
        "nodes": run.nodes,
        "python": run.python,
        "run_dir": run.paths.run_dir,
        "ray_temp": ray_temp(run),
        "network": network(run.id) if profile["node_address"] == "loopback" else "",
        "workspace": {
            "archive": archive.NAME,
            "to": profile["workspace_dir"],
            "sha256": packed.get("sha256", ""),
        },
        "artifacts": {"to": run.paths.artifacts, "names": [AGENT, *command.artifacts]},
        "files": [
            {"path": f.path, "mode": f.mode, "content": f.content} for f in command.files
        ],
        "skyrl": {"dir": profile["skyrl_dir"], "ref": run.skyrl_ref or ""},
        "s3": _storage(profile["storage"]),
        "env": dict(run.env),
        "secrets": list(run.secrets),
        "agent": list(_agent(run, command)),
        "driver": list(command.argv),
    }  # fmt: skip


def _storage(storage: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables by which the agent finds the store; an open one is set by the cluster."""
    told = {
        "RLAUNCH_S3_ENDPOINT": storage["endpoint"],
        "RLAUNCH_S3_ADDRESSING": storage["addressing"],
        "RLAUNCH_S3_REGION": storage["region"],
    }
    return {name: value for name, value in told.items() if value}


def _agent(run: Run, command: Command) -> Iterator[str]:
    """Yield the agent's arguments up to the driver's `--`; `start.py` fills in what only the node knows."""
    profile = run.profile
    yield from ("agent", "--run-id", run.id, "--attempt", "{attempt}", "--rank", "{rank}")
    yield from ("--nodes", str(run.nodes), "--rendezvous", run.paths.rendezvous)
    yield from ("--node-ip", "{address}", "--work-dir", "{work}", "--env-file", "{env_file}")
    if profile["ray_temp"]:
        yield from ("--ray-temp", "{ray_temp}")
    yield from ("--gpus", str(run.gpus_per_node), "--cpus", str(max(1, int(run.cpu or 1))))
    if profile["object_store"]:
        yield from ("--object-store-memory", str(size_in_bytes(profile["object_store"])))
        if run.memory and run.memory != "auto":
            yield from ("--memory", str(size_in_bytes(run.memory)))
    if profile["ports"]:
        yield from ("--ports", ",".join(f"{k}={v}" for k, v in profile["ports"].items()))
    if command.stage:
        yield from ("--stage", json.dumps(list(command.stage)))
    if command.own:
        yield from ("--own-checkpoint", command.own.place)
        yield from ("--own-words", json.dumps(list(command.own.words)))
    yield from ("--cwd", command.cwd or "{workspace}", "--pythonpath", "{workspace}")
    for path in (*profile["pythonpath"], *command.pythonpath):
        yield from ("--pythonpath", path)
    yield from ("--rendezvous-timeout", _number(profile["rendezvous_timeout_s"]))
    yield from ("--join-timeout", _number(profile["join_timeout_s"]))
    yield from ("--liveness-timeout", _number(profile["liveness_timeout_s"]))
    yield from ("--grace", _number(profile["grace_s"]))


def _number(value: float) -> str:
    return f"{value:g}" if value < 1e6 else str(int(value))


def network(run_id: str) -> str:
    """Return `127.A.B`, a loopback network of the run's own (16 ≤ A < 254), for ranks on one machine."""
    spot = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:4], "big") % (238 * 256)
    return f"127.{16 + spot // 256}.{spot % 256}"


def ray_temp(run: Run) -> str:
    """Return Ray's directory; `{hex}` is the end of the run's id, since socket paths must be short."""
    return str(run.profile["ray_temp"]).replace("{hex}", run.id.rpartition("-")[2])
