"""Secrets: names until the moment of submit.

Only this module reads a secrets file, and it parses it: `set -a; source FILE` would run it. A value
never leaves it but in the mapping that `submit` takes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rlaunch import folders, reading
from rlaunch.codes import Code
from rlaunch.errors import RlaunchError
from rlaunch.model import Finding

_LINE = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=(.*)\Z", re.DOTALL)


def default_file(environ: Mapping[str, str]) -> str:
    """Return the secrets file: `$RLAUNCH_SECRETS_ENV`, or `rlaunch/secrets.env` under the user's
    configuration where that exists, or an empty string."""
    if named := environ.get("RLAUNCH_SECRETS_ENV"):
        return named
    usual = Path(folders.config(environ), "secrets.env")
    return str(usual) if usual.is_file() else ""


def read(path: str) -> tuple[dict[str, str], tuple[Finding, ...]]:
    """Read `NAME=value` lines: `export ` and one layer of quotes are stripped, nothing is expanded.

    Raises RlaunchError `secrets.missing`, `secrets.unreadable` or `secrets.syntax` (with the line's
    number, never its text). A file that others may read gives a warning.
    """
    try:
        text = reading.read_text(path, pipe=True)
    except reading.NotReadable as error:
        if error.missing:
            raise RlaunchError.of(
                "secrets.missing", f"there is no secrets file `{path}`", place=path,
                hint="give another one with `--secrets-env FILE`, or make it with mode 0600",
            ) from None  # fmt: skip
        raise RlaunchError.of(
            "secrets.unreadable", f"the secrets file `{path}` cannot be read: {error}", place=path,
            hint="give another one with `--secrets-env FILE`",
        ) from None  # fmt: skip
    values = dict(_lines(text, path))
    findings: tuple[Finding, ...] = ()
    if reading.mode(path) & 0o077:
        findings = (
            Finding(
                "warning",
                "secrets.readable",
                f"others may read `{path}`",
                path,
                f"chmod 600 {path}",
            ),
        )
    return values, findings


def _lines(text: str, path: str) -> Iterator[tuple[str, str]]:
    """Yield name and value of each line. Raises RlaunchError `secrets.syntax`."""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            raise RlaunchError.of(
                "secrets.syntax", "a line of the secrets file is not `NAME=value`",
                place=f"{path}:{number}", hint="one `NAME=value` a line; it is parsed, not run",
            )  # fmt: skip
        if "\0" in line:
            raise RlaunchError.of(
                "secrets.syntax", f"`{match[1]}` has a NUL byte, which no variable can hold",
                place=f"{path}:{number}", hint="take it out",
            )  # fmt: skip
        yield match[1], _unquote(match[2].strip())


def _unquote(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] and value[0] in "'\"":
        return value[1:-1]
    return value


class Keyring:
    """The secrets at hand: the file's before the shell's. Shows names; gives values only to submit."""

    def __init__(self, path: str = "", environ: Mapping[str, str] | None = None) -> None:
        self._shell = dict(os.environ if environ is None else environ)
        self.path = path
        self._file, self.findings = read(path) if path else ({}, ())

    def __repr__(self) -> str:
        return f"Keyring({self.path!r})"

    @property
    def names(self) -> frozenset[str]:
        """Names with a value that is not empty."""
        both = {**self._shell, **self._file}
        return frozenset(name for name, value in both.items() if value)

    def collect(self, names: Iterable[str]) -> dict[str, str]:
        """Return the values of those names that are at hand. Never `AWS_*` or `R2_*`.

        Raises RlaunchError `core.not-text` for a value that no document can carry.
        """
        from rlaunch import given
        from rlaunch.env import refused
        from rlaunch.texts import trouble

        both = {**self._shell, **self._file}
        values = {n: both[n] for n in names if both.get(n) and not refused(n)}
        if bad := [
            given.fault(n, why, n) for n, value in values.items() if (why := trouble(value))
        ]:
            raise RlaunchError(*bad)
        return values


CODES = (
    Code(
        "secrets.missing",
        "The secrets file that was named does not exist.\n\n"
        "A missing file was once a warning, and the run learned nothing: every sandbox call "
        "failed.",
    ),
    Code(
        "secrets.unreadable",
        "The secrets file cannot be read.\n\nIt must be a file (or a pipe) of UTF-8 text "
        "that you may read, of at most 1 MiB.",
    ),
    Code(
        "secrets.syntax",
        "A line of the secrets file is not `NAME=value`.\n\n"
        "The file is parsed, not run. The line's text is never shown.",
    ),
    Code(
        "secrets.readable",
        "Others may read the secrets file.\n\nKeep it at mode 0600.",
        "warning",
    ),
)
