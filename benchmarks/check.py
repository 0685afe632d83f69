"""`rlaunch check` of 400 recipes in one process.

    .venv/bin/python benchmarks/check.py [CLUSTER…]

The saved recipes, copied until there are 400, judged without a cluster and for each one named (default:
`local`). Prints seconds by the clock and of the processor, which differ on a machine with other work;
never fails on time.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOAL_S = 10.0
COUNT = 400
PLACES = (
    ROOT.parent / "shared" / "recipes",
    ROOT / "shared" / "recipes",
    ROOT / "docs" / "recipes",
)
RLAUNCH = str(Path(sys.executable).with_name("rlaunch"))


def copies(folder: Path) -> list[str]:
    """Return 400 recipes in `folder`, made of those that are saved."""
    saved = next(found for place in PLACES if (found := sorted(place.glob("*.yaml"))))
    made = []
    for number, path in enumerate(islice(cycle(saved), COUNT)):
        made.append(str(folder / f"{number:03}-{path.name}"))
        shutil.copyfile(path, made[-1])
    return made


def measure(paths: list[str], cluster: str) -> tuple[float, float]:
    """Return the seconds from the start of the command to its end, by the clock and of the processor."""
    before = processor()
    words = ["check", "--json", *(["--cluster", cluster] if cluster else []), *paths]
    began = time.monotonic()
    done = subprocess.run(
        [RLAUNCH, *words], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False
    )
    took = time.monotonic() - began
    if done.returncode not in (0, 3):
        raise SystemExit(done.stderr.decode("utf-8", "replace"))
    return took, processor() - before


def processor() -> float:
    """Return the processor's seconds of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Print one line for each question."""
    with tempfile.TemporaryDirectory(prefix="rlaunch-bench-") as folder:
        paths = copies(Path(folder))
        for cluster in ("", *(sys.argv[1:] or ["local"])):
            took, used = measure(paths, cluster)
            name = f"check --cluster {cluster}" if cluster else "check"
            verdict = "ok" if took <= GOAL_S else f"over the goal of {GOAL_S:g} s"
            print(f"{name:32} {COUNT} recipes {took:6.2f} s, processor {used:6.2f} s  {verdict}")


if __name__ == "__main__":
    main()
