"""How long rlaunch takes to start, in multiples of `python -c pass` measured beside it.

    .venv/bin/python benchmarks/startup.py [ROUNDS]

Every round runs all commands in turn, since a machine changes its speed within seconds and one
command after the other would measure that. Prints medians and ratios; never fails on time.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMOKE = (
    "--cluster", "local", "--rl_config", "docs/recipes/smoke.yaml", "--model_path", "toy/grpo",
    "--train_data", '["builtin/sums"]', "--num-nodes", "2",
)  # fmt: skip
RLAUNCH = str(Path(sys.executable).with_name("rlaunch"))
COMMANDS: dict[str, tuple[str, ...]] = {
    "python -c pass": (sys.executable, "-c", "pass"),
    "rlaunch --help": (RLAUNCH, "--help"),
    "rlaunch statsu (a typo)": (RLAUNCH, "statsu"),
    "rlaunch clusters": (RLAUNCH, "clusters"),
    "rlaunch … --dry-run": (RLAUNCH, *SMOKE, "--dry-run"),
    "rlaunch … --dry-run --offline": (RLAUNCH, *SMOKE, "--dry-run", "--offline"),
}
LARGE = ROOT.parent / "shared" / "recipes" / "iris_8node_qwen3_30b_a3b_131k_cp_dcp2_r3.yaml"
"""A real recipe of 64 GPUs, where it lies beside the checkout; its goal is 1.3 × the smoke recipe."""
if LARGE.is_file():
    COMMANDS["64-GPU recipe … --dry-run"] = (
        RLAUNCH, "--cluster", "local", "--workspace", str(LARGE.parent), "--rl_config", str(LARGE),
        "--model_path", "Qwen/Qwen3-Coder-30B-A3B-Instruct", "--train_data", '["a/b"]', "--dry-run",
    )  # fmt: skip
GOALS = {"rlaunch --help": 9.0, "rlaunch … --dry-run": 20.0}
"""Of the project, in multiples of `python -c pass`; `tests/cli` asserts what is imported instead."""


def seconds(argv: tuple[str, ...], env: dict[str, str]) -> float:
    """Return how long one run takes, from start to the end of the process."""
    began = time.perf_counter()
    subprocess.run(argv, cwd=ROOT, env=env, capture_output=True, check=False)
    return time.perf_counter() - began


def main(rounds: int) -> None:
    """Measure and print."""
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for argv in COMMANDS.values():  # byte-compile, and fill the disk cache
        seconds(argv, env)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(rounds):
        for name, argv in COMMANDS.items():
            taken[name].append(seconds(argv, env))
    unit = statistics.median(taken["python -c pass"])
    print(f"{rounds} rounds, every command once a round; median, and ratio to `python -c pass`")
    for name, times in taken.items():
        median = statistics.median(times)
        goal = f"   goal {GOALS[name]:.0f}x" if name in GOALS else ""
        print(f"{name:32} {median * 1000:7.0f} ms {median / unit:6.1f}x{goal}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
