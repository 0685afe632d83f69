"""The task on the node: address, memory, proxy, the agent's command line, named refusals."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlaunch.model import Plan, Run
from rlaunch_slurm_jupiter import task

IB = ("ib0", "10.128.4.7")
ETH = ("eth0", "172.16.0.7")
LO = ("lo", "127.0.0.1")


def test_the_wanted_interface_gives_the_address() -> None:
    """The first name of the profile that the node has decides, with `*` for any ending."""
    assert task.choose_address(["hsn*", "ib0"], [LO, ETH, IB], "172.16.0.7", 2) == IB[1]
    assert task.choose_address(["ib*"], [LO, ETH, IB], None, 2) == IB[1]


def test_without_a_wish_the_nodes_name_decides() -> None:
    """The address of the node's name is used, unless it is a loopback address."""
    assert task.choose_address([], [LO, ETH, IB], IB[1], 2) == IB[1]
    assert task.choose_address([], [LO, ETH], "127.0.1.1", 2) == ETH[1]


def test_several_nodes_never_meet_on_loopback() -> None:
    """Two nodes that would both say 127.x are refused with what the node has."""
    with pytest.raises(
        task.Refusal, match=r"ib0; this node has lo 127\.0\.0\.1, eth0 172\.16\.0\.7"
    ):
        task.choose_address(["ib0"], [LO, ETH], None, 2)
    with pytest.raises(task.Refusal):
        task.choose_address([], [LO], "127.0.77.1", 2)


def test_one_node_may_use_loopback_but_not_127_0_0_1() -> None:
    """Ray replaces 127.0.0.1, so that a lone node without a network gets another loopback address."""
    assert task.choose_address([], [LO], "127.0.77.1", 1) == "127.0.77.1"
    assert task.choose_address(["ib0"], [LO], None, 1) == "127.0.0.2"


@pytest.mark.parametrize(
    ("environ", "asked", "wanted"),
    [
        ({"SLURM_MEM_PER_NODE": "1000"}, 5, 1000 << 20),
        ({"SLURM_MEM_PER_NODE": "0"}, 5, 5),
        ({"SLURM_MEM_PER_CPU": "100", "SLURM_CPUS_ON_NODE": "4"}, None, 400 << 20),
        ({}, None, 2048 * 1024),
        ({"SLURM_MEM_PER_NODE": "rubbish"}, None, 2048 * 1024),
    ],
)
def test_memory_is_the_jobs(environ: dict[str, str], asked: int | None, wanted: int) -> None:
    """SLURM's limit counts first, then what was asked for, then the node's memory."""
    assert task.node_memory(environ, asked, "MemTotal:    2048 kB\n") == wanted
    assert task.node_memory({}, None, "") is None


@given(st.integers(1 << 27, 1 << 42), st.integers(0, 1 << 36), st.integers(1 << 26, 1 << 37))
def test_ray_never_promises_more_than_the_job_has(limit: int, reserve: int, store: int) -> None:
    """Something is left to others, the object store is an eighth at most, and never under Ray's floor."""
    usable, plasma = task.ray_memory(limit, reserve, store)
    assert limit // 2 <= usable <= limit - limit // 20 + 1
    assert plasma == max(min(store, usable // 8), 80 << 20)


def test_jupiters_numbers() -> None:
    """480 GiB less 32 GiB, and an object store of 40 GiB."""
    assert task.ray_memory(480 << 30, 32 << 30, 40 << 30) == (448 << 30, 40 << 30)


class Proxy:
    """A SOCKS5 proxy that answers with the bytes it was given, one connection at a time."""

    def __init__(self, answers: list[bytes]) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.heard: list[bytes] = []
        self._answers = answers
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            with client:
                for answer in self._answers:
                    self.heard.append(client.recv(512))
                    client.sendall(answer)


@pytest.fixture
def proxy() -> Iterator[Callable[..., Proxy]]:
    """Start proxies on loopback; they are gone after the test."""
    made: list[Proxy] = []

    def start(*answers: bytes) -> Proxy:
        made.append(Proxy(list(answers)))
        return made[-1]

    yield start
    for one in made:
        one.server.close()


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ((b"\x05\xff",), "no SOCKS5 proxy"),
        ((b"\x05\x00", b"\x05\x05\x00\x01\0\0\0\0\0\0"), "the proxy answered 5"),
        ((), "closed the connection|reset|Broken pipe"),
        ((b"\x05\x00", b"\x05\x00\x00\x01\x7f\0\0\1\0\x50"), "SSL|EOF|reset|closed|ssl"),
    ],
)
def test_a_dead_way_out_has_a_name(
    proxy: Callable[..., Proxy], answers: tuple[bytes, ...], said: str
) -> None:
    """A proxy that refuses, hangs up or lies about TLS ends the task with `tunnel-dead` and the cause."""
    one = proxy(*answers)
    with pytest.raises(task.Refusal, match=said) as refusal:
        task.check_proxy(f"127.0.0.1:{one.port}", "example.org:443", 0.1)
    assert refusal.value.reason == "tunnel-dead"
    if len(answers) > 1:
        assert b"example.org" in one.heard[1], "the proxy resolves the name, not the node"


def test_a_wrapper_that_does_not_wrap(proxy: Callable[..., Proxy]) -> None:
    """What the driver will do is tried too: a plain connection that leads nowhere is `tunnel-dead`."""
    probe = f"127.0.0.1:{proxy().port}"
    with pytest.raises(task.Refusal, match=f"{probe} cannot be reached by a wrapped program"):
        task.check_wrapper(probe, 0.1)


def test_nobody_at_the_proxys_port(proxy: Callable[..., Proxy]) -> None:
    """Without a proxy at all the refusal names it."""
    one = proxy()
    one.server.close()
    with pytest.raises(task.Refusal, match=str(one.port)):
        task.check_proxy(f"127.0.0.1:{one.port}", "example.org:443", 0.1)


def write_task(folder: Path, plan: Plan, **changes: object) -> Path:
    """Write the plan's task file with an agent that prints what it was given."""
    body = json.loads(next(f.content for f in plan.files if f.path == "task.json"))
    body |= {"rendezvous": f"{folder}/rdv", "logs": f"{folder}/logs", "work": f"{folder}/work"}
    agent = folder / "rlaunch-node.pyz"
    agent.write_text("import json, sys; print(json.dumps(sys.argv[1:]))")
    body["agent"][0] = str(agent)
    (folder / "attempts" / "1").mkdir(parents=True)
    path = folder / "task.json"
    path.write_text(json.dumps({**body, **changes}))
    return path


def start_task(path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the task as srun would."""
    env = {"PATH": os.environ["PATH"], "SLURM_NTASKS": "2", "SLURM_PROCID": "0", **environ}
    words = [sys.executable, task.__file__, str(path), "1"]
    return subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_the_task_becomes_the_agent(
    tmp_path: Path, plan_of: Callable[..., Plan], run_on: Callable[..., Run]
) -> None:
    """The agent gets rank, attempt, address and memory of this node, and the driver's words unchanged."""
    plan = plan_of(run_on(tunnel=None, interfaces=[]))
    path = write_task(tmp_path, plan, nodes=1)
    done = start_task(path, SLURM_NTASKS="1", SLURM_MEM_PER_NODE="100000")
    assert done.returncode == 0, done.stdout + done.stderr
    argv = json.loads(done.stdout.splitlines()[-1])
    assert tuple(argv[argv.index("--") + 1 :]) == plan.command.argv
    own = dict(zip(argv[1::2], argv[2::2], strict=False))
    assert (own["--rank"], own["--attempt"], own["--nodes"]) == ("0", "1", "2")
    assert own["--log-file"] == f"{tmp_path}/logs/1/0.log"
    assert int(own["--memory"]) == (100000 << 20) - (32 << 30)
    assert own["--node-ip"] not in ("127.0.0.1", "")
    pid = (tmp_path / "attempts" / "1" / "head.pid").read_text()
    assert pid.isdigit(), "the batch script finds rank 0's agent by this"


def test_a_refusal_is_a_record_of_the_rank(
    tmp_path: Path, plan_of: Callable[..., Plan], run_on: Callable[..., Run]
) -> None:
    """A node without the wanted interface says so in the rendezvous, as an agent would, and exits 86."""
    path = write_task(tmp_path, plan_of(run_on(tunnel=None, interfaces=["none9"])))
    done = start_task(path, SLURM_PROCID="1", SLURMD_NODENAME="n2")
    assert done.returncode == task.CODES["no-address"]
    record = json.loads((tmp_path / "rdv" / "ranks" / "1" / "1.json").read_text())
    assert (record["run"], record["attempt"], record["rank"]) == ("rl-0a1b2c3d", 1, 1)
    assert (record["phase"], record["reason"], record["node"]) == ("ended", "no-address", "n2")
    assert "none9" in record["detail"]


def test_another_number_of_tasks_is_refused(
    tmp_path: Path, plan_of: Callable[..., Plan], run_on: Callable[..., Run]
) -> None:
    """An allocation of another size than the gang is an error with both numbers."""
    path = write_task(tmp_path, plan_of(run_on(tunnel=None)))
    done = start_task(path, SLURM_NTASKS="3")
    assert done.returncode == task.CODES["wrong-shape"]
    assert "3 tasks for a gang of 2" in done.stdout
