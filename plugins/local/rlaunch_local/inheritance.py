"""What of the operator's shell reaches the job: the names that the profile lists, and never these. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rlaunch.env import refused

OWN = ("RLAUNCH_", "RAY_ADDRESS", "RAY_AUTH_", "PYDANTIC_DISABLE_PLUGINS", "TYPER_USE_RICH")
"""Names, or their beginnings, that rlaunch sets for itself or for the job; the shell's are not the job's."""
_CREDENTIALS = ("AWS_", "R2_")


def kept_back(name: str) -> bool:
    """Tell whether a variable never comes from the operator's shell: credentials, and rlaunch's own."""
    return refused(name) or name.startswith(OWN)


def asks_for_too_much(pattern: str) -> bool:
    """Tell whether an entry of `inherit` names what is kept back, or is wide enough for credentials."""
    if not pattern.endswith("*"):
        return kept_back(pattern)
    start = pattern[:-1]
    return kept_back(start) or any(c.startswith(start.upper()) for c in _CREDENTIALS)


def inherited(names: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what of `environ` the names (`*` at the end: a prefix) stand for, but for what is kept back.

    The last word on it, whatever a profile, a setting or a plan file asks for.
    """
    exact = {n for n in names if not n.endswith("*")}
    prefixes = tuple(n[:-1] for n in names if n.endswith("*"))
    wanted = {
        k: v for k, v in environ.items() if k in exact or (prefixes and k.startswith(prefixes))
    }
    return {k: v for k, v in wanted.items() if not kept_back(k)}
