"""Commands on a login node, through the system's `ssh` and the user's own configuration.

A `Shell` like any other: argv in, `Done` out. The words are quoted once, for the remote shell; values
travel on stdin, never as remote variables (sshd accepts few) and never on the command line.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from rlaunch.shell import Done, Shell

LOST = 255
"""What ssh exits with when it, and not the command, failed."""


class SshShell(Shell):
    """Runs commands on `host`. One connection is opened and shared by later commands (`ControlMaster`),
    unless the user's configuration has a `ControlPath` already."""

    def __init__(self, shell: Shell, host: str, environ: Mapping[str, str] | None = None) -> None:
        self._shell, self.host = shell, host
        self._environ = os.environ if environ is None else environ
        self._options: tuple[str, ...] | None = None

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Run a command there. Code 255: ssh itself failed; `env` adds to the login environment."""
        command = remote_command(argv, cwd, env or {})
        words = ("ssh", *self.options(), "--", self.host, command)
        done = self._shell.run(words, stdin=stdin, timeout=timeout)
        return done._replace(argv=tuple(argv))

    def options(self) -> tuple[str, ...]:
        """Return the options of every `ssh`; the configuration is asked once."""
        if self._options is None:
            base = ["-o", "BatchMode=yes", "-o", "ConnectTimeout=15", "-T"]
            if config := self._environ.get("RLAUNCH_SSH_CONFIG"):
                base += ["-F", config]
            seen = self._shell.run(("ssh", *base, "-G", self.host), timeout=10)
            shared = [row for row in seen.out.splitlines() if row.startswith("controlpath ")]
            if not shared or shared[0].split(" ", 1)[1] == "none":
                base += ["-o", "ControlMaster=auto", "-o", "ControlPersist=60"]
                base += ["-o", f"ControlPath={_sockets()}/%C"]
            self._options = tuple(base)
        return self._options

    def close(self) -> None:
        """End the shared connection, where there is one; without this it ends a minute after its last use."""
        if self._options is not None:
            self._shell.run(("ssh", *self._options, "-O", "exit", self.host), timeout=10)


def remote_command(argv: Sequence[str], cwd: str | None, env: Mapping[str, str]) -> str:
    """Return the one text that the remote shell is given; any POSIX shell reads it back as `argv`."""
    words = ["env", *(f"{k}={v}" for k, v in env.items()), *argv] if env else list(argv)
    text = f"exec {shlex.join(words)}"
    return f"cd -- {shlex.quote(cwd)} && {text}" if cwd else text


def _sockets() -> str:
    """Return a private directory for the sockets of shared connections; socket paths must be short."""
    folder = Path(tempfile.gettempdir()) / f"rlaunch-ssh-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    seen = folder.lstat()
    if seen.st_uid != os.getuid() or seen.st_mode & 0o077:
        return tempfile.mkdtemp(prefix="rlaunch-ssh-")
    return str(folder)
