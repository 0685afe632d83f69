"""Stand-ins for the world: a shell that answers from a script, a clock that a test turns, a queue.

A fake stands where the real thing cannot run, and answers what the real thing would; none of them
replaces code of rlaunch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from rlaunch.shell import Done, Shell
from rlaunch.testing import probe

Answer = Callable[[tuple[str, ...], str | None], Done | None]
"""Takes argv and stdin, returns what the command did; None: not its command."""


class FakeClock:
    """A clock that stands still until `sleep`, or a test, moves it.

    `skew` seconds are added to what `now` says and not to `monotonic`: a machine whose clock is wrong.
    """

    def __init__(self, start: str = "2026-01-02T03:04:05Z", skew: float = 0.0) -> None:
        self._start = datetime.fromisoformat(start)
        self._passed = 0.0
        self.skew = skew

    def now(self) -> str:
        """Return the time as RFC 3339 in UTC, to the millisecond."""
        moment = self._start + timedelta(seconds=self._passed + self.skew)
        text = moment.astimezone(UTC).isoformat(timespec="milliseconds")
        return text.replace("+00:00", "Z")

    def monotonic(self) -> float:
        """Return the seconds that have passed since the clock was made."""
        return self._passed

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self._passed += seconds


class FakeShell(Shell):
    """Answers commands by the function it was given, and keeps every call.

    Without a function, or where it returns None, a command is a fault of the test: AssertionError.
    `spoiled` answers instead of everything else once it is set.
    """

    def __init__(self, answer: Answer | None = None) -> None:
        self._answer = answer
        self.calls: list[tuple[str, ...]] = []
        self.spoiled: Done | None = None

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | None = None,
        timeout: float = 60.0,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Done:
        """Return the scripted answer; `timeout`, `cwd` and `env` are taken and not used."""
        words = tuple(argv)
        self.calls.append(words)
        if self.spoiled is not None:
            return self.spoiled._replace(argv=words)
        done = self._answer(words, stdin) if self._answer else None
        assert done is not None, f"nobody answers `{' '.join(words)}`"
        return done


class Job(NamedTuple):
    """One job of the fake queue."""

    word: str
    """The queue's own word for its state."""
    code: int | None = None
    lines: tuple[str, ...] = ()


class FakeQueue:
    """A batch queue of one command, `queue`, kept in memory; what it runs are real processes.

        queue submit               request as JSON on stdin: {"argv", "env", "nodes"}; prints the job's id
        queue show ID...           one line for each job that it knows: `ID WORD EXIT-CODE`
        queue log ID               the job's lines
        queue cancel ID

    `words` are all states that it can say. A probe that hangs is held as running until it is cancelled.
    """

    words = ("QUEUED", "RUN", "DONE", "EXIT", "CANCELLED")

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.requests: dict[str, str] = {}

    def answer(self, argv: tuple[str, ...], stdin: str | None) -> Done | None:
        """Answer one command; None for a command that is not `queue`."""
        match argv:
            case ("queue", "submit"):
                return Done(argv, 0, f"{self._take(stdin or '')}\n", "")
            case ("queue", "show", *ids):
                rows = [self._row(i) for i in ids if i in self.jobs]
                return Done(argv, 0, "".join(rows), "")
            case ("queue", "log", one) if one in self.jobs:
                return Done(argv, 0, "".join(f"{t}\n" for t in self.jobs[one].lines), "")
            case ("queue", "log" | "cancel", one) if one not in self.jobs:
                return Done(argv, 4, "", f"queue: no job {one}\n")
            case ("queue", "cancel", one):
                if self.jobs[one].word in ("QUEUED", "RUN"):
                    self.jobs[one] = self.jobs[one]._replace(word="CANCELLED")
                return Done(argv, 0, "", "")
        return None

    def put(self, word: str, code: int | None = None) -> str:
        """Put a job in a state into the queue and return its id."""
        return self._add(Job(word, code, ("one line",)))

    def _add(self, job: Job) -> str:
        number = str(101 + len(self.jobs))
        self.jobs[number] = job
        return number

    def _row(self, one: str) -> str:
        job = self.jobs[one]
        return f"{one} {job.word} {'-' if job.code is None else job.code}\n"

    def _take(self, text: str) -> str:
        """Run the request to its end, at once; the process is a real one."""
        request = json.loads(text)
        if probe.hangs(request["argv"]):
            number = self._add(Job("RUN", lines=("waiting",)))
        else:
            done = Shell().run(request["argv"], env=request["env"], timeout=120)
            word = "DONE" if done.code == 0 else "EXIT"
            lines = (*done.out.splitlines(), *done.err.splitlines())
            number = self._add(Job(word, done.code, lines))
        self.requests[number] = text
        return number
