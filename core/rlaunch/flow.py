"""The order of the stages: rlaunch's Python API. Returns models; never prints, never exits."""

from __future__ import annotations

from rlaunch.launching import Interrupted, Prepared, prepare, submit
from rlaunch.watching import (
    Diagnosis,
    Job,
    diagnose,
    exit_code,
    find,
    job_of,
    logs,
    status,
    stop,
    watch,
)
from rlaunch.world import World

__all__ = [
    "Diagnosis",
    "Interrupted",
    "Job",
    "Prepared",
    "World",
    "diagnose",
    "exit_code",
    "find",
    "job_of",
    "logs",
    "prepare",
    "status",
    "stop",
    "submit",
    "watch",
]
