"""The `#SBATCH` lines of a run. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rlaunch.model import Run
from rlaunch.settings import size_in_bytes

EXPORTED = ("HOME", "USER", "LOGNAME", "PATH", "LANG")
"""What the job takes from the shell that submits; everything else could be a secret or an `AWS_*`."""


def directives(run: Run) -> Iterator[str]:
    """Yield the options of `sbatch`, one for each `#SBATCH` line."""
    profile, run_dir = run.profile, run.paths.run_dir
    yield f"--job-name={run.id}"
    yield "--comment=rlaunch"
    yield f"--nodes={run.nodes}"
    yield f"--ntasks={run.nodes}"
    yield "--ntasks-per-node=1"
    if run.cpu:
        yield f"--cpus-per-task={max(1, int(run.cpu))}"
    yield from gpu_options(run)
    if run.memory and run.memory != "auto":
        yield f"--mem={size_in_bytes(run.memory) >> 20}M"
    for name in ("partition", "account", "qos", "reservation", "constraint", "licenses"):
        if profile[name]:
            yield f"--{name}={profile[name]}"
    if profile["exclusive"]:
        yield "--exclusive"
    if excluded := ",".join(bad["nodes"] for bad in profile["bad_nodes"]):
        yield f"--exclude={excluded}"
    if seconds := wall_seconds(run):
        yield f"--time={clock(seconds)}"
    if lead := int(profile["save_lead_s"]):
        yield f"--signal=B:USR1@{lead}"
    yield "--requeue" if run.max_retries else "--no-requeue"
    yield "--open-mode=append"
    yield f"--chdir={run_dir}"
    yield f"--output={pattern(run_dir)}/job-%j.out"
    yield f"--export={','.join(EXPORTED)}"
    yield from profile["sbatch"]


OWNED = (
    "--array", "--chdir", "--clusters", "--comment", "--dependency", "--error", "--export", "--export-file",
    "--job-name", "--nodes", "--ntasks", "--ntasks-per-node", "--open-mode", "--output", "--parsable",
    "--quiet", "--signal", "--test-only", "--time", "--wait", "--wrap",
)  # fmt: skip
"""Options by which a run's jobs are found, ended, told their time or fitted to the gang."""
SHORT = {
    "-a": "--array", "-D": "--chdir", "-M": "--clusters", "-d": "--dependency", "-e": "--error",
    "-J": "--job-name", "-N": "--nodes", "-n": "--ntasks", "-o": "--output", "-Q": "--quiet", "-t": "--time",
    "-W": "--wait",
}  # fmt: skip


def owned(option: str) -> str:
    """Return the option of rlaunch's own that this one is, also where it is shortened; else nothing."""
    if not option.startswith("--"):
        return SHORT.get(option[:2], "")
    said = option.partition("=")[0].split()[0]
    if said in OWNED:
        return said
    return next((name for name in OWNED if len(said) > 4 and name.startswith(said)), "")


def may_return(options: Iterable[str]) -> bool:
    """Tell whether SLURM itself may start the job again: after preemption, or the loss of a node."""
    said = [option for option in options if option in ("--requeue", "--no-requeue")]
    return said[-1:] == ["--requeue"]


def gpu_options(run: Run) -> Iterator[str]:
    """Yield how this cluster is asked for the GPUs of a node."""
    count, kind = run.gpus_per_node, run.profile["gpu_type"]
    match run.profile["gpu_request"]:
        case "none":
            return
        case _ if not count:
            return
        case "gpus-per-node":
            yield f"--gpus-per-node={kind + ':' if kind else ''}{count}"
        case "gres-typed":
            yield f"--gres=gpu:{kind}:{count}"
        case _:
            yield f"--gres=gpu:{count}"


def line(option: str) -> str:
    """Return one `#SBATCH` line. SLURM splits these lines at blanks and takes quotes and backslashes."""
    name, equals, value = option.partition("=")
    safe = set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,@%+=[]*&|")
    if equals and not set(value) <= safe:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'#SBATCH {name}="{escaped}"'
    return f"#SBATCH {option}"


def pattern(path: str) -> str:
    """Return a directory inside SLURM's file name patterns, where `%` begins a field."""
    return path.replace("%", "%%")


def wall_limit(profile: Mapping[str, Any], nodes: int) -> int | None:
    """Return the longest wall time of a job with so many nodes, in seconds; None where unknown."""
    for limit in profile["time_by_nodes"]:
        if nodes <= limit["nodes"]:
            return int(limit["seconds"])
    longest = profile["max_time_s"]
    return int(longest) if longest else None


def wall_seconds(run: Run) -> int | None:
    """Return the wall time that is asked for: `--timeout`, else the limit of the cluster."""
    limit = wall_limit(run.profile, run.nodes)
    if run.timeout_s is None:
        return limit
    typed = run.provenance.get("timeout_s")
    if typed is not None and typed.source in ("command line", "rlaunch.toml"):
        return run.timeout_s
    return min(run.timeout_s, limit) if limit else run.timeout_s


def clock(seconds: int) -> str:
    """Return SLURM's `D-HH:MM:SS`; it counts whole minutes, and rounds up."""
    days, rest = divmod(seconds, 86400)
    text = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{days}-{text}" if days else text
