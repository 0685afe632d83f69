"""Run + command + what was seen → plan. Pure: reads nothing, decides everything.

The native part of a local plan is what the supervisor does: one agent command line per rank, in which
only `{attempt}` and `{lifeline}` (before the driver's `--`) are filled in later, once for each attempt.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from rlaunch.model import Command, File, Observed, Plan, Run, SecretFile
from rlaunch.settings import size_in_bytes

AGENT = "rlaunch-node.pyz"
LAST_PORT = 32767
"""The kernel hands out the ports above to connections (net.ipv4.ip_local_port_range)."""
PORTS = (
    "agent",
    "gcs",
    "node-manager",
    "object-manager",
    "metrics-export",
    "runtime-env-agent",
    "dashboard-agent-grpc",
    "dashboard-agent-listen",
)
"""The first ports of a node's block; then the workers' come, and last the guard."""


def plan_run(run: Run, command: Command, observed: Observed) -> Plan:
    """Plan a run on this machine. Total and deterministic; `observed` may be empty (`--offline`)."""
    secret_files = (
        (SecretFile("secrets.json", "run-dir", 0o600, run.secrets),) if run.secrets else ()
    )
    environment = json.dumps(dict(run.env), indent=1, sort_keys=True) + "\n"
    return Plan(
        run=run,
        command=command,
        env=dict(run.env),
        secrets=run.secrets,
        files=(File("env.json", "run-dir", 0o600, environment), *command.files),
        artifacts=(),
        secret_files=secret_files,
        native=_native(run, command, observed.facts),
        observed=observed,
    )


def _native(run: Run, command: Command, facts: Mapping[str, Any]) -> dict[str, Any]:
    profile, run_dir = run.profile, run.paths.run_dir
    size, ranks = int(profile["ports_per_node"]), []
    for rank in range(min(run.nodes, blocks(profile["first_port"], size))):  # see too-many-nodes
        node = {
            "rank": rank,
            "ip": address(str(facts.get("network") or network(run.id)), rank),
            "ports": ports(start := _block(run, facts, rank), size),
            "guard": start + size - 1,
        }
        argv = [run.python, *_agent(run, command, node), "--", *command.argv]
        ranks.append({**node, "argv": argv, "cwd": run_dir})
    return {
        "supervisor": [
            facts.get("rlaunch_python") or run.python,
            "-m",
            "rlaunch_local.supervisor",
            run_dir,
        ],
        "run_dir": run_dir,
        "rendezvous": run.paths.rendezvous,
        "ray_temp": ray_temp(run),
        "secrets_file": f"{run_dir}/secrets.json" if run.secrets else None,
        "max_retries": run.max_retries,
        "timeout_s": run.timeout_s,
        "grace_s": profile["grace_s"],
        "settle_s": profile["settle_s"],
        "farewell_s": profile["farewell_s"],
        "inherit": list(profile["inherit"]),
        "ranks": ranks,
    }


def _agent(run: Run, command: Command, node: Mapping[str, Any]) -> Iterator[str]:
    """Yield the agent's arguments up to the driver's `--`."""
    run_dir, profile, rank = run.paths.run_dir, run.profile, node["rank"]
    yield from (f"{run.paths.artifacts}/{AGENT}", "agent")
    yield from ("--run-id", run.id, "--attempt", "{attempt}", "--rank", str(rank))
    yield from ("--nodes", str(run.nodes), "--rendezvous", run.paths.rendezvous)
    yield from ("--node-ip", node["ip"], "--work-dir", f"{run_dir}/work/{rank}")
    yield from ("--env-file", f"{run_dir}/env.json")
    if run.secrets:
        yield from ("--secrets-file", f"{run_dir}/secrets.json")
    yield from ("--log-file", f"{run_dir}/logs/{{attempt}}/{rank}.log")
    yield from ("--ray-temp", f"{ray_temp(run)}/{{attempt}}")
    yield from ("--gpus", str(run.gpus_per_node), "--cpus", str(max(1, int(run.cpu or 1))))
    if run.memory and run.memory != "auto":
        yield from ("--memory", str(size_in_bytes(run.memory)))
    yield from ("--object-store-memory", str(size_in_bytes(profile["object_store"])))
    yield from ("--ports", ",".join(f"{name}={port}" for name, port in node["ports"].items()))
    if command.stage:
        yield from ("--stage", json.dumps(list(command.stage)))
    if command.own:
        yield from ("--own-checkpoint", command.own.place)
        yield from ("--own-words", json.dumps(list(command.own.words)))
    yield from ("--cwd", command.cwd or run_dir)
    for path in command.pythonpath:
        yield from ("--pythonpath", path)
    yield from ("--rendezvous-timeout", _number(profile["rendezvous_timeout_s"]))
    yield from ("--join-timeout", _number(profile["join_timeout_s"]))
    yield from ("--liveness-timeout", _number(profile["liveness_timeout_s"]))
    yield from ("--grace", _number(profile["grace_s"]), "--lifeline-fd", "{lifeline}")


def _number(value: float) -> str:
    return f"{value:.15g}"


def fill(argv: list[str], attempt: int, lifeline: int) -> list[str]:
    """Fill `{attempt}` and `{lifeline}` into an agent's own arguments; the driver's stay as they are."""
    end = argv.index("--") if "--" in argv else len(argv)
    filled = [
        word.replace("{attempt}", str(attempt)).replace("{lifeline}", str(lifeline))
        for word in argv[:end]
    ]
    return [*filled, *argv[end:]]


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def network(run_id: str, turn: int = 0) -> str:
    """Return the run's own loopback network, `127.A.B`: a hash of the run id.

    A is 16 to 253, so that it meets neither 127.0.0.1 (which Ray replaces by another address) nor what
    distributions use below 127.1. `turn` gives the next one to try.
    """
    spot = (_digest(run_id) + turn) % (238 * 256)
    return f"127.{16 + spot // 256}.{spot % 256}"


def address(net: str, rank: int) -> str:
    """Return a rank's IP in the network; past 254 nodes in the networks after it."""
    first, second, third = (int(part) for part in net.split("."))
    third += rank // 254
    return f"{first}.{second + third // 256}.{third % 256}.{rank % 254 + 1}"


def blocks(first: int, size: int) -> int:
    """Return how many blocks of `size` ports there are from `first` up to `LAST_PORT`."""
    return max(1, (LAST_PORT + 1 - first) // size)


def block(run_id: str, turn: int, first: int, size: int) -> int:
    """Return the first port of the run's `turn`-th block of ports: a hash of the run id, then the next."""
    return first + (_digest(f"ports {run_id}") + turn) % blocks(first, size) * size


def _block(run: Run, facts: Mapping[str, Any], rank: int) -> int:
    seen = facts.get("blocks") or ()
    if rank < len(seen):
        return int(seen[rank])
    return block(run.id, rank, run.profile["first_port"], run.profile["ports_per_node"])


def ports(start: int, size: int) -> dict[str, int]:
    """Return a node's ports by name, from its block of `size` ports at `start`.

    Nodes share one machine, so none is used twice: worker processes have a range of their own, since
    two Rays that hand out one range race for its ports. The last port of the block is the guard, which
    the supervisor listens on: it makes the whole block busy from the first moment of the run.
    """
    named = {name: start + offset for offset, name in enumerate(PORTS)}
    return {**named, "min-worker": start + len(PORTS), "max-worker": start + size - 2}


def ray_temp(run: Run) -> str:
    """Return the run's directory for Ray's sessions; short, since socket paths end at 107 bytes."""
    return f"{str(run.profile['temp_root']).rstrip('/')}/rl-{run.id.rpartition('-')[2]}"
