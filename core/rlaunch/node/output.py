"""Every line that a node prints, on its way to the log.

Lines go through a thread of their own: a file system that hangs for a minute must not silence the
heartbeat, and a full disk must not end the run.
"""

from __future__ import annotations

import collections
import contextlib
import os
import re
import selectors
import sys
import threading
import time
from collections.abc import Callable

from .loop import Loop
from .records import now

ROOM = 64 << 20
"""Bytes of lines that may wait for the disk."""
LONGEST_LINE = 1 << 20
NOTEWORTHY = re.compile(
    rb"OutOfMemory|out of memory|OOM|Killed|No space left|EngineDeadError|watchdog got stuck"
    rb"|Fatal Python error|Segmentation fault|CUDA error|NCCL error"
)
"""Lines that a termination record repeats."""


class Log:
    """The node's log: a file with a time before each line, or standard output without."""

    def __init__(self, path: str, label: str) -> None:
        self._path = path
        self._label = label
        self._lines: collections.deque[bytes] = collections.deque()
        self._size = 0
        self._lost = 0
        self._more = threading.Condition()
        self._writing = False
        self.last: collections.deque[bytes] = collections.deque(maxlen=40)
        self.noteworthy: collections.deque[bytes] = collections.deque(maxlen=50)
        self._descriptor = self._open()
        threading.Thread(target=self._write, daemon=True).start()

    def say(self, text: str) -> None:
        """Log one line of the agent's own."""
        self.put(f"[rlaunch-node] {self._label} {text}".encode("utf-8", "replace"))

    def put(self, line: bytes) -> None:
        """Log one line of anybody's, without its newline."""
        self.last.append(line)
        if NOTEWORTHY.search(line):
            self.noteworthy.append(line)
        stamp = f"{now()} ".encode() if self._path else b""
        whole = stamp + line + b"\n"
        with self._more:
            if self._size + len(whole) > ROOM:
                self._lost += 1
                return
            self._lines.append(whole)
            self._size += len(whole)
            self._more.notify()

    def drain(self, timeout: float) -> None:
        """Wait until everything is written, at most `timeout` seconds."""
        deadline = time.monotonic() + timeout
        while (self._lines or self._writing) and time.monotonic() < deadline:
            time.sleep(0.01)

    def _open(self) -> int:
        if not self._path:
            return sys.stdout.fileno()
        os.makedirs(os.path.dirname(self._path) or ".", exist_ok=True)
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def _write(self) -> None:
        while True:
            with self._more:
                while not self._lines:
                    self._more.wait()
                batch = b"".join(self._lines)
                count = len(self._lines)
                self._lines.clear()
                self._size = 0
                self._writing = True
                lost, self._lost = self._lost, 0
            if lost:
                batch += f"[rlaunch-node] {self._label} lost {lost} lines: no room\n".encode()
            if not self._write_whole(batch):
                with self._more:
                    self._lost += count + lost
            self._writing = False

    def _write_whole(self, batch: bytes) -> bool:
        """Write, trying for a few seconds; False where the disk does not take it."""
        view = memoryview(batch)
        for _ in range(20):
            with contextlib.suppress(OSError):
                while view:
                    view = view[os.write(self._descriptor, view) :]
                return True
            time.sleep(0.25)
        return False


class Pump:
    """Takes a child's pipe apart into lines, as they come."""

    def __init__(self, loop: Loop, descriptor: int, take: Callable[[bytes], None]) -> None:
        self.closed = False
        self.heard_at = time.monotonic()
        self._loop = loop
        self._descriptor = descriptor
        self._take = take
        self._rest = b""
        os.set_blocking(descriptor, False)
        loop.watch(descriptor, selectors.EVENT_READ, self._read)

    def close(self) -> None:
        """Take what is there and stop reading."""
        self._read(0)
        self._finish()

    def _read(self, mask: int) -> None:
        for _ in range(16):  # let the others have their turn
            if self.closed:
                return
            try:
                data = os.read(self._descriptor, 1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self._finish()
                return
            self.heard_at = time.monotonic()
            self._cut(data)

    def _cut(self, data: bytes) -> None:
        text = self._rest + data
        held = b"\r" if text.endswith(b"\r") else b""  # its newline may be on the way
        text = text[: len(text) - len(held)].replace(b"\r\n", b"\n")
        *lines, rest = text.replace(b"\r", b"\n").split(b"\n")  # a progress bar rewrites its line
        self._rest = rest + held
        for line in lines:
            self._take(line)
        if len(self._rest) > LONGEST_LINE:
            self._take(self._rest)
            self._rest = b""

    def _finish(self) -> None:
        if self.closed:
            return
        self.closed = True
        if self._rest:
            self._take(self._rest.rstrip(b"\r"))
        self._loop.drop(self._descriptor)
        os.close(self._descriptor)


def save_ends(source: str, target: str, *, size: int = 1 << 18, files: int = 60) -> None:
    """Copy the last `size` bytes of the newest non-empty log files; at most one second."""
    deadline = time.monotonic() + 1.0
    entries = [entry for entry in os.scandir(source) if entry.is_file() and entry.stat().st_size]
    entries.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
    os.makedirs(target, exist_ok=True)
    for entry in entries[:files]:
        if time.monotonic() > deadline:
            return
        with open(entry.path, "rb") as log, open(os.path.join(target, entry.name), "wb") as copy:
            log.seek(max(0, entry.stat().st_size - size))
            copy.write(log.read(size))
