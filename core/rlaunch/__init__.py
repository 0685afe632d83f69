"""rlaunch: one recipe, any cluster.

The names below are the public Python API. They are loaded when they are first used, so that
`import rlaunch` costs nothing (a start of the command line is measured in milliseconds).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from rlaunch.cluster import Clock, Cluster, LogQuery, PreflightQuery, Report
    from rlaunch.codes import Code, rule
    from rlaunch.errors import (
        ClusterError,
        PluginError,
        RecipeError,
        RlaunchError,
        UnclearSubmitError,
    )
    from rlaunch.hooks import hookimpl, hookspec
    from rlaunch.model import (
        Command,
        Event,
        Evidence,
        Finding,
        JobRef,
        LogLine,
        Milestone,
        Observed,
        Plan,
        Recipe,
        Request,
        Run,
        RunFacts,
        State,
        Status,
    )
    from rlaunch.profiles import Profile
    from rlaunch.shell import Shell

_PLACES = {
    "rlaunch.cluster": "Clock Cluster LogQuery PreflightQuery Report",
    "rlaunch.codes": "Code rule",
    "rlaunch.errors": "ClusterError PluginError RecipeError RlaunchError UnclearSubmitError",
    "rlaunch.hooks": "hookimpl hookspec",
    "rlaunch.model": "Command Event Evidence Finding JobRef LogLine Milestone Observed Plan Recipe"
    " Request Run RunFacts State Status",
    "rlaunch.profiles": "Profile",
    "rlaunch.shell": "Shell",
}

__all__ = [
    "Clock",
    "Cluster",
    "ClusterError",
    "Code",
    "Command",
    "Event",
    "Evidence",
    "Finding",
    "JobRef",
    "LogLine",
    "LogQuery",
    "Milestone",
    "Observed",
    "Plan",
    "PluginError",
    "PreflightQuery",
    "Profile",
    "Recipe",
    "RecipeError",
    "Report",
    "Request",
    "RlaunchError",
    "Run",
    "RunFacts",
    "Shell",
    "State",
    "Status",
    "UnclearSubmitError",
    "hookimpl",
    "hookspec",
    "rule",
]


def __getattr__(name: str) -> object:
    """Load a public name from the module that defines it."""
    for module, names in _PLACES.items():
        if name in names.split():
            from importlib import import_module

            return getattr(import_module(module), name)
    raise AttributeError(f"module `rlaunch` has no attribute `{name}`")
