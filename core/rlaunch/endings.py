"""The named reasons of a state, each with what it means and what to do (`rlaunch explain REASON`).

Between most ends the node agent decides (`rlaunch.node.reasons`); its exit codes are in
`docs/reference/node-agent.md`. `rlaunch diagnose RUN` shows the lines behind one. Other words are a
cluster's: `rlaunch.scheduling`.
"""

from __future__ import annotations

from collections.abc import Mapping

from rlaunch import scheduling

AGENT: Mapping[str, str] = {
    "driver-exit": "The trainer ended by itself, with the exit code that is shown.\n\n"
    "Only 0 is a success. Otherwise its last lines say why: `rlaunch logs RUN --rank 0`, and\n"
    "`rlaunch diagnose RUN` for what rlaunch knows of them. The code is the trainer's own.",
    "driver-signal": "The trainer was killed by a signal, which is shown.\n\n"
    "9 is most often the kernel, out of memory: the termination record in the log has the node's\n"
    "memory. 11 and 6 are crashes of native code. 15 was sent by somebody: a scheduler or a person.",
    "driver-silent": "The trainer printed nothing for the whole liveness time.\n\n"
    "It hangs, or does something long without a word. The last lines of rank 0 say where it stood;\n"
    "a collective that waits for a dead rank is the usual cause.",
    "staging-failed": "Data or model could not be brought to a node.\n\n"
    "The detail names the dataset and the rank. A misspelt name, a missing `HF_TOKEN`, no way out to\n"
    "the hub or a full disk are the usual causes. The trainer was not started.",
    "rank-missing": "A node did not come to the gang in time.\n\n"
    "The detail names the rank and how far it was. Its own log says more: `rlaunch logs RUN --rank N`.\n"
    "An image that is still pulled, or a node that never started, are the usual causes.",
    "head-lost": "The agent of rank 0 is gone and left no word of how it ended.\n\n"
    "The node failed, or was taken away: preemption, a reboot, the kernel out of memory. The\n"
    "scheduler knows more of the node than the log. Launch again with `--resume auto`.",
    "worker-lost": "The agent of a worker is gone, or was told to end.\n\n"
    "The detail names the rank. As with `head-lost` the node is the first suspect; where the trainer\n"
    "had failed first, the exit code is the trainer's. Launch again with `--resume auto`.",
    "ray-failed": "Ray did not start, or died.\n\n"
    "The detail has its last lines. Ports in use, a full `/tmp` or `/dev/shm`, and two versions of Ray\n"
    "are the usual causes.",
    "store-failed": "The rendezvous directory took or gave nothing for too long.\n\n"
    "It is a shared file system or a bucket: look whether it is full, read-only, or out of reach of the\n"
    "nodes, and whether the job's credentials may write there. `--rendezvous-dir` names another.",
    "supervisor-lost": "Whoever supervised the node is gone, so the node ended itself.\n\n"
    "On `local` the supervisor process was killed or the machine restarted. Nothing of the run is\n"
    "left; launch again with `--resume auto`.",
    "terminated": "The node was told to end, with the signal that is shown.\n\n"
    "`rlaunch stop`, a wall limit and a preemption do that. After a wall limit or a preemption launch\n"
    "again with `--resume auto`, or let the cluster do it: `--max-retries`.",
    "version-mismatch": "Ray or Python differ between a worker and rank 0.\n\n"
    "The detail has both versions. All nodes must use one image or one environment: look at\n"
    "`--set python=…`, and whether every node sees the same one.",
    "superseded": "A later attempt of this run has begun, so this one left.\n\n"
    "Nothing is wrong with the run: look at its present attempt with `rlaunch status RUN`. Two rank 0\n"
    "of one attempt mean that the scheduler started the node twice.",
    "bad-flags": "The node agent did not understand its command line, or could not read a file of it.\n\n"
    "Plans are made by rlaunch, so this is a plan of another version or a file that was lost on the\n"
    "way. Make a new plan; if it comes again, it is a bug of rlaunch.",
    "agent-failed": "The node agent failed by a fault of its own.\n\n"
    "Its traceback is in the log of that rank. It is a bug of rlaunch: report it with that log.",
}
"""What the node agent ends an attempt for."""

PHASES: Mapping[str, str] = {
    "starting": "The agents have begun, and look at what earlier attempts left.",
    "staging": "Data and model are being brought to the nodes.\n\n"
    "`rlaunch diagnose RUN` names the ranks that are not done.",
    "rendezvous": "The nodes look for rank 0 in the rendezvous directory.",
    "ray": "Ray is being started on the nodes.",
    "joining": "Ray runs, and waits until every node has joined.\n\n"
    "A rank that stays away ends the run with `rank-missing`.",
    "ready": "All nodes have joined; the trainer is about to be launched.",
    "running": "The trainer runs.",
    "stopping": "The agents are ending what they started.",
    "ended": "The agents have ended; the scheduler has not noticed yet.",
}
"""How far the agents are, where all of them are equally far."""

REASONS: Mapping[str, str] = {
    **AGENT,
    **scheduling.ASKED,
    **scheduling.LIMITS,
    **scheduling.MACHINES,
    **scheduling.SCRIPT,
    **scheduling.WAITS,
    **PHASES,
}
"""Reason -> what it means, and what to do; the first line is the summary."""


def name_of(text: str) -> str:
    """Return the name of the reason that a text is, as `status` prints it; empty where none is.

    `kueue: no quota` is named by what stands before the colon, and `lost its node` is `lost-its-node`.
    """
    word = text.strip().strip("()").partition(": ")[0].rstrip(":")
    plain = word.lower().replace("_", "-").replace(" ", "-")
    known = {name.lower(): name for name in REASONS}
    if plain in known:
        return known[plain]
    return next(
        (name for start, name in scheduling.FAMILIES.items() if plain.startswith(start)), ""
    )
