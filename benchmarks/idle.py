"""What an idle watched run costs: file-system requests per node and 5 s, counted by strace.

    .venv/bin/python benchmarks/idle.py [SECONDS]

Starts a two-node local run whose driver only waits, lets it settle, and then counts for SECONDS (60)
every system call with a path (`strace -e trace=%file`) of the watcher, of the supervisor and of both
node agents. Ray's own processes and the driver are not ours and are not counted. Prints the counts;
never fails on them. Needs strace, and the right to trace one's own processes.
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


def call(env: dict[str, str], cwd: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run rlaunch."""
    return subprocess.run(
        [RLAUNCH, *words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )


def count(pid: int, seconds: float, log: Path) -> int:
    """Count the system calls with a path that a process makes in so many seconds."""
    tracer = subprocess.Popen(
        [
            "strace",
            "-f",
            "-qq",
            "-e",
            "trace=%file",
            "-e",
            "signal=none",
            "-o",
            str(log),
            "-p",
            str(pid),
        ],
        stderr=subprocess.DEVNULL,
    )
    time.sleep(seconds)
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    return sum(1 for line in log.read_text(errors="replace").splitlines() if "(" in line)


def own_processes(run: str) -> dict[str, int]:
    """Return the pids of the run's supervisor and node agents, by what they are."""
    found = {}
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
            found["supervisor"] = int(entry.name)
        elif match := re.search(r"rlaunch-node\.pyz agent .*--rank (\d+)", line):
            found[f"agent of rank {match[1]}"] = int(entry.name)
    return found


def measure(env: dict[str, str], temp: Path, seconds: float) -> None:
    """Start a run, watch it, and print what each part asked of the file system."""
    words = ["--cluster", "local", "--rl_config", str(ROOT / "docs/recipes/smoke.yaml")]
    words += [
        "--model_path",
        "toy/grpo",
        "--train_data",
        '["builtin/sums"]',
        "--num-nodes",
        str(NODES),
    ]
    words += [
        "--skyrl_override",
        "trainer.max_steps=1000000",
        "--skyrl_override",
        "trainer.epochs=100000",
    ]
    done = call(env, ROOT, *words, "--no-wait", "--json")
    if done.returncode != 0:
        raise SystemExit(f"the launch was refused:\n{done.stderr}")
    run = json.loads(done.stdout)["run"]
    watcher = subprocess.Popen(
        [RLAUNCH, "watch", run, "--interval", "5"], cwd=ROOT, env=env, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while json.loads(call(env, ROOT, "status", run, "--json").stdout)["state"] != "RUNNING":
            time.sleep(1)
        time.sleep(10)
        parts = {"watcher": watcher.pid, **own_processes(run)}
        total = 0.0
        print(f"{seconds:.0f} s each, one after the other; requests per node and 5 s")
        for name, pid in parts.items():
            rate = count(pid, seconds, temp / "trace") / seconds * 5 / NODES
            total += rate
            print(f"{name:20} {rate:6.2f}")
        print(f"{'all':20} {total:6.2f}   goal: at most {GOAL:.0f}")
    finally:
        watcher.terminate()
        watcher.wait()
        call(env, ROOT, "stop", run, "--yes")


def main(seconds: float) -> None:
    """Measure in a state directory of its own."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryDirectory(prefix="rlb-", dir="/tmp") as temp:  # short: Ray's sockets
        measure({**env, "XDG_STATE_HOME": f"{temp}/state"}, Path(temp), seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0)
