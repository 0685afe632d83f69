"""Faults on request, so that a launcher's tests can see how it takes them."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from .settings import Settings

CHUNK = 16 << 20


class FaultError(Exception):
    """The failure that a test asked for; `code` is the exit code."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


class Request:
    """Whether SIGTERM has asked the trainer to save and end."""

    def __init__(self) -> None:
        self.made = False

    def listen(self) -> None:
        """Take SIGTERM from now on."""
        signal.signal(signal.SIGTERM, self._take)

    def _take(self, number: int, frame: object) -> None:
        self.made = True


def strike(settings: Settings, step: int, environ: Mapping[str, str], request: Request) -> None:
    """Fail or hang at the start of `step` where a test asked for it, else return at once.

    Who hangs goes on when asked to save.
    """
    if step == settings.hang_at_step:
        sys.stdout.flush()
        while not request.made:
            time.sleep(0.1)
    if step != settings.fail_at_step:
        return
    attempt = attempt_of(environ)
    if settings.fail_attempts is not None and attempt >= settings.fail_attempts:
        return
    raise FaultError(
        f"failing at step {step} of attempt {attempt}, as `smoke.fail_at_step` asked",
        settings.exit_code,
    )


def dial(place: str) -> str:
    """Connect to `HOST:PORT` and return what is said there first. Raises OSError."""
    host, _, port = place.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        return connection.recv(200).decode("utf-8", "replace").strip()


def eat(size: int) -> int:
    """Take so many bytes of real memory, hold them for a second, and give them back."""
    held = [bytearray(b"x" * CHUNK) for _ in range(0, size, CHUNK)]
    time.sleep(1)
    return len(held)


def attempt_of(environ: Mapping[str, str]) -> int:
    """Return the attempt number that the launcher gave, 0 without one."""
    text = environ.get("RLAUNCH_ATTEMPT", "")
    return int(text) if text.isdigit() else 0


def dump_environment(directory: str, name: str, environ: Mapping[str, str]) -> None:
    """Write an environment as JSON to `<directory>/<name>.json`, readable by its owner only."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    fresh = place / f".{name}.{os.getpid()}"
    handle = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(dict(environ), file, indent=1, sort_keys=True)
    fresh.replace(place / f"{name}.json")
