"""One task of the job, on its node: finds out what only the node knows, then becomes the node agent.

    PYTHON task.py TASK.json ATTEMPT [PROXY]

Standard library only, Python 3.10 or later. It ends with a named reason, written into the rank's record
of the rendezvous, where the node cannot run a rank.
"""

# pathlib costs start-up on every node; this prints, and becomes the agent
# ruff: noqa: PTH103, PTH105, PTH118, PTH120, PTH123, T201, S606
from __future__ import annotations

import fcntl
import fnmatch
import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

CODES = {"no-address": 86, "tunnel-dead": 84, "wrong-shape": 83, "bad-task": 87}
SIOCGIFADDR = 0x8915
MEBI = 1 << 20


class Refusal(Exception):  # noqa: N818  # not an error of the program: the node cannot run a rank
    """Why this node cannot run its rank."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def addresses() -> list[tuple[str, str]]:
    """Return (interface, IPv4 address) of every interface that has one."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                packed = fcntl.ioctl(
                    probe.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15])
                )
            except OSError:
                continue
            found.append((name, socket.inet_ntoa(packed[20:24])))
    return found


def choose_address(
    wanted: list[str], seen: list[tuple[str, str]], named: str | None, nodes: int
) -> str:
    """Return the node's address: of the first wanted interface that is there, else of the node's name.

    Never 127.0.0.1, which Ray replaces; with more than one node never a loopback address.
    """
    if wanted:
        found = [ip for pattern in wanted for name, ip in seen if fnmatch.fnmatch(name, pattern)]
    else:
        found = [ip for ip in [named] if ip] + [ip for name, ip in seen if name != "lo"]
    usable = [ip for ip in found if ip != "127.0.0.1" and (nodes == 1 or not ip.startswith("127."))]
    if usable:
        return usable[0]
    if nodes == 1:
        return "127.0.0.2"
    have = ", ".join(f"{name} {ip}" for name, ip in seen) or "none"
    what = ", ".join(wanted) if wanted else f"the node's name ({named})"
    raise Refusal("no-address", f"no address of {what}; this node has {have}")


def named_address() -> str | None:
    """Return the address that the node's own name resolves to."""
    for name in (os.environ.get("SLURMD_NODENAME", ""), socket.gethostname()):
        try:
            return socket.gethostbyname(name) if name else None
        except OSError:
            continue
    return None


def node_memory(environ: dict[str, str], asked: int | None, meminfo: str) -> int | None:
    """Return the memory of the job on this node, in bytes: SLURM's limit, else what was asked, else all."""
    per_node = environ.get("SLURM_MEM_PER_NODE", "")
    if per_node.isdigit() and int(per_node) > 0:
        return int(per_node) * MEBI
    per_cpu = environ.get("SLURM_MEM_PER_CPU", "")
    cpus = environ.get("SLURM_CPUS_ON_NODE", "")
    if per_cpu.isdigit() and cpus.isdigit() and int(per_cpu) > 0:
        return int(per_cpu) * int(cpus) * MEBI
    if asked:
        return asked
    for line in meminfo.splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def ray_memory(limit: int, reserve: int, store: int) -> tuple[int, int]:
    """Return what Ray may promise, and its object store: the reserve (or a twentieth) is left to others."""
    usable = max(limit - max(reserve, limit // 20), limit // 2)
    return usable, max(min(store, usable // 8), 80 * MEBI)


def check_proxy(proxy: str, probe: str, timeout: float) -> None:
    """Reach `probe` through the SOCKS5 proxy and verify its certificate. Raises Refusal."""
    address, _, door = proxy.rpartition(":")

    def dial(host: str, port: int) -> socket.socket:
        raw = socket.create_connection((address, int(door)), timeout=5)
        try:
            connect_socks(raw, host, port)
        except BaseException:
            raw.close()
            raise
        return raw

    check_way(dial, f"through {proxy}", probe, timeout)


def check_wrapper(probe: str, timeout: float) -> None:
    """Reach `probe` as the driver will: a plain connection, which the wrapper takes. Raises Refusal.

    A container that has not the wrapper's library loses it without a word.
    """
    check_way(
        lambda host, port: socket.create_connection((host, port), timeout=5),
        "by a wrapped program", probe, timeout,
    )  # fmt: skip


def check_way(
    dial: Callable[[str, int], socket.socket], way: str, probe: str, timeout: float
) -> None:
    """Try a way out for so many seconds, and verify the certificate at its end. Raises Refusal."""
    import ssl  # only here: an image without a proxy need not have the libraries

    host, _, port = probe.rpartition(":")
    end = time.monotonic() + timeout
    while True:
        try:
            with (
                dial(host, int(port)) as raw,
                ssl.create_default_context().wrap_socket(raw, server_hostname=host),
            ):
                return
        except (OSError, ValueError) as error:
            said = str(error)
        if time.monotonic() > end:
            raise Refusal("tunnel-dead", f"{probe} cannot be reached {way}: {said}")
        time.sleep(1)


def connect_socks(raw: socket.socket, host: str, port: int) -> None:
    """Ask a SOCKS5 proxy for a connection. Raises OSError where it does not make one."""
    raw.sendall(b"\x05\x01\x00")
    if read(raw, 2) != b"\x05\x00":
        raise OSError("it is no SOCKS5 proxy without a password")
    name = host.encode("idna")
    raw.sendall(b"\x05\x01\x00\x03" + bytes([len(name)]) + name + struct.pack(">H", port))
    answer = read(raw, 4)
    if answer[1] != 0:
        raise OSError(f"the proxy answered {answer[1]}")
    length = {1: 4, 4: 16}.get(answer[3]) or read(raw, 1)[0]
    read(raw, length + 2)


def read(raw: socket.socket, count: int) -> bytes:
    """Read exactly so many bytes. Raises OSError at an early end."""
    data = b""
    while len(data) < count:
        piece = raw.recv(count - len(data))
        if not piece:
            raise OSError("the proxy closed the connection")
        data += piece
    return data


def agent_argv(
    task: dict[str, Any], attempt: str, rank: int, address: str, memory: tuple[int, int] | None
) -> list[str]:
    """Return the agent's whole command line."""
    argv = [sys.executable, *task["agent"], "--attempt", attempt, "--rank", str(rank)]
    argv += ["--node-ip", address, "--work-dir", f"{task['work']}/{rank}"]
    argv += ["--log-file", f"{task['logs']}/{attempt}/{rank}.log"]
    argv += ["--ray-temp", f"{task['temp']}-{attempt}-{rank}"]
    if memory:
        argv += ["--memory", str(memory[0]), "--object-store-memory", str(memory[1])]
    return [*argv, "--", *task["driver"]]


def record(task: dict[str, Any], attempt: str, rank: int, refusal: Refusal) -> None:
    """Write the rank's record, as the agent would, so that the missing rank has a reason."""
    folder = os.path.join(task["rendezvous"], "ranks", attempt)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    body = {
        "run": task["run"], "attempt": int(attempt), "rank": rank, "node": node_name(), "pid": os.getpid(),
        "phase": "ended", "at": stamp, "since": stamp, "exit_code": CODES[refusal.reason], "signal": None,
        "reason": refusal.reason, "detail": str(refusal),
    }  # fmt: skip
    os.makedirs(folder, exist_ok=True)
    aside = os.path.join(folder, f".{rank}.{os.getpid()}")
    with open(aside, "w", encoding="utf-8") as file:
        json.dump(body, file)
    os.replace(aside, os.path.join(folder, f"{rank}.json"))


def node_name() -> str:
    """Return SLURM's name of this node."""
    return os.environ.get("SLURMD_NODENAME") or socket.gethostname()


def prepare(task: dict[str, Any], attempt: str, rank: int, proxy: str) -> list[str]:
    """Look at the node and return the agent's command line. Raises Refusal."""
    tasks = int(os.environ.get("SLURM_NTASKS", "1"))
    if tasks != task["nodes"]:
        raise Refusal("wrong-shape", f"{tasks} tasks for a gang of {task['nodes']}")
    address = choose_address(task["interfaces"], addresses(), named_address(), tasks)
    if task["tunnel"]:
        check_proxy(proxy, task["tunnel"]["probe"], task["tunnel"]["timeout_s"])
        if task["tunnel"]["wrapped"]:
            check_wrapper(task["tunnel"]["probe"], task["tunnel"]["timeout_s"])
    for name in task["ip_variables"]:
        os.environ[name] = address
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            meminfo = file.read()
    except OSError:
        meminfo = ""
    limits = task["memory"]
    limit = node_memory(dict(os.environ), limits["asked"], meminfo)
    memory = ray_memory(limit, limits["reserve"], limits["store"]) if limit else None
    return agent_argv(task, attempt, rank, address, memory)


def main(words: list[str]) -> int:
    """Become the agent of this node; returns only where that cannot be."""
    path, attempt, *rest = words
    rank = int(os.environ.get("SLURM_PROCID", "0"))
    with open(path, encoding="utf-8") as file:
        task = json.load(file)
    mark = f"[rlaunch-slurm] rank={rank}/{task['nodes']} attempt={attempt}"
    try:
        argv = prepare(task, attempt, rank, rest[0] if rest else "")
    except Refusal as refusal:
        print(f"{mark} {refusal.reason}: {refusal}", flush=True)
        record(task, attempt, rank, refusal)
        return CODES[refusal.reason]
    for folder in (f"{task['work']}/{rank}", f"{task['logs']}/{attempt}"):
        os.makedirs(folder, exist_ok=True)
    if rank == 0:
        with open(
            os.path.join(os.path.dirname(path), "attempts", attempt, "head.pid"), "w"
        ) as file:
            file.write(str(os.getpid()))
    print(f"{mark} node={node_name()} address={argv[argv.index('--node-ip') + 1]}", flush=True)
    os.execv(argv[0], argv)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
