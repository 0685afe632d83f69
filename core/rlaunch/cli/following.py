"""Progress while a launch is waited for: state, time, and the last line of output, on a terminal.

Only what is shown comes from here. Whether the run goes on is decided by the state poll alone.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from rlaunch.errors import RlaunchError

if TYPE_CHECKING:
    from types import TracebackType

    from rlaunch.cli.speak import Voice
    from rlaunch.model import Status
    from rlaunch.watching import Job
    from rlaunch.world import World


class Follower:
    """Shows a line in place once a second while it is open; on no terminal it does nothing."""

    def __init__(self, voice: Voice, world: World, job: Job) -> None:
        self._voice, self._world, self._job = voice, world, job
        self._status: Status | None = None
        self._line = ""
        self._began = time.monotonic()
        self._over = threading.Event()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Follower:
        if self._voice.terminal:
            self._ticker.start()
            threading.Thread(target=self._read, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        if self._ticker.is_alive():
            self._ticker.join(2)

    def now(self, status: Status) -> None:
        """Take note of the state to show."""
        self._status = status

    def text(self) -> str:
        """Return the line as it stands: `RUNNING 1:05 … the last line of rank 0`."""
        minutes, seconds = divmod(int(time.monotonic() - self._began), 60)
        state = self._status.state if self._status is not None else "…"
        return f"{state} {minutes}:{seconds:02d}  {self._line}".rstrip()

    def _tick(self) -> None:
        while not self._over.wait(1.0):
            self._voice.progress(self.text())

    def _read(self) -> None:
        from rlaunch import flow

        try:
            for line in flow.logs(self._world, self._job, follow=True, rank=0):
                self._line = line.text.strip()
                if self._over.is_set():
                    return
        except RlaunchError:
            return  # output is a nicety here; `rlaunch logs` tells why it cannot be had
