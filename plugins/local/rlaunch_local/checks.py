"""Rules about a planned local run. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from rlaunch.codes import Code, rule
from rlaunch.model import Finding, Plan, Run

SOCKET_LIMIT = 107
"""Bytes of a unix socket's path (sun_path holds 108 with the final zero)."""
SESSION = 64
"""Bytes that Ray 2.60 appends: `/session_2026-12-01_10-00-00_000000_1234567/sockets/plasma_store`."""


@rule("local.long-path")
def sockets_fit(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ray's socket paths would be longer than 107 bytes.

    Ray makes unix sockets below its temporary directory; the kernel takes paths of at most 107 bytes
    and Ray dies with an assertion. `--set temp_root=/tmp` is short enough.
    """
    temp = f"{plan.native['ray_temp']}/{run.max_retries + 1}"
    if (length := len(temp.encode()) + SESSION) > SOCKET_LIMIT:
        yield Finding(
            "error",
            "local.long-path",
            f"Ray's sockets below `{temp}` would have paths of {length} bytes, "
            f"{length - SOCKET_LIMIT} too many",
            "temp_root",
            "`--set temp_root=/tmp`",
        )


@rule("local.pretended-gpus", level="note")
def gpus_are_pretended(run: Run, plan: Plan) -> Iterable[Finding]:
    """The GPUs of this run are pretended.

    Ray gets them as a resource and places by them, so a cluster's recipe plans unchanged; no process
    finds a GPU behind the number, unless the machine has some. The toy trainer needs none.
    """
    if run.gpus_per_node and not plan.observed.facts.get("gpus"):
        yield Finding(
            "note",
            "local.pretended-gpus",
            f"{run.nodes} × {run.gpus_per_node} GPUs are pretended: this machine was seen to have none",
            "gpus_per_node",
            "`--gpus_per_node 0` for none",
        )


RULES = (sockets_fit, gpus_are_pretended)
CODES: tuple[Code, ...] = tuple(r.code for r in RULES)  # type: ignore[attr-defined]  # set by @rule
