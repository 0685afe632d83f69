"""A process that outlives the agent for a moment, so that nothing else outlives it for longer.

The kernel kills the agent's own children with it, and Ray's with them, but not what those have started (Ray's
dashboard and environment agents, the driver's children). The warden holds the other end of a pipe; when it
closes without a farewell, the agent was killed, and the warden kills whatever carries the node's marks, or
lives in a session that the agent has named.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping

from .children import sweep

ROUNDS = 5


def post_warden(marks: Mapping[str, str], *, spare: int | None, folder: str) -> int:
    """Fork the warden; returns the descriptor to keep open and to say `dismiss` with.

    Call it before there are threads. `spare` is a descriptor that the warden must not hold, `folder` a
    directory that it removes where the agent was killed.
    """
    read_end, write_end = os.pipe()
    if os.fork():
        os.close(read_end)
        return write_end
    try:
        os.setsid()
        os.close(write_end)
        if spare is not None:
            os.close(spare)
        null = os.open(os.devnull, os.O_RDWR)
        for standard in (0, 1, 2):
            os.dup2(null, standard)
        _watch(read_end, marks, folder)
    finally:
        os._exit(0)


def name_session(write_end: int, session: int) -> None:
    """Tell the warden of a session of the agent's."""
    with contextlib.suppress(OSError):  # it may be gone already
        os.write(write_end, b"%d\n" % session)


def dismiss(write_end: int) -> None:
    """Tell the warden that the agent ends by itself."""
    with contextlib.suppress(OSError):  # it may be gone already
        os.write(write_end, b".")
    os.close(write_end)


def _watch(read_end: int, marks: Mapping[str, str], folder: str) -> None:
    heard = b""
    while said := os.read(read_end, 4096):
        heard += said
        if b"." in said:
            return
    sessions = {int(word) for word in heard.split()}
    for _ in range(ROUNDS):  # what is being started right now shows up a moment later
        sweep(marks, 2.0, sessions=sessions)
        time.sleep(0.3)
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
