"""What a SLURM run's end means, and what to type next. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rlaunch.codes import rule
from rlaunch.model import Evidence, Finding

ENDS: Mapping[str, tuple[str, str]] = {
    "time-limit": (
        "the job met its wall limit",
        "`--max-retries K` makes a chain of jobs that resume",
    ),
    "out-of-memory": (
        "the job used more memory than it had asked for",
        "`--memory` asks for more; CPU offload and Ray's object store count against it",
    ),
    "node-failure": (
        "a node was lost under the job",
        "`--max-retries 1` runs it again; name the node in the profile's `bad_nodes`",
    ),
    "preempted": ("a more urgent job took the nodes", "`--max-retries 1` queues it again"),
    "boot-failure": ("a node did not boot", "`--max-retries 1` runs it again"),
    "no-output-file": (
        "SLURM could not open the job's output file: quota or permissions",
        "look at your quota of files; `--set run_dir=DIR/{run}` lies elsewhere",
    ),
    "sif-missing": (
        "the image was not there on the node",
        "`--set sif=PATH` on a shared file system",
    ),
    "module-failed": (
        "a module did not load",
        "`module avail` on the login node; `--set modules=[…]`",
    ),
    "before-failed": (
        "a line of the profile's `before` ended the job",
        "`rlaunch logs RUN` has what it said; `--set before=[…]`",
    ),
    "script-failed": (
        "a command of the batch script failed",
        "the run directory's `job-ID.out` has its words; quota and full disks are the usual reasons",
    ),
    "tunnel-failed": (
        "the tunnel out of the compute nodes could not be made",
        "`ssh LOGIN true` from a compute node must work without a question",
    ),
    "networks-unknown": (
        "the batch node did not say which networks it is attached to",
        "`ip -4 addr` must work there (iproute2): the gang's own connections must not go through the proxy",
    ),
    "tunnel-dead": (
        "the internet could not be reached through the tunnel",
        "`rlaunch logs RUN` has what was tried; an image needs the wrapper's library in `binds`",
    ),
    "no-address": (
        "a node has none of the interfaces that the profile names",
        "`--set interfaces=[NAME]`; the rank's line lists what the node has",
    ),
    "head-lost": (
        "rank 0 was lost: its agent or the job's `srun` was killed from outside, or its node went away",
        "the kernel's log of that node knows more; `--max-retries 1` runs it again",
    ),
    "step-killed": (
        "the job's step was killed from outside, before any rank could say more",
        "the run directory's `job-ID.out` has SLURM's words; `--max-retries 1` runs it again",
    ),
    "step-failed": (
        "the job's step ended before any rank could say why",
        "the run directory's `job-ID.out` has SLURM's words: an image or a Python that does not start",
    ),
    "not-written": (
        "the run directory could not be written in the job",
        "look at quota and mounts of the nodes",
    ),
}


@rule("slurm_jupiter.ended", level="warning")
def explain_end(evidence: Evidence) -> Iterator[Finding]:
    """How SLURM, or the batch script, ended the run.

    The reason is the scheduler's or the script's own word for it; the hint is what helped before.
    """
    for seen in evidence.states[-1:]:
        if seen.state.ended and seen.reason in ENDS:
            message, hint = ENDS[seen.reason]
            yield Finding("warning", "slurm_jupiter.ended", message, str(seen.job), hint)


RULES = (explain_end,)
CODES = tuple(r.code for r in RULES)  # type: ignore[attr-defined]  # set by @rule
