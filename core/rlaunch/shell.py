"""The one place that runs commands; injected everywhere, so that tests can answer instead."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Done(NamedTuple):
    """A finished command."""

    argv: tuple[str, ...]
    code: int
    """The exit code; −N for signal N, 127 where the program does not exist, 124 after a time-out."""
    out: str
    err: str


class Shell:
    """Runs argv lists; never a shell string."""

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Run a command to its end. `timeout` in seconds; `env` replaces the environment where given.

        Never raises for what the command did: a missing program is code 127, a time-out 124. Output is
        decoded as UTF-8 with replacement characters.
        """
        words = tuple(argv)
        try:
            done = subprocess.run(  # noqa: S603  # argv, no shell
                words,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                timeout=timeout,
                cwd=cwd,
                env=None if env is None else dict(env),
                encoding="utf-8",
                errors="replace",
                check=False,
            )
        except FileNotFoundError as error:
            return Done(words, 127, "", str(error))
        except PermissionError as error:
            return Done(words, 126, "", str(error))
        except subprocess.TimeoutExpired as error:
            return Done(words, 124, _text(error.stdout), _text(error.stderr))
        return Done(words, done.returncode, done.stdout, done.stderr)


def _text(data: bytes | str | None) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data or ""
