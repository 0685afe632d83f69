"""The one place that runs commands; injected everywhere, so that tests can answer instead."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple


class Done(NamedTuple):
    """A finished command."""

    argv: tuple[str, ...]
    code: int
    """The exit code; −N for signal N, 127 where the program does not exist, 124 after a time-out."""
    out: str
    err: str


class _Child(subprocess.Popen[str]):
    """A child whose end is waited for where the system can: Popen itself sleeps and looks, which costs a
    millisecond a command, as much as some commands take."""

    def wait(self, timeout: float | None = None) -> int:
        if timeout is not None and self.returncode is None:
            with suppress(AttributeError, OSError):  # not on a Mac, nor with a kernel before 5.3
                self._sleep(os.pidfd_open(self.pid), timeout)
        return super().wait(timeout)

    @staticmethod
    def _sleep(handle: int, timeout: float) -> None:
        try:
            ended = select.poll()
            ended.register(handle, select.POLLIN)
            ended.poll(max(timeout, 0) * 1000)
        finally:
            os.close(handle)


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
            with _Child(
                words,
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=cwd,
                env=None if env is None else dict(env),
                encoding="utf-8",
                errors="replace",
            ) as child:
                try:
                    out, err = child.communicate(stdin, timeout)
                except BaseException:
                    child.kill()
                    raise
        except FileNotFoundError as error:
            return Done(words, 127, "", str(error))
        except PermissionError as error:
            return Done(words, 126, "", str(error))
        except subprocess.TimeoutExpired as error:
            return Done(words, 124, _text(error.stdout), _text(error.stderr))
        return Done(words, child.returncode, out, err)


def _text(data: bytes | str | None) -> str:
    return data.decode("utf-8", "replace") if isinstance(data, bytes) else data or ""
