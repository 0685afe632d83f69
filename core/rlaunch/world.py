"""What the imperative shell holds: time, commands, the checkout, the record, the user's settings.

`World.here()` reads the machine once; everything after it takes what it needs as an argument.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rlaunch import folders, reading
from rlaunch.codes import Code
from rlaunch.errors import RlaunchError
from rlaunch.model import Context, Finding, Workspace
from rlaunch.secrets import Keyring, default_file
from rlaunch.shell import Shell
from rlaunch.travel import (
    GIT,
    ask_git,
    git_trouble,
    in_git,
    is_own,
    show,
    unquote,
    unreadable,
)

if TYPE_CHECKING:
    from rlaunch.cluster import Clock, Report
    from rlaunch.runs import Runs

VERSION = "0.1.0"
_WHOLE = 1 << 20
"""Dirty files up to this size count with their bytes, larger ones with size and time of change."""


class SystemClock:
    """The machine's own time."""

    def now(self) -> str:
        """Return the time as RFC 3339 in UTC, to the millisecond."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def monotonic(self) -> float:
        """Return seconds that only grow."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class World(NamedTuple):
    """The shell's tools, made once for each command."""

    shell: Shell
    clock: Clock
    context: Context
    keyring: Keyring
    user: Mapping[str, Any]
    """`rlaunch.toml`, or an empty mapping."""
    report: Report
    open_runs: Callable[[], Runs]
    said: set[Finding]
    """Warnings that were reported already."""

    @classmethod
    def here(
        cls,
        *,
        workspace: str | None = None,
        secrets_env: str | None = None,
        report: Report = lambda line: None,
        environ: Mapping[str, str] | None = None,
        artifacts: bool = True,
    ) -> World:
        """Read this machine: user, checkout, secrets' names, configuration.

        Without `artifacts` nothing can be planned: the checkout is not looked at either, so that a
        run can be watched from anywhere, a deleted directory included.

        Raises RlaunchError for a missing workspace or secrets file, or a broken `rlaunch.toml`.
        """
        env = dict(os.environ if environ is None else environ)
        shell, clock = Shell(), SystemClock()
        state = folders.state(env)
        keyring = Keyring(secrets_env or default_file(env), env)
        context = Context(
            user=env.get("USER") or env.get("LOGNAME") or _login(),
            now=clock.now(),
            run_id=os.urandom(4).hex(),
            home=folders.home(env),
            state=state,
            cwd=_cwd(),
            python=_python(),
            version=VERSION,
            workspace=checkout(shell, workspace) if artifacts else Workspace(""),
            present=keyring.names,
            artifacts=_artifacts() if artifacts else (),
        )
        user = _config(env)
        return cls(shell, clock, context, keyring, user, report, lambda: _runs(state), set())


def _runs(state: str) -> Runs:
    from rlaunch.runs import Runs

    return Runs(f"{state}/runs.sqlite")


def _artifacts() -> tuple[Any, ...]:
    from rlaunch import zipapps

    return tuple(zipapps.artifact(name) for name in zipapps.NAMES)


def _login() -> str:
    """Return the name that the system has for this user; `uid` and the number where it has none."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container's user often has no entry
        return f"uid{os.getuid()}"


def _python() -> str:
    import sys

    return sys.executable


def _config(env: Mapping[str, str]) -> Mapping[str, Any]:
    path = Path(folders.config(env), "rlaunch.toml")
    try:
        text = reading.read_text(str(path))
    except reading.NotReadable as error:
        if error.missing:
            return {}
        raise _broken(path, str(error)) from None
    import tomllib

    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _broken(path, str(error)) from None
    except RecursionError:
        raise _broken(path, "it is nested too deep") from None
    if unknown := sorted(set(data) - {"cluster", "clusters", "env"}):
        raise _broken(path, f"it has no key `{unknown[0]}`; it takes cluster, clusters, env")
    tables = [("env", data.get("env", {})), ("clusters", data.get("clusters", {}))]
    if isinstance(tables[1][1], dict):
        tables += [(f"clusters.{name}", section) for name, section in tables[1][1].items()]
    if wrong := [name for name, section in tables if not isinstance(section, dict)]:
        raise _broken(path, f"`{wrong[0]}` is no table")
    if not isinstance(cluster := data.get("cluster", ""), str):
        raise _broken(path, f"`cluster` is `{cluster}`, and it takes a name in quotes")
    return data


def _cwd() -> str:
    """Return the current directory; empty where it was deleted."""
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return ""


def _broken(path: Path, reason: str) -> RlaunchError:
    return RlaunchError.of(
        "core.config", f"`rlaunch.toml` cannot be used: {reason}", place=str(path),
        hint="`[clusters.NAME]` has settings, `[env]` has variables, `cluster` is the default one",
    )  # fmt: skip


def checkout(shell: Shell, workspace: str | None) -> Workspace:
    """Read the workspace: the git top level of `workspace` or of the current directory.

    Outside git the directory itself is the workspace. Raises RlaunchError `core.workspace`.
    """
    try:
        start = Path(workspace or ".").resolve()
    except FileNotFoundError:  # the current directory was deleted
        start = Path("/does/not/exist")
    if not start.is_dir():
        raise RlaunchError.of(
            "core.workspace", f"there is no directory `{workspace or '.'}`", place="--workspace",
            hint="give the directory that your code lies in",
        )  # fmt: skip
    found = ask_git(shell, str(start), "rev-parse", "--show-toplevel", "HEAD")
    lines = found.out.split("\n")
    if found.code != 0 and not (lines[0].startswith("/") and Path(lines[0]).is_dir()):
        if found.code == 127 or "not a git repository" in found.err:
            return Workspace(str(start))
        raise unreadable(str(start), git_trouble(found), GIT)
    root, commit = lines[0], lines[1] if found.code == 0 else ""
    words = ("-c", "core.quotePath=true", "status", "--porcelain=v1", "-uall", "--no-renames")
    seen = ask_git(shell, root, *words, "--ignore-submodules=none")
    if seen.code != 0:
        raise unreadable(root, git_trouble(seen), GIT)
    told = [(line[:2], unquote(line[3:]).rstrip("/")) for line in seen.out.split("\n") if line]
    dirty = sorted(n for how, n in told if how != "??" or not is_own(f"{root}/{n}"))
    digest = _digest(shell, root, commit, dirty)
    return Workspace(root, commit, tuple(map(show, dirty)), digest)


def _digest(shell: Shell, root: str, commit: str, dirty: Sequence[str]) -> str:
    """Return what a workspace is known by: its commit, and every change with its name, kind and content."""
    total = hashlib.sha256(commit.encode())
    for name in dirty:
        told = _content(shell, Path(root, name))
        for part in (os.fsencode(name), told):
            total.update(len(part).to_bytes(8) + part)
    return total.hexdigest()


def _content(shell: Shell, path: Path) -> bytes:
    try:
        stat = path.lstat()
        if path.is_symlink():
            return b"link " + os.fsencode(path.readlink())
        if path.is_dir() and in_git(str(path)):  # a submodule, or a checkout of its own
            return b"checkout " + checkout(shell, str(path)).digest.encode()
        if stat.st_size <= _WHOLE and path.is_file():
            kind = b"program " if stat.st_mode & 0o100 else b"file "
            return kind + path.read_bytes()
        return f"large {stat.st_mode} {stat.st_size} {stat.st_mtime_ns}".encode()
    except OSError:  # deleted, or not ours to read: its name has counted
        return b"gone"


CODES = (
    Code(
        "core.workspace",
        "The workspace does not exist.\n\n"
        "It is the git top level of the current directory, or `--workspace DIR`.",
    ),
    Code(
        "core.config",
        "The user's `rlaunch.toml` cannot be read.\n\n"
        "A configuration that is skipped silently is a setting lost.",
    ),
)
