"""What an idle watched run costs: file-system requests per node and 5 s, counted by strace.

    .venv/bin/python benchmarks/idle.py [SECONDS]

Starts a two-node local run whose driver only waits, lets it settle, and then counts for SECONDS (65, so
that the heartbeat of once a minute is in it) every system call with a path (`strace -e trace=%file`) of
the watcher, of the supervisor and of both node agents. Ray's own processes and the driver are not ours
and are not counted.

"The run" are paths in the run's own directory, which on a cluster lies on shared storage: the goal is
about these. "This node" are other paths, such as a look at the room in /tmp. Left out are /proc and
/sys, the kernel's memory, and looks at a file that is open already. Prints the counts; never fails on
them. Needs strace, and the right to trace one's own processes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NODES = 2
GOAL = 1.0
RLAUNCH = str(Path(sys.executable).with_name("rlaunch"))


def call(env: dict[str, str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run rlaunch."""
    return subprocess.run(
        [RLAUNCH, *words], cwd=ROOT, env=env, capture_output=True, text=True, check=False
    )


def count(parts: dict[str, list[int]], seconds: float, temp: Path) -> dict[str, tuple[int, int]]:
    """Count the requests that each part makes, all in the same time."""
    what = ["strace", "-f", "-qq", "-e", "trace=%file", "-e", "signal=none"]
    logs = {name: temp / f"trace.{pids[0]}" for name, pids in parts.items()}
    tracers = [
        subprocess.Popen([*what, "-o", str(logs[name]), *(f"-p{pid}" for pid in pids)])
        for name, pids in parts.items()
    ]
    time.sleep(seconds)
    for tracer in tracers:
        tracer.send_signal(signal.SIGINT)
        tracer.wait()
    texts = {name: log.read_text(errors="replace") for name, log in logs.items()}
    return {name: asked(text, f"{temp}/state") for name, text in texts.items()}


def asked(trace: str, root: str) -> tuple[int, int]:
    """Count a trace's paths: in the run's directory, and elsewhere on the node."""
    found = (re.search(r'"(/[^"]*)"', line) for line in trace.splitlines())
    paths = [match[1] for match in found if match and not match[1].startswith(("/proc", "/sys"))]
    run = sum(path.startswith(root) for path in paths)
    return run, len(paths) - run


def own_processes(run: str) -> dict[str, list[int]]:
    """Return the pids of the run's supervisor and node agents, by what they are."""
    found: dict[str, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        line = " ".join(words)
        if run not in line:
            continue
        if "rlaunch_local.supervisor" in line:
            found.setdefault("supervisor", []).append(int(entry.name))
        elif match := re.search(r"rlaunch-node\.pyz agent .*--rank (\d+)", line):
            found.setdefault(f"agent of rank {match[1]}", []).append(int(entry.name))
    return found


def measure(env: dict[str, str], temp: Path, seconds: float) -> None:
    """Start a run, watch it, and print what each part asked of the file system."""
    words = ["--cluster", "local", "--rl_config", "docs/recipes/smoke.yaml", "--model_path"]
    words += ["toy/grpo", "--train_data", '["builtin/sums"]', "--num-nodes", str(NODES)]
    words += ["--gpus_per_node", "0", "--skyrl_override", "++smoke.hang_at_step=1"]
    done = call(env, *words, "--no-wait", "--json")
    if done.returncode != 0:
        raise SystemExit(f"the launch was refused:\n{done.stderr}")
    run = json.loads(done.stdout)["run"]
    with subprocess.Popen(
        [RLAUNCH, "watch", run, "--interval", "5"],
        cwd=ROOT, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as watcher:  # fmt: skip
        try:
            wait_for_driver(env, run)
            time.sleep(15)  # the driver comes to its pause, Ray to rest
            wait_for_driver(env, run)  # it may have ended since
            parts = {"watcher": [watcher.pid], **own_processes(run)}
            show(count(parts, seconds, temp), seconds)
        finally:
            watcher.terminate()
            call(env, "stop", run, "--yes")


def wait_for_driver(env: dict[str, str], run: str) -> None:
    """Wait until the driver runs; give up when the run has ended without."""
    while (seen := json.loads(call(env, "status", run, "--json").stdout))["state"] != "RUNNING":
        if seen["state"] not in ("PENDING", "STARTING"):
            raise SystemExit(f"the run is {seen['state']}: {seen['reason']}")
        time.sleep(1)


def show(counts: dict[str, tuple[int, int]], seconds: float) -> None:
    """Print the rates."""
    print(f"{seconds:.0f} s of an idle run on {NODES} nodes; requests per node and 5 s")
    print(f"{'':20} the run   this node")
    sums = [sum(column) for column in zip(*counts.values(), strict=True)]
    for name, both in {**counts, "all": sums}.items():
        run, node = (number / seconds * 5 / NODES for number in both)
        print(f"{name:20} {run:7.2f} {node:11.2f}")
    print(f"goal: at most {GOAL:.0f} for the run")


def main(seconds: float) -> None:
    """Measure in a state directory of its own."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="rlb-", dir="/tmp") as temp:  # short: Ray's sockets
        measure({**env, "XDG_STATE_HOME": f"{temp}/state"}, Path(temp), seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 65.0)
