"""The text of `job.sh`: a pure function of what it must do. Nothing of the run but paths stands in it.

1  is there anything left to do?       complete, stopped, or failing the same way again: leave
2  take the attempt                    mkdir attempts/N: a strictly rising number, whoever comes first
3  the site                            modules, variables to forget, tunnel
4  one srun for all nodes              inside the image where there is one
5  how it ended                        attempts/N/end: `succeeded`, `failed REASON CODE`, `cut WHY CODE`
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rlaunch_slurm_jupiter import directives
from rlaunch_slurm_jupiter.fragments import (
    AFTER,
    ATTEMPT,
    BEFORE,
    CHECKPOINT,
    DECIDE,
    END,
    HEAD,
    NETWORKS,
    PROXY,
    RUN,
    STARTS,
    STARTS_ANEW,
    STARTS_ELSEWHERE,
    TUNNEL,
    TUNNEL_WRAPPER,
)


class Job(NamedTuple):
    """Everything that the script says."""

    run_id: str
    version: str
    nodes: int
    directives: tuple[str, ...]
    run_dir: str
    rendezvous: str
    python: str
    container: tuple[str, ...]
    """`apptainer exec … IMAGE`; empty: on the host."""
    sif: str
    modules: tuple[str, ...]
    before: tuple[str, ...]
    unset: tuple[str, ...]
    srun: tuple[str, ...]
    links: int
    attempts: int
    requeue: bool
    marker: str
    """The file that says the last checkpoint's step; empty where it is not known."""
    max_steps: int
    """0: unknown."""
    resume: str
    """The checkpoint of another run that the driver starts from while this run has none; else empty."""
    anew: bool
    """The driver takes up no checkpoint, whatever is there."""
    tunnel: Mapping[str, Any] | None
    interfaces: tuple[str, ...]
    secrets: bool
    folders: tuple[str, ...]


def write_script(job: Job) -> str:
    """Return the batch script."""
    return "\n".join(_lines(job)) + "\n"


def _lines(job: Job) -> Iterator[str]:
    yield "#!/bin/bash -l" if job.modules else "#!/bin/bash"
    yield from map(directives.line, job.directives)
    yield f"# rlaunch {job.version}: run {job.run_id} on {job.nodes} node(s). Usage: sbatch job.sh [LINK]"
    yield "set -euo pipefail"
    yield ""
    yield from _values(job)
    yield HEAD
    yield DECIDE
    if job.marker:
        yield _value("marker", job.marker)
        yield _value("max_steps", str(job.max_steps))
        yield CHECKPOINT
        if job.resume:
            yield _value("resume", job.resume)
            yield STARTS_ELSEWHERE
        else:
            yield STARTS_ANEW if job.anew else STARTS
    yield ATTEMPT
    yield from _site(job)
    yield from _tunnel(job)
    yield from _step(job)
    yield RUN
    yield END


def _values(job: Job) -> Iterator[str]:
    yield _value("run_dir", job.run_dir)
    yield _value("rendezvous", job.rendezvous)
    yield 'link="${1:-1}"'
    yield _value("links", str(job.links))
    yield _value("attempts", str(job.attempts))
    yield _value("requeue", "yes" if job.requeue else "")
    yield _value("returns", "yes" if directives.may_return(job.directives) else "")
    yield _array("folders", job.folders)


def _value(name: str, text: str) -> str:
    return f"{name}={shlex.quote(text)}"


def _array(name: str, words: tuple[str, ...]) -> str:
    if not words:
        return f"{name}=()"
    return "\n".join([f"{name}=(", *(f"  {shlex.quote(word)}" for word in words), ")"])


def _site(job: Job) -> Iterator[str]:
    yield "# --- the site ---"
    if job.before:
        yield BEFORE
        yield from (*job.before, AFTER)
    if job.modules:
        yield "set +u  # the module system reads variables that are not set"
        for module in job.modules:
            name = shlex.quote(module)
            yield f'module load {name} || fail module-failed 80 "{_plain(module)} does not load"'
        yield "set -u"
    for name in job.unset:
        yield f"unset -v {shlex.quote(name)}"
    if job.sif:
        yield _value("sif", job.sif)
        yield '[[ -e "$sif" ]] || fail sif-missing 81 "there is no image $sif"'
    yield ""


def _plain(text: str) -> str:
    return "".join(c for c in text if c.isalnum() or c in "._/-+")


def _tunnel(job: Job) -> Iterator[str]:
    if job.tunnel is None:
        return
    tunnel = job.tunnel
    yield "# --- the way out: checked on every node before Ray starts ---"
    if tunnel["wrapper"] or (tunnel["login"] and job.interfaces):
        yield NETWORKS
    elif tunnel["login"]:
        yield 'networks=""'
    if tunnel["login"]:
        yield _array("interfaces", job.interfaces)
        identity = ("-i", tunnel["identity"]) if tunnel["identity"] else ()
        yield _array("tunnel", (*identity, *tunnel["options"], tunnel["login"]))
        yield _value("tunnel_port", str(tunnel["port"]))
        yield TUNNEL
    else:
        yield _value("proxy", str(tunnel["proxy"]))
        if tunnel["wrapper"]:
            yield PROXY
    if tunnel["wrapper"]:
        yield _array("wrapper", tuple(tunnel["wrapper"]))
        yield _array("local", tuple(tunnel["local"]))
        yield TUNNEL_WRAPPER
    yield ""


def _step(job: Job) -> Iterator[str]:
    yield "# --- one step for all nodes; what each task is, only its node knows: see task.py ---"
    yield _array("options", job.srun)
    yield "step=("
    # ours first: a profile's own wins
    yield '  srun --task-epilog="$run_dir/attempts/$attempt/after-task" "${options[@]}"'
    yield ")"
    if job.tunnel and job.tunnel["wrapper"]:
        yield 'step+=("${wrapper[@]}" -f "$proxychains")'
    if job.container:
        yield "step+=("
        yield from (f"  {shlex.quote(word)}" for word in job.container)
        yield ")"
    proxy = ' "$proxy"' if job.tunnel else ""
    yield f'step+=({shlex.quote(job.python)} "$run_dir/task.py" "$run_dir/task.json" "$attempt"{proxy})'
    yield ""
