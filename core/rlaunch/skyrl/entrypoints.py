"""Which entry points are SkyRL's, and the toy trainer's. Pure."""

from __future__ import annotations

from typing import Any

TOY = "rlaunch.smoke"
SHORT = {"terminal_bench": "examples.terminal_bench.entrypoints.main_tbench"}
"""Short names of newer recipes -> modules."""
PACKAGES = ("examples", "skyrl_train", "skyrl", "skyrl_agent", "integrations")
"""Top-level packages of SkyRL and MarinSkyRL that hold entry points."""


def module(entrypoint: str) -> str:
    """Return the Python module of an entry point; a short name becomes its module."""
    return SHORT.get(entrypoint, entrypoint)


def is_skyrl(entrypoint: Any) -> bool:
    """Tell whether SkyRL starts here."""
    if not isinstance(entrypoint, str):
        return False
    parts = module(entrypoint).split(".")
    return parts[0] in PACKAGES and len(parts) > 1 and all(part.isidentifier() for part in parts)


def is_agentic(entrypoint: Any) -> bool:
    """Tell whether trials run in sandboxes (`terminal_bench`)."""
    return isinstance(entrypoint, str) and "terminal_bench" in module(entrypoint)
