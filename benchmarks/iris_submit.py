"""What a submit through rlaunch costs beside the raw client's, on one real controller, side by side.

`python benchmarks/iris_submit.py [ROUNDS]` prints medians in milliseconds. Both sides send the same bundle to
the same local controller; the client is imported and the connection open on both. rlaunch does more: it packs
the workspace (kept from the first time on), tries the store, and looks whether the name is free.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from tests.conformance.test_iris import RealBench

import rlaunch_iris
from rlaunch import zipapps
from rlaunch.model import Command, Plan, Workspace
from rlaunch.shell import Shell
from rlaunch.testing.bench import Bench
from rlaunch.testing.kit import Kit, renamed
from rlaunch_iris import submit
from rlaunch_iris.observe import workspace


def make_plan(kit: Kit, bench: Bench) -> Plan:
    """Plan a job that ends at once."""
    run = renamed(kit.run)._replace(workspace=Workspace(str(bench.tmp / "workspace")))
    return kit.plan(run, Command((run.python, "-c", "")), kit.cluster.observe(run))


def measure(rounds: int) -> None:
    """Submit alternately with both."""
    with tempfile.TemporaryDirectory(prefix="rl-bench-") as folder:
        bench = RealBench(Path(folder))
        try:
            kit = Kit(rlaunch_iris, bench)
            adapter = kit.cluster.connect()  # type: ignore[attr-defined]  # of this plugin
            raw, ours, bundles = [], [], []
            for turn in range(rounds + 1):
                plan = make_plan(kit, bench)
                began = time.perf_counter()
                kit.submit(plan)
                if turn:  # the first one warms both sides up
                    ours.append(time.perf_counter() - began)
                began = time.perf_counter()
                workspace(plan.run, Shell())
                bundles.append(time.perf_counter() - began)
                plan = make_plan(kit, bench)
                place = Path(tempfile.mkdtemp(dir=folder))
                packed = submit.pack(plan, Shell(), lambda line: None)
                submit.write_bundle(
                    place, plan, packed.data, {n: zipapps.build(n) for n in zipapps.NAMES}
                )
                began = time.perf_counter()
                adapter.launch(plan.native["request"], {}, place)
                if turn:
                    raw.append(time.perf_counter() - began)
            report(raw, ours, bundles)
        finally:
            bench.close()


def report(raw: list[float], ours: list[float], bundles: list[float]) -> None:
    """Print medians and the ratio."""
    client, whole, bundle = (statistics.median(x) * 1000 for x in (raw, ours, bundles))
    print(f"raw client      {client:7.1f} ms  (min {min(raw) * 1000:.1f})")
    print(f"rlaunch         {whole:7.1f} ms  (min {min(ours) * 1000:.1f})")
    print(f"second bundle   {bundle:7.1f} ms")
    print(f"(rlaunch − bundle) / raw = {(whole - bundle) / client:.2f}, to be ≤ 1.3")


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
