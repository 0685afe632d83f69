"""What every rank of a gang on a real Iris controller gets, and a worker that dies when all is done."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.conformance.test_iris import RealBench

import rlaunch_iris
from rlaunch.cluster import LogQuery
from rlaunch.model import Command, State
from rlaunch.testing import probe
from rlaunch.testing.kit import CANARY, ENV, Kit, renamed, through_json

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]
STAGE = probe.SOURCE.replace("sys.exit(int(mode))", 'print(json.dumps({"staged": []}))')
LATE_KILL = """\
import os, subprocess, sys
me = os.environ["RLAUNCH_RUN_ID"]
hunter = '''
import os, signal, sys, time
run, delay = sys.argv[1], float(sys.argv[2])
time.sleep(delay)
for name in os.listdir("/proc"):
    try:
        words = open(f"/proc/{name}/cmdline", "rb").read().split(b"\\\\0")
    except OSError:
        continue
    if b"agent" in words and run.encode() in words and words[words.index(b"--rank") + 1] == b"1":
        os.kill(int(name), signal.SIGKILL)
'''
env = {k: v for k, v in os.environ.items() if not k.startswith("RLAUNCH_")}
if os.environ["RLAUNCH_ATTEMPT"] == "0":
    subprocess.Popen([sys.executable, "-c", hunter, me, sys.argv[1]], start_new_session=True, env=env)
"""
"""The driver: leaves somebody behind who kills rank 1's agent a moment later, and exits 0."""


@pytest.fixture(scope="module")
def kit(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kit]:
    """The plugin on a real controller."""
    bench = RealBench(tmp_path_factory.mktemp("ranks"))
    try:
        yield Kit(rlaunch_iris, bench)
    finally:
        bench.close()


def test_environment_of_every_rank(kit: Kit) -> None:
    """Values that shells and schedulers lose arrive once and unchanged in the process of every rank."""
    run = kit.with_canary(renamed(kit.run))
    run = run._replace(nodes=2, env={**run.env, **ENV})
    names = [*ENV, "KIT_CANARY"]
    stage = ("-c", STAGE, *probe.command("x", "0", names, ())[3:])
    command = Command(argv=(run.python, "-c", ""), stage=(run.python, *stage))
    ended = kit.run_to_end(through_json(kit.plan(run, command, kit.cluster.observe(run))))
    assert ended.status.state is State.SUCCEEDED, ended.lines[-20:]
    for rank in (0, 1):
        (told,) = probe.read(line.text for line in ended.lines if line.rank == rank)
        for name, value in {**ENV, "KIT_CANARY": CANARY}.items():
            assert told.env[name] == (probe.digest(value),), (
                f"rank {rank}: `{name}` arrived otherwise"
            )
    assert CANARY not in "".join(line.text for line in ended.lines)


@pytest.mark.parametrize("delay", ["0", "1.5"])
def test_worker_that_dies_at_the_end(kit: Kit, delay: str) -> None:
    """A head that exits 0 while a worker dies ends SUCCEEDED, now or as the next attempt, never in a wait."""
    run = renamed(kit.run)._replace(nodes=2, max_retries=1)
    command = Command(argv=(run.python, "-c", LATE_KILL, delay))
    ended = kit.run_to_end(through_json(kit.plan(run, command, kit.cluster.observe(run))))
    assert ended.status.state is State.SUCCEEDED, ended.status
    assert list(kit.cluster.logs(LogQuery(ended.ref, rank=0)))
