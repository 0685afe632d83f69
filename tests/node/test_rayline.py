"""Ports and the command line of Ray."""

from __future__ import annotations

import json
import platform
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from rlaunch.node.flags import PORT_NAMES, parse_agent_flags
from rlaunch.node.limits import Memory
from rlaunch.node.ports import HIGHEST, LOWEST, claim_ports
from rlaunch.node.rayline import build_ray_command, find_package, read_versions
from rlaunch.node.reasons import Ending

from .test_flags import NEEDED

IP = "127.7.7.7"
PINNED = {name: 20000 + index for index, name in enumerate(PORT_NAMES)}


def close(*ports: object) -> None:
    for claimed in ports:
        for end in (claimed.listener, claimed.holder):  # type: ignore[attr-defined]
            if end is not None:
                end.close()


def command(*words: str, head: str = "", client: bool = False) -> list[str]:
    flags = parse_agent_flags([*NEEDED, *words, "--", "python"])
    ports = claim_ports({}, ip=IP, width=32, head=True)
    close(ports)
    memory = Memory(flags.memory, flags.object_store_memory)
    return build_ray_command(flags, ports, memory, head=head, temp="/t", client=client)


def test_every_port_comes_from_one_block_of_its_own() -> None:
    """Two agents of one host never share a port, and no port is the kernel's to give away."""
    first = claim_ports({}, ip=IP, width=64, head=True)
    second = claim_ports({}, ip="127.7.7.8", width=64, head=True)
    try:
        numbers = [*first.numbers.values(), *second.numbers.values()]
        assert len(set(numbers)) == len(numbers)
        assert all(LOWEST <= number < HIGHEST for number in numbers)
        assert set(PORT_NAMES) <= set(first.numbers)
        spans = [range(p.numbers["agent"], p.numbers["max-worker"] + 1) for p in (first, second)]
        assert not set(spans[0]) & set(spans[1])
    finally:
        close(first, second)


def test_pinned_ports_are_taken_as_they_are() -> None:
    """Nothing is probed where everything is pinned, and one pin leaves the others free."""
    worker = claim_ports(PINNED, ip=IP, width=64, head=False)
    assert worker.numbers == PINNED
    assert worker.listener is None
    one = claim_ports({"gcs": 6379}, ip=IP, width=64, head=True)
    try:
        assert one.numbers["gcs"] == 6379
        assert one.numbers["node-manager"] >= LOWEST
    finally:
        close(one)


def test_busy_agent_port_is_named() -> None:
    """A pinned port that somebody has ends the attempt with its number."""
    with socket.socket() as other:
        other.bind((IP, 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(Ending) as caught:
            claim_ports({**PINNED, "agent": port}, ip=IP, width=64, head=True)
    assert caught.value.outcome.reason == "ray-failed"
    assert str(port) in caught.value.outcome.detail


def test_busy_port_inside_a_block_passes_the_block_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """A block with one port in use is not taken; where no other is left, that is said."""
    with socket.socket() as other:
        other.bind((IP, 0))
        port = other.getsockname()[1]
        monkeypatch.setattr("rlaunch.node.ports.LOWEST", port - 5)
        monkeypatch.setattr("rlaunch.node.ports.HIGHEST", port + 28)
        with pytest.raises(Ending, match="ray-failed"):
            claim_ports({}, ip=IP, width=32, head=True)


def test_head_and_worker_pin_every_port() -> None:
    """No port is left to chance on either side, and neither says 127.0.0.1."""
    for argv in (command(), command(head="10.0.0.1:6379")):
        assert argv[:5] == [sys.executable, "-m", "ray.scripts.scripts", "start", "--block"]
        given = {word.split("=")[0] for word in argv}
        for name in PORT_NAMES:
            if name not in ("gcs", "agent"):
                assert f"--{name}-port" in given
        assert "--node-ip-address=127.3.3.1" in argv
        assert "--disable-usage-stats" in argv
        assert not any("127.0.0.1" in word for word in argv)


def test_head_has_what_only_a_head_may_have() -> None:
    """Ray refuses a head's flags on a worker: port, dashboard and the spill configuration."""
    spill = ("--spill-dir", "/big/spill")
    head, worker = command(*spill), command(*spill, head="10.0.0.1:6379")
    only_head = {"--head", "--port", "--include-dashboard", "--dashboard-port", "--system-config"}
    assert only_head <= {word.split("=")[0] for word in head}
    assert not only_head & {word.split("=")[0] for word in worker}
    assert "--address=10.0.0.1:6379" in worker
    config = next(word for word in head if word.startswith("--system-config="))
    outer = json.loads(config.partition("=")[2])
    inner = json.loads(outer["object_spilling_config"])
    assert inner == {"type": "filesystem", "params": {"directory_path": "/big/spill"}}


def test_spilling_to_a_store_uses_smart_open() -> None:
    """An URL as spill place goes through Ray's `smart_open` type."""
    config = next(word for word in command("--spill-dir", "s3://b/x") if "system-config" in word)
    inner = json.loads(json.loads(config.partition("=")[2])["object_spilling_config"])
    assert inner["type"] == "smart_open"
    assert inner["params"]["uri"] == "s3://b/x"


def test_client_server_gets_a_port_where_there_is_one() -> None:
    """Ray's client server has a fixed port, for which two heads on one host would fight."""
    assert any("ray-client-server-port" in word for word in command(client=True))
    assert not any("ray-client-server-port" in word for word in command())


def test_amounts_are_given_only_where_known() -> None:
    """What nobody said is left to Ray."""
    argv = command("--gpus", "8", "--cpus", "48", "--memory", "99", "--object-store-memory", "7")
    for word in ("--num-gpus=8", "--num-cpus=48", "--memory=99", "--object-store-memory=7"):
        assert word in argv
    assert not any("num-gpus" in word or "memory" in word for word in command())


def test_versions_are_read_without_importing_ray(tmp_path: Path) -> None:
    """The version stands in a file; a package that is first on the path is the one that counts."""
    versions = read_versions(())
    assert versions.python == platform.python_version()
    assert versions.ray.count(".") == 2
    fake = tmp_path / "ray"
    fake.mkdir()
    (fake / "__init__.py").write_text("")
    (fake / "_version.py").write_text('commit = "x"\nversion = "9.9.9"\n')
    assert read_versions([str(tmp_path)]).ray == "9.9.9"
    assert find_package("no_such_package", ()) == ""
    asked = (
        "import sys; from rlaunch.node.rayline import read_versions\n"
        "read_versions(()); print('ray' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
