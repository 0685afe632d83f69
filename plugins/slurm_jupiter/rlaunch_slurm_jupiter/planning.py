"""Run + command + what was seen → plan. Pure: reads nothing, decides everything.

job.sh      what sbatch is given: the order of the job, and nothing of the run's values but paths
task.json   what every node's task starts: the agent's arguments and the driver's, one word each
task.py     finds out on the node what only the node knows (rank, address, memory), then is the agent
after-task.sh   what SLURM runs on the node after that, for what a killed agent cannot do
env.json    the environment, read by the agent
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

from rlaunch.model import Command, File, Observed, Plan, Run, SecretFile
from rlaunch.settings import size_in_bytes
from rlaunch.skyrl import overrides
from rlaunch.skyrl.tree import MISSING
from rlaunch_slurm_jupiter.aftermath import write_aftermath
from rlaunch_slurm_jupiter.container import container_of, pydeps_of
from rlaunch_slurm_jupiter.directives import directives, wall_seconds
from rlaunch_slurm_jupiter.script import Job, write_script
from rlaunch_slurm_jupiter.sources import TASK

AGENT, TOY = "rlaunch-node.pyz", "rlaunch-smoke.pyz"


def plan_run(run: Run, command: Command, observed: Observed) -> Plan:
    """Plan a run on a SLURM cluster. Total and deterministic; `observed` may be empty (`--offline`)."""
    env = {**_derived_env(run), **run.env}
    secret_files = (
        (SecretFile("secrets.json", "run-dir", 0o600, run.secrets),) if run.secrets else ()
    )
    source = source_dir(run, command)
    return Plan(
        run=run,
        command=command,
        env=env,
        secrets=run.secrets,
        files=(
            File("job.sh", "run-dir", 0o700, write_script(_job(run, command, source))),
            File("task.json", "run-dir", 0o600, _pretty(_task(run, command, source))),
            File("task.py", "run-dir", 0o600, TASK),
            File("after-task.sh", "run-dir", 0o700, _aftermath(run)),
            File("env.json", "run-dir", 0o600, _pretty(env)),
            *command.files,
        ),
        artifacts=(),
        secret_files=secret_files,
        native={
            "argv": ["sbatch", "--parsable", f"{run.paths.run_dir}/job.sh"],
            "host": run.profile["host"],
            "links": links(run),
            "restart": run.profile["restart"],
            "time_s": wall_seconds(run),
            "source": source,
            "wandb_dir": f"{env['WANDB_DIR']}/wandb",
        },
        observed=observed,
    )


def links(run: Run) -> int:
    """Return how many jobs are submitted: retries are jobs of a chain, or requeues of one job."""
    return run.max_retries + 1 if run.profile["restart"] == "chain" else 1


def source_dir(run: Run, command: Command) -> str | None:
    """Return where the workspace lies on the cluster, by its content; None when the job needs none."""
    if TOY in command.artifacts or not run.profile["ships_workspace"] or not run.workspace.digest:
        return None
    base = PurePosixPath(run.paths.run_dir).parent / "source"
    return str(base / run.workspace.digest[:16])


def _derived_env(run: Run) -> dict[str, str]:
    """Return the variables that follow from paths; the recipe's and the profile's own stand above."""
    env = {"WANDB_DIR": run.paths.storage}
    if run.profile["hf_home"]:
        env["HF_HOME"] = run.profile["hf_home"]
    return env


def argument(command: Command, key: str) -> str | None:
    """Return the last value that the driver is given for a Hydra key, by itself or in a mapping."""
    found: Any = None
    for word in command.argv:
        name = word.lstrip("+~").partition("=")[0]
        if f"{key}.".startswith(f"{name}."):
            try:
                value = overrides.parse(word).value_at(key)
            except ValueError:  # not Hydra's: another program's argument
                continue
            found = found if value is MISSING else value
    return None if found in (None, "") or isinstance(found, dict) else str(found)


def _job(run: Run, command: Command, source: str | None) -> Job:
    profile = run.profile
    steps = argument(command, "trainer.max_steps")
    folder = argument(command, "trainer.ckpt_path")
    mode = argument(command, "trainer.resume_mode")
    needed = [run.paths.run_dir, run.paths.storage, run.paths.data, *([source] if source else [])]
    outside = [p for p in dict.fromkeys(needed) if not _inside(p, run.paths.run_dir)]
    container = container_of(run, (run.paths.run_dir, *outside))
    return Job(
        run_id=run.id,
        version=run.version,
        nodes=run.nodes,
        directives=tuple(directives(run)),
        run_dir=run.paths.run_dir,
        rendezvous=run.paths.rendezvous,
        python=run.python,
        container=container.argv() if container else (),
        sif=container.sif if container else "",
        modules=tuple(profile["modules"]),
        before=tuple(profile["before"]),
        unset=tuple(profile["unset"]),
        srun=tuple(_srun(run)),
        links=links(run),
        attempts=run.max_retries + 1,
        requeue=profile["restart"] == "requeue",
        marker=f"{folder}/latest_ckpt_global_step.txt" if folder and folder.startswith("/") else "",
        max_steps=int(steps) if steps and steps.isdecimal() else 0,
        resume=argument(command, "trainer.resume_path") or "" if mode == "from_path" else "",
        anew=mode == "none",
        tunnel=profile["tunnel"],
        interfaces=tuple(profile["interfaces"]),
        secrets=bool(run.secrets),
        folders=tuple(dict.fromkeys((run.paths.rendezvous, run.paths.storage, run.paths.data))),
    )


def _inside(path: str, root: str) -> bool:
    return path == root or path.startswith(f"{root.rstrip('/')}/")


def _srun(run: Run) -> Iterator[str]:
    profile = run.profile
    yield from (f"--nodes={run.nodes}", f"--ntasks={run.nodes}", "--ntasks-per-node=1")
    if run.cpu:
        yield f"--cpus-per-task={max(1, int(run.cpu))}"
    yield from ("--mpi=none", "--export=ALL", "--kill-on-bad-exit=0", "--wait=90", "--label")
    if profile["cpu_bind"]:
        yield f"--cpu-bind={profile['cpu_bind']}"
    if profile["gpu_bind"]:
        yield f"--gpu-bind={profile['gpu_bind']}"
    yield from profile["srun"]


def _task(run: Run, command: Command, source: str | None) -> dict[str, Any]:
    profile = run.profile
    return {
        "run": run.id,
        "nodes": run.nodes,
        "rendezvous": run.paths.rendezvous,
        "logs": f"{run.paths.run_dir}/logs",
        "work": f"{run.paths.run_dir}/work",
        "temp": ray_temp(run),
        "agent": [f"{run.paths.artifacts}/{AGENT}", "agent", *_agent(run, command, source)],
        "driver": list(command.argv),
        "interfaces": list(profile["interfaces"]),
        "ip_variables": list(profile["ip_variables"]),
        "memory": {
            "asked": size_in_bytes(run.memory) if run.memory and run.memory != "auto" else None,
            "reserve": size_in_bytes(profile["memory_reserve"]),
            "store": size_in_bytes(profile["object_store"]),
        },
        "tunnel": _tunnel(run),
    }


def _aftermath(run: Run) -> str:
    return write_aftermath(run.id, run.paths.rendezvous, ray_temp(run))


def _tunnel(run: Run) -> dict[str, Any] | None:
    tunnel = run.profile["tunnel"]
    if not tunnel:
        return None
    names = ("proxy", "port", "probe", "timeout_s")
    return {
        "standing": tunnel["login"] is None,
        "wrapped": bool(tunnel["wrapper"]),
        **{name: tunnel[name] for name in names},
    }


def _agent(run: Run, command: Command, source: str | None) -> Iterator[str]:
    """Yield the agent's arguments that are the same on every node."""
    run_dir, profile = run.paths.run_dir, run.profile
    yield from ("--run-id", run.id, "--nodes", str(run.nodes), "--rendezvous", run.paths.rendezvous)
    yield from ("--env-file", f"{run_dir}/env.json")
    if run.secrets:
        yield from ("--secrets-file", f"{run_dir}/secrets.json")
    yield from ("--gpus", str(run.gpus_per_node))
    if run.cpu:
        yield from ("--cpus", str(max(1, int(run.cpu))))
    if command.stage:
        yield from ("--stage", json.dumps(list(command.stage), ensure_ascii=False))
    if command.own:
        yield from ("--own-checkpoint", command.own.place)
        yield from ("--own-words", json.dumps(list(command.own.words)))
    yield from ("--cwd", command.cwd or source or run_dir)
    for folder in _pythonpath(run, command, source):
        yield from ("--pythonpath", folder)
    yield from ("--rendezvous-timeout", f"{profile['rendezvous_timeout_s']}")
    yield from ("--join-timeout", f"{profile['join_timeout_s']}")
    yield from ("--liveness-timeout", f"{profile['liveness_timeout_s']}")
    yield from ("--grace", f"{float(profile['grace_s']):.15g}")
    if profile["save_lead_s"]:
        yield from ("--lead", f"{profile['save_lead_s']}")


def _pythonpath(run: Run, command: Command, source: str | None) -> Iterator[str]:
    """Yield pydeps first, then the trainer's own, then the workspace's directories."""
    yield from pydeps_of(run)
    yield from command.pythonpath
    for folder in run.profile["pythonpath"]:
        if folder.startswith("/"):
            yield folder
        elif source:
            yield source if folder == "." else f"{source}/{folder}"


def ray_temp(run: Run) -> str:
    """Return the run's directory for Ray's sessions; the attempt and rank come after it."""
    return f"{str(run.profile['temp_root']).rstrip('/')}/rl-{run.id.rpartition('-')[2][:8]}"


def _pretty(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
