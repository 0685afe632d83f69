"""`diagnose` looks for every known line in a long log.

    .venv/bin/python benchmarks/logscan.py [MB]

All patterns over a log of so many megabytes (default 20) that has none of them, as a ratio to plain looks
for the same literals through the same text. Prints both; never fails on time. Goal: 4 x.
"""

from __future__ import annotations

import sys
import time

from rlaunch.logscan import literals, search
from rlaunch.model import LogLine
from rlaunch.skyrl.signatures import SIGNATURES

GOAL = 4.0
TEXT = (
    "(AsyncVLLMInferenceEngine pid=88, ip=10.0.4.15) some words of a rollout that says nothing " * 2
)


def main() -> None:
    """Print the two times and their ratio, best of three."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    lines = [LogLine(TEXT, 0, 0)] * (megabytes * 1_000_000 // len(TEXT))
    whole = "\n".join(line.text for line in lines)
    patterns = [signature.pattern for signature in SIGNATURES]
    plain, ours = [], []
    for _ in range(3):
        began = time.perf_counter()
        for pattern in patterns:
            for literal in literals(pattern):
                whole.find(literal)
        middle = time.perf_counter()
        list(search(lines, patterns))
        plain.append(middle - began)
        ours.append(time.perf_counter() - middle)
    ratio = min(ours) / min(plain)
    print(
        f"{megabytes} MB, {len(patterns)} patterns: plain {min(plain):.2f} s, ours {min(ours):.2f} s"
    )
    print(f"{ratio:.1f}x   goal {GOAL:g}x")


if __name__ == "__main__":
    main()
