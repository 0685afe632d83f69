"""Whole gangs with a real Ray on this machine: what succeeds, and what ends them."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from rlaunch.node.children import find_marked, read_stat

from .gangs import Gang, Member

MakeGang = Callable[[int], Gang]

DRIVER = """
import json, os, sys
import ray
ray.init(logging_level="ERROR")
assert len([node for node in ray.nodes() if node["Alive"]]) == int(os.environ["RLAUNCH_NODES"])

@ray.remote(num_cpus=1, scheduling_strategy="SPREAD")
def look():
    import time
    time.sleep(1)
    names = ("RLAUNCH_RUN_ID", "RLAUNCH_ATTEMPT", "PLAIN", "HARD", "SECRET")
    return ray.util.get_node_ip_address(), {name: os.environ.get(name) for name in names}

print("SEEN", json.dumps(ray.get([look.remote() for _ in range(int(os.environ["RLAUNCH_NODES"]))])))
print("SELF", json.dumps([sys.argv[1:], os.getcwd(), os.environ["RAY_ADDRESS"]]))
sys.exit(int(os.environ.get("EXIT", "0")))
"""
SLEEPER = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
HARD = "a b,c=$HOME 'q\" 李\nl2"


def start_all(gang: Gang, *more: str, driver: Sequence[str], **options: object) -> list[Member]:
    """Start every rank with the same flags."""
    return [gang.start(rank, *more, driver=driver, **options) for rank in range(gang.nodes)]  # type: ignore[arg-type]


def codes(members: Sequence[Member], timeout: float = 200) -> list[int]:
    """Return the exit codes of all."""
    return [member.wait(timeout) for member in members]


def run_until_driver(gang: Gang, *more: str, **options: object) -> list[Member]:
    """Start a gang whose driver sleeps, and wait until it runs."""
    members = start_all(gang, *more, driver=SLEEPER, **options)
    gang.wait_for(lambda: " up\n" in gang.log(0), 200)
    return members


@pytest.mark.gang
def test_two_nodes_form_run_and_leave_nothing(make_gang: MakeGang, tmp_path: Path) -> None:
    """The driver sees both nodes, every process gets the environment unchanged, and all ends with 0."""
    gang = make_gang(2)
    env, hidden = tmp_path / "env.json", tmp_path / "secrets.json"
    env.write_text(json.dumps({"PLAIN": "1", "HARD": HARD}))
    hidden.write_text(json.dumps({"SECRET": "s3cr3t-канарейка"}))
    staged = {"staged": [{"name": "d", "path": "/d", "count": 3}]}
    stage = json.dumps([sys.executable, "-c", f"print({json.dumps(staged)!r})"])
    members = start_all(
        gang,
        *("--env-file", str(env), "--secrets-file", str(hidden), "--cwd", str(tmp_path)),
        *("--stage", stage),
        driver=(sys.executable, "-c", DRIVER, "--x=[1,2]", "a b"),
        env={"RAY_ADDRESS": "10.0.0.1:6379", "RAY_NAMESPACE": "another"},
    )
    assert codes(members) == [0, 0], gang.log(0) + gang.log(1)
    log = gang.log(0)
    seen = json.loads(log.split("SEEN ")[1].splitlines()[0])
    assert {ip for ip, _ in seen} == {f"{gang.net}.1", f"{gang.net}.2"}
    expected = {"RLAUNCH_RUN_ID": gang.run, "RLAUNCH_ATTEMPT": "1", "PLAIN": "1", "HARD": HARD}
    assert [values for _, values in seen] == [{**expected, "SECRET": "s3cr3t-канарейка"}] * 2
    arguments, cwd, address = json.loads(log.split("SELF ")[1].splitlines()[0])
    assert arguments == ["--x=[1,2]", "a b"]
    assert cwd == str(tmp_path)
    assert address == f"{gang.net}.1:{gang.read('ray_head.json')['port']}"
    for line in (
        "Staging train_data on this node (rank 0/2)",
        "train_data staged to node-local paths: ['/d']",
        "Ray nodes alive: 2/2",
        "All 2 Ray node(s) joined.",
        "Launching the training driver",
    ):
        assert line in log
    assert gang.done["outcome"] == "succeeded"
    assert gang.done["exit_code"] == 0
    assert [gang.rank(rank)["phase"] for rank in (0, 1)] == ["ended", "ended"]
    assert "s3cr3t" not in log.replace(log.split("SEEN ")[1].splitlines()[0], "")
    assert gang.left() == []


@pytest.mark.e2e
def test_one_node_takes_the_same_path_and_keeps_the_drivers_code(make_gang: MakeGang) -> None:
    """A single node forms a gang of one; its driver's 7 is the agent's 7."""
    gang = make_gang(1)
    driver = (sys.executable, "-c", DRIVER)
    members = start_all(gang, driver=driver, env={"EXIT": "7"})
    assert codes(members) == [7], gang.log(0)
    assert "Ray nodes alive: 1/1" in gang.log(0)
    done = gang.done
    assert (done["outcome"], done["reason"], done["exit_code"]) == ("failed", "driver-exit", 7)
    assert gang.left() == []


@pytest.mark.e2e
def test_exit_7_is_7_on_both_nodes(make_gang: MakeGang) -> None:
    """Workers end with the driver's code, and what the driver left behind is gone."""
    gang = make_gang(2)
    child = "import subprocess, sys; subprocess.Popen(['sleep', '600'], start_new_session=True)"
    members = start_all(gang, driver=(sys.executable, "-c", f"{child}; sys.exit(7)"))
    assert codes(members) == [7, 7]
    assert gang.done["exit_code"] == 7
    assert gang.rank(1)["exit_code"] == 7
    assert gang.left() == []


@pytest.mark.e2e
def test_driver_killed_by_a_signal_is_128_and_the_signal(make_gang: MakeGang) -> None:
    """A driver that dies of SIGKILL ends the gang with 137 and says so."""
    gang = make_gang(1)
    suicide = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert codes(start_all(gang, driver=(sys.executable, "-c", suicide))) == [137]
    done = gang.done
    assert (done["reason"], done["signal"], done["exit_code"]) == ("driver-signal", 9, None)


@pytest.mark.e2e
def test_silent_driver_is_killed_with_124(make_gang: MakeGang) -> None:
    """A driver that prints nothing for the limit is ended, though it ignores SIGTERM."""
    gang = make_gang(1)
    mute = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"
    members = start_all(gang, "--liveness-timeout", "3", driver=(sys.executable, "-c", mute))
    assert codes(members) == [124]
    assert gang.done["reason"] == "driver-silent"
    assert gang.left() == []


@pytest.mark.e2e
def test_killed_head_ends_all(make_gang: MakeGang) -> None:
    """SIGKILL of rank 0's agent takes its Ray and driver along, and the worker ends with head-lost."""
    gang = make_gang(2)
    head, worker = run_until_driver(gang)
    head.signal(signal.SIGKILL)
    assert worker.wait(30) == 67
    assert gang.rank(1)["reason"] == "head-lost"
    gang.wait_for(lambda: gang.left() == [], 20)


@pytest.mark.e2e
def test_killed_worker_ends_all(make_gang: MakeGang) -> None:
    """SIGKILL of a worker's agent takes its Ray along; rank 0 ends the driver and names the rank."""
    gang = make_gang(2)
    head, worker = run_until_driver(gang)
    worker.signal(signal.SIGKILL)
    assert head.wait(40) == 68
    assert gang.done["reason"] == "worker-lost"
    assert "rank 1" in gang.done["detail"]
    gang.wait_for(lambda: gang.left() == [], 20)


SAVER = """
import signal, sys, time
def save(*_):
    print("SAVED", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(600)
"""


@pytest.mark.e2e
def test_terminated_head_lets_the_driver_save_and_is_gone_within_the_grace(
    make_gang: MakeGang,
) -> None:
    """SIGTERM reaches the driver, whose 0 does not make a success; nothing lives after 4 s."""
    gang = make_gang(2)
    members = start_all(gang, driver=(sys.executable, "-c", SAVER))
    gang.wait_for(lambda: " up\n" in gang.log(0), 200)
    began = time.monotonic()
    members[0].signal(signal.SIGTERM)
    assert members[0].wait(10) == 143
    assert time.monotonic() - began < 4.5
    assert members[1].wait(10) == 143
    assert "SAVED" in gang.log(0)
    assert gang.done["reason"] == "terminated"
    assert gang.read("term/1/0.json")["samples"][-1]["largest"]
    gang.wait_for(lambda: gang.left() == [], 5)


@pytest.mark.e2e
def test_terminated_worker_ends_all(make_gang: MakeGang) -> None:
    """SIGTERM of one worker ends the gang, naming rank and signal."""
    gang = make_gang(2)
    head, worker = run_until_driver(gang)
    worker.signal(signal.SIGTERM)
    assert worker.wait(10) == 143
    assert head.wait(10) == 68
    assert "signal 15" in gang.done["detail"]
    gang.wait_for(lambda: gang.left() == [], 5)


@pytest.mark.e2e
def test_rank_that_never_starts_is_named(make_gang: MakeGang) -> None:
    """After the join time-out rank 0 says how many came and who is missing."""
    gang = make_gang(2)
    head = gang.start(0, "--join-timeout", "12", "--rendezvous-timeout", "8")
    assert head.wait(90) == 66
    assert gang.done["reason"] == "rank-missing"
    assert "missing rank 1 (never heard of)" in gang.done["detail"]
    assert "/2 Ray nodes joined" in gang.done["detail"]
    assert gang.left() == []


@pytest.mark.e2e
def test_ray_that_dies_in_the_run_is_ray_failed(make_gang: MakeGang) -> None:
    """Where a worker's raylet is killed, that rank says `ray-failed` with Ray's last words."""
    gang = make_gang(2)
    head, worker = run_until_driver(gang)
    marks = {"RLAUNCH_RUN_ID": gang.run, "RLAUNCH_RANK": "1"}
    raylets = [
        pid
        for pid in find_marked(marks)
        if read_stat(pid) and Path(f"/proc/{pid}/comm").read_text().strip() == "raylet"
    ]
    assert len(raylets) == 1
    os.kill(raylets[0], signal.SIGKILL)
    assert head.wait(40) in (68, 69)
    assert worker.wait(40) in (68, 69)
    assert gang.done["reason"] == "ray-failed"
    assert "rank 1" in gang.done["detail"]
    assert any((gang.root / "work-1" / "ray-logs" / "1" / "1").iterdir())


@pytest.mark.e2e
def test_supervisor_that_dies_takes_the_gang_along(make_gang: MakeGang) -> None:
    """The end of the lifeline ends agents, Ray and driver within ten seconds."""
    gang = make_gang(2)
    members = run_until_driver(gang, lifeline=True)
    began = time.monotonic()
    for member in members:
        member.cut()
    assert codes(members, 15) == [71, 71]
    assert time.monotonic() - began < 10
    assert gang.done["reason"] == "supervisor-lost"
    gang.wait_for(lambda: gang.left() == [], 5)


@pytest.mark.e2e
def test_retry_in_the_same_directory_succeeds(make_gang: MakeGang) -> None:
    """A second attempt over the leavings of a failed first one forms its own gang and succeeds."""
    gang = make_gang(2)
    assert codes(start_all(gang, driver=("false",))) == [1, 1]
    again = [gang.start(rank, attempt=2) for rank in (1, 0)]
    assert codes(again) == [0, 0], gang.log(1, 2)
    assert gang.done["attempt"] == 2
    assert gang.done["outcome"] == "succeeded"


@pytest.mark.e2e
def test_two_runs_at_once_do_not_meet(make_gang: MakeGang) -> None:
    """Two gangs on one machine at the same time have their own ports and nodes."""
    gangs = [make_gang(1), make_gang(1)]
    members = [gang.start(0, driver=(sys.executable, "-c", DRIVER)) for gang in gangs]
    assert codes(members) == [0, 0], gangs[0].log(0) + gangs[1].log(0)
    ports = [gang.read("ray_head.json")["port"] for gang in gangs]
    assert ports[0] != ports[1]
