"""Where a user's own files lie: state, configuration and cache, by the XDG base directories.

A base directory that is unset, empty or relative is ignored, as the specification says: a relative one
would be another folder for every directory that rlaunch is called from. Completion imports this module,
so it imports nothing that costs a start.
"""

from __future__ import annotations

import os
from collections.abc import Mapping


def home(environ: Mapping[str, str] | None = None) -> str:
    """Return the user's home: `$HOME`, else what the system knows of the user, else `/`."""
    env = os.environ if environ is None else environ
    if named := env.get("HOME"):
        return named
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's user often has no entry
        return "/"


def state(environ: Mapping[str, str] | None = None) -> str:
    """Return `$XDG_STATE_HOME/rlaunch`, by default `~/.local/state/rlaunch`."""
    return _below("XDG_STATE_HOME", ".local/state", environ)


def config(environ: Mapping[str, str] | None = None) -> str:
    """Return `$XDG_CONFIG_HOME/rlaunch`, by default `~/.config/rlaunch`."""
    return _below("XDG_CONFIG_HOME", ".config", environ)


def without_config(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which `config` is a directory that does not exist."""
    return {**environ, "XDG_CONFIG_HOME": "/nonexistent"}


def cache(environ: Mapping[str, str] | None = None) -> str:
    """Return `$XDG_CACHE_HOME/rlaunch`, by default `~/.cache/rlaunch`."""
    return _below("XDG_CACHE_HOME", ".cache", environ)


def _below(name: str, usual: str, environ: Mapping[str, str] | None) -> str:
    base = (os.environ if environ is None else environ).get(name, "")
    if not base.startswith("/"):
        base = f"{home(environ).rstrip('/')}/{usual}"
    return f"{base}/rlaunch"
