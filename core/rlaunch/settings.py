"""Launch settings: their names, how a typed value is read, and what it may be. Pure.

A setting is reached in four ways, the first that is given wins: command line (a flag or
`--set SETTING=VALUE`) > the user's `rlaunch.toml` > the cluster's profile > default. `nodes` is
computed from the recipe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

MOST_NODES = 10_000
"""More than any machine has; a slip of the keyboard is not planned node by node."""
PRIORITIES = ("production", "interactive", "batch")
_UNITS = {"": 1, "K": 1000, "M": 1000**2, "G": 1000**3, "T": 1000**4}
_UNITS |= {f"{unit}I": 1024**power for unit, power in (("K", 1), ("M", 2), ("G", 3), ("T", 4))}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?I?)B?\Z", re.IGNORECASE)
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.IGNORECASE)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def read_int(text: Any) -> int:
    """Read a whole number; raises ValueError for anything else, booleans included."""
    if isinstance(text, bool) or (isinstance(text, float) and not text.is_integer()):
        raise ValueError("a whole number")
    try:
        return int(text)
    except (TypeError, ValueError):
        raise ValueError("a whole number") from None


def read_positive(text: Any) -> int:
    """Read a whole number of at least 1."""
    number = read_int(text)
    if number < 1:
        raise ValueError("a whole number of at least 1")
    return number


def read_nodes(text: Any) -> int:
    """Read a number of nodes: at least 1, and no more than any cluster has."""
    number = read_positive(text)
    if number > MOST_NODES:
        raise ValueError(f"at most {MOST_NODES} nodes")
    return number


def read_count(text: Any) -> int:
    """Read a whole number of at least 0."""
    number = read_int(text)
    if number < 0:
        raise ValueError("a whole number of at least 0")
    return number


def read_cores(text: Any) -> float:
    """Read a number of cores above 0; fractions are allowed."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        raise ValueError("a number of cores above 0") from None
    if isinstance(text, bool) or not 0 < number < float("inf"):
        raise ValueError("a number of cores above 0")
    return number


def size_in_bytes(text: Any) -> int:
    """Read `1400GiB`, `512GB`, `21800Gi` or a number of bytes."""
    match = _SIZE.match(str(text).strip())
    if match is None or isinstance(text, bool):
        raise ValueError("a size such as `512GiB`")
    return int(float(match[1]) * _UNITS[match[2].upper()])


MOST_RETRIES = 1000
"""More is a slip of the finger: on SLURM each is a job of its own."""


def read_retries(text: Any) -> int:
    """Read a count of at most `MOST_RETRIES`."""
    count = read_count(text)
    if count > MOST_RETRIES:
        raise ValueError(f"at most {MOST_RETRIES}")
    return count


def read_size(text: Any) -> str:
    """Check a size, or `auto`, and return it as it was written."""
    if str(text) == "auto":
        return "auto"
    if size_in_bytes(text) <= 0:
        raise ValueError("a size above 0")
    return str(text)


def read_duration(text: Any) -> int:
    """Read seconds, `90m`, `1h30m`, `1-12:00:00` or `11:59:00`; returns whole seconds above 0."""
    words = str(text).strip()
    seconds = _clock_seconds(words) if ":" in words else _unit_seconds(words)
    if seconds is None or seconds < 1 or isinstance(text, bool):
        raise ValueError("a time such as `3600`, `90m` or `11:59:00`")
    return int(seconds)


def _clock_seconds(words: str) -> float | None:
    days, dash, rest = words.rpartition("-")
    fields = rest.split(":")
    if not all(f.isdigit() for f in fields) or len(fields) > 3 or (dash and not days.isdigit()):
        return None
    seconds = 0
    for field in fields:
        seconds = seconds * 60 + int(field)
    if len(fields) == 2:  # hours and minutes, as people write a wall limit
        seconds *= 60
    return seconds + (int(days) * 86400 if dash else 0)


def _unit_seconds(words: str) -> float | None:
    parts = _PARTS.findall(words)
    if not parts or "".join(a + b for a, b in parts) != words.replace(" ", ""):
        return None
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in parts)


def read_bool(text: Any) -> bool:
    """Read true/false, yes/no, on/off, 1/0."""
    known = {"true": True, "yes": True, "on": True, "1": True}
    known |= {"false": False, "no": False, "off": False, "0": False}
    try:
        return known[str(text).strip().lower()]
    except KeyError:
        raise ValueError("`true` or `false`") from None


def read_text(text: Any) -> str:
    """Read text that is not empty."""
    if not isinstance(text, str | int | float) or not str(text).strip():
        raise ValueError("text that is not empty")
    return str(text)


def read_priority(text: Any) -> str:
    """Read a priority band."""
    if text not in PRIORITIES:
        raise ValueError(f"one of {', '.join(f'`{p}`' for p in PRIORITIES)}")
    return str(text)


class Spec(NamedTuple):
    """How one setting is read."""

    read: Callable[[Any], Any]
    flag: str
    about: str


SETTINGS: Mapping[str, Spec] = {
    "nodes": Spec(read_nodes, "--num-nodes", "whole nodes of the gang; computed from the recipe"),
    "gpus_per_node": Spec(read_count, "--gpus_per_node", "GPUs of one node"),
    "cpu": Spec(read_cores, "--cpu", "cores per node"),
    "memory": Spec(read_size, "--memory", "memory per node"),
    "disk": Spec(read_size, "--disk", "node-local disk per node"),
    "max_retries": Spec(read_retries, "--max-retries", "new attempts after a failure"),
    "timeout_s": Spec(read_duration, "--timeout", "limit of the whole run, in seconds"),
    "priority": Spec(read_priority, "--priority", "priority band"),
    "preemptible": Spec(read_bool, "--preemptible", "may be preempted"),
    "task_image": Spec(read_text, "--task-image", "container image, by digest"),
    "skyrl_ref": Spec(read_text, "--skyrl-ref", "commit of MarinSkyRL to run"),
    "rendezvous_dir": Spec(
        read_text, "--rendezvous-dir", "shared directory that the gang meets in"
    ),
    "cluster_config": Spec(read_text, "--cluster-config", "the scheduler's own configuration file"),
    "host": Spec(read_text, "--host", "login node that is reached by ssh: `user@host`"),
    "name": Spec(read_text, "--job-name", "the run's name"),
    "python": Spec(read_text, "--set python=", "the job's interpreter"),
    "run_dir": Spec(read_text, "--set run_dir=", "directory of the run"),
    "storage_root": Spec(read_text, "--set storage_root=", "root of checkpoints and exports"),
    "data_root": Spec(read_text, "--set data_root=", "root of staged data"),
    "artifacts_dir": Spec(read_text, "--set artifacts_dir=", "where the zipapps lie in the job"),
}


def parse_set(text: str) -> tuple[str, Any]:
    """Read `SETTING=VALUE` of `--set`; the value as JSON where it is JSON, else as text.

    Raises ValueError without a `=`, and for a value that is nested by hundreds.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise ValueError("`--set` takes SETTING=VALUE")
    import json

    try:
        return name.strip(), json.loads(value)
    except RecursionError:
        raise ValueError(f"the value of `{name.strip()}` is nested too deep") from None
    except ValueError:
        return name.strip(), value
