"""Acme: one machine behind the batch queue `queue`."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from rlaunch import Cluster, Code, Finding, Plan, Run, hookimpl, rule

PROFILES = {"acme": Path(__file__).parent / "acme.yaml"}
DEFAULT_PROFILE = "acme"
CODES = (
    Code("acme.queue-failed", "The queue did not do what it was asked.\n\nIts own words follow."),
    Code(
        "acme.queue-rubbish",
        "The queue's answer has another form than it should.\n\n"
        "Nothing is guessed from it. `queue show ID` by hand tells more.",
    ),
)


@hookimpl
def rlaunch_cluster() -> type[Cluster]:
    """Return the cluster class."""
    from rlaunch_acme.cluster import Acme

    return Acme


@rule("acme.one-node")
def one_node(run: Run, plan: Plan) -> Iterable[Finding]:
    """The queue starts one process, on one node.

    A gang would need a process on each node. Ask for one node.
    """
    if run.nodes > 1:
        yield Finding(
            "error",
            "acme.one-node",
            f"`acme` has one node, and the run wants {run.nodes}",
            "--num-nodes",
            "`--num-nodes 1`",
        )


RULES = (one_node,)


@hookimpl
def rlaunch_check(run: Run, plan: Plan) -> Iterable[Finding]:
    """Ask the rules."""
    for check in RULES:
        yield from check(run, plan)
