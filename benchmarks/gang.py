"""A two-node gang from submit to driver start, beside a bare `ray start` head and worker.

    .venv/bin/python benchmarks/gang.py

One run of each, one after the other, on this machine, both with two pretended nodes on loopback
addresses. The bare pair is what Ray's documentation says: `ray start --head`, and when it returns
`ray start --address` on the other node, until that returns. The gang is measured from the start of the
`rlaunch` command to the moment that its supervisor wrote RUNNING, the driver's start; staging, the
rendezvous and the wait for both nodes are in it. Prints the times; never fails on time.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path

from rlaunch_local import proc

ROOT = Path(__file__).resolve().parent.parent
GOAL_S = 2.0
RLAUNCH = str(Path(sys.executable).with_name("rlaunch"))
SMOKE = (
    "--cluster", "local", "--rl_config", "docs/recipes/smoke.yaml", "--model_path", "toy/grpo",
    "--train_data", '["builtin/sums"]', "--num-nodes", "2", "--gpus_per_node", "0",
)  # fmt: skip
RAY = (
    sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats", "--num-cpus=2",
    "--num-gpus=0", "--object-store-memory=134217728",
)  # fmt: skip


def free_ports(count: int) -> list[int]:
    """Return ports that are free on every address right now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("", 0))
        return [one.getsockname()[1] for one in sockets]


def bare_pair(env: dict[str, str], temp: str) -> float:
    """Return the seconds that a head and a worker take, one after the other, until both are up."""
    gcs, *managers = free_ports(3)
    name = f"bench-{secrets.token_hex(4)}"  # by this its processes are found again, and no others
    env = {**env, "RLAUNCH_RUN_ID": name}
    head = [*RAY, "--head", f"--port={gcs}", "--node-ip-address=127.9.9.1", f"--temp-dir={temp}"]
    head += ["--include-dashboard=false", f"--node-manager-port={managers[0]}"]
    worker = [*RAY, f"--address=127.9.9.1:{gcs}", "--node-ip-address=127.9.9.2"]
    worker += [f"--node-manager-port={managers[1]}"]
    began = time.monotonic()
    try:
        for argv in (head, worker):
            subprocess.run(
                argv,
                env=env,
                stdout=subprocess.DEVNULL,
                check=True,
                timeout=120,
                start_new_session=True,
            )
        return time.monotonic() - began
    finally:
        proc.sweep(name)


def call(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run rlaunch."""
    return subprocess.run(
        [RLAUNCH, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def gang(env: dict[str, str]) -> float:
    """Return the seconds from the launch command to the driver's start."""
    began = time.time()
    done = call(env, *SMOKE, "--no-wait", "--json")
    if done.returncode != 0:
        raise SystemExit(f"the launch was refused:\n{done.stderr}")
    run = json.loads(done.stdout)["run"]
    try:
        return wait_for_driver(env, run) - began
    finally:
        call(env, "stop", run, "--yes")


def wait_for_driver(env: dict[str, str], run: str) -> float:
    """Return the moment that the supervisor wrote RUNNING, in seconds since the epoch."""
    run_dir = Path(json.loads(call(env, "status", run, "--json").stdout)["native"]["run_dir"])
    for _ in range(600):
        with contextlib.suppress(FileNotFoundError):
            for line in (run_dir / "history.jsonl").read_text(encoding="utf-8").splitlines():
                change = json.loads(line)
                if change["state"] == "RUNNING":
                    return datetime.fromisoformat(change["since"]).timestamp()
                if change["state"] in ("FAILED", "KILLED", "WORKER_FAILED"):
                    raise SystemExit(f"the gang failed: {change}")
        time.sleep(0.2)
    raise SystemExit("the gang did not come up in 120 s")


def main() -> None:
    """Measure both and print."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    env |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    with tempfile.TemporaryDirectory(prefix="rlb-", dir="/tmp") as temp:  # short: Ray's sockets
        bare = bare_pair(env, f"{temp}/ray")
        ours = gang({**env, "XDG_STATE_HOME": f"{temp}/state"})
    print(f"bare `ray start` head, then worker, until both are up: {bare:6.1f} s")
    print(f"rlaunch, two nodes, from the command to the driver:    {ours:6.1f} s")
    print(f"difference: {ours - bare:+.1f} s   goal: at most +{GOAL_S:.0f} s")


if __name__ == "__main__":
    main()
