"""Ports of one node: pinned ones as given, the others from a block that is free now and stays ours.

Ray draws unpinned ports at random from its workers' range and then refuses to start when two fall together
(three fixes of the older launcher failed). Blocks lie below the kernel's ephemeral range, and the agent
keeps the first port of its block bound as long as it lives, so that two agents of one host never take one.
"""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from typing import NamedTuple

from .reasons import RAY_FAILED, Ending, fail

LOWEST, HIGHEST = 10_240, 32_512
FIXED = (
    "hold",
    "agent",
    "gcs",
    "node-manager",
    "object-manager",
    "metrics-export",
    "runtime-env-agent",
    "dashboard-agent-grpc",
    "dashboard-agent-listen",
    "client",
    "dashboard",
)
"""The first ports of a block, in this order; workers have the rest."""


class Ports(NamedTuple):
    """The ports of a node, the agent's listening socket, and the one that keeps the block."""

    numbers: Mapping[str, int]
    listener: socket.socket | None
    """Of rank 0's agent only."""
    holder: socket.socket | None = None


def claim_ports(given: Mapping[str, int], *, ip: str, width: int, head: bool) -> Ports:
    """Take the given ports as they are and the others from a free block of `width` ports.

    Raises `Ending` with reason `ray-failed` where the agent's port is taken or no block is free.
    """
    if set(FIXED[1:9]) | {"min-worker"} <= set(given):
        return Ports(dict(given), _listen(ip, given["agent"]) if head else None)
    starts = list(range(LOWEST, HIGHEST - width, width))
    random.SystemRandom().shuffle(starts)
    for start in starts:
        holder = _bind(start)
        if holder is None:
            continue
        if all(_is_free(port) for port in range(start + 1, start + width)):
            numbers = {**_number(start, width), **given}
            return Ports(numbers, _listen(ip, numbers["agent"]) if head else None, holder)
        holder.close()
    raise Ending(fail(RAY_FAILED, f"no {width} free ports in a row from {LOWEST} to {HIGHEST}"))


def _number(start: int, width: int) -> dict[str, int]:
    block = {name: start + index for index, name in enumerate(FIXED)}
    return {**block, "min-worker": start + len(FIXED), "max-worker": start + width - 1}


def _listen(ip: str, port: int) -> socket.socket:
    try:
        return _open(ip, port)
    except OSError as error:
        raise Ending(fail(RAY_FAILED, f"port {port} of {ip}: {error.strerror}")) from error


def _open(ip: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(
            socket.SOL_SOCKET, socket.SO_REUSEADDR, 1
        )  # a pinned port after a retry
        listener.bind((ip, port))
        listener.listen(256)
    except OSError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _bind(port: int) -> socket.socket | None:
    """Bind on all addresses: Ray's servers listen there, whatever the node's address. Never listens."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        holder.bind(("", port))
    except OSError:
        holder.close()
        return None
    return holder


def _is_free(port: int) -> bool:
    holder = _bind(port)
    if holder is None:
        return False
    holder.close()
    return True
