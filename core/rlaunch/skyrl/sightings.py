"""What the newest attempt's log says about a SkyRL run, gathered in one pass. Pure."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from rlaunch import logscan
from rlaunch.logscan import Hit
from rlaunch.model import Evidence, LogLine
from rlaunch.skyrl import milestones
from rlaunch.skyrl.signatures import SIGNATURES

WATCHDOG = "watchdog"
TIMEOUT = "timeout"
ABORT = "abort"
NO_WEIGHTS = "no weights"
NO_TESTS = "no tests"
NOT_VERIFIED = "not verified"
SOCKETS = "sockets"
END = "end"

_PATTERNS: Mapping[str, str] = {
    **{signature.code: signature.pattern for signature in SIGNATURES},
    WATCHDOG: r"Watchdog.* ran for \d+",
    TIMEOUT: r"^(?!.*Watchdog).*WorkNCCL.*[Tt]im(?:eout|ed out|ing out)",
    ABORT: r"taking the entire process down|watchdog got stuck for|Fatal Python error: Aborted",
    NO_WEIGHTS: r"does not appear to have a file named model\.safetensors",
    NO_TESTS: r"AddTestsDirError",
    NOT_VERIFIED: r"VerificationNotCompletedError",
    SOCKETS: r"NET/Socket : Using",
    END: r"Reached max training steps \(\d+\)|Training done!",
    "staging": milestones.STAGING,
    "staged": milestones.STAGED,
    "gang": rf"{milestones.GANG}|{milestones.STEPS}",
    "weights": milestones.WEIGHTS,
    "started": r"Started: '([^']+)'",
    "finished": r"Finished: '([^']+)', time cost",
    "reward": r"avg_final_rewards: (-?[\d.]+(?:[eE][-+]?\d+)?)",
    "buffer": r"Generation Buffer Progress:.*?(\d+)/(\d+) \[(?:(\d+):)?(\d+):(\d+)<",
    "engine": r"Engine (\d+): Avg prompt throughput: .*"
    r"Avg generation throughput: ([\d.]+) tokens/s, Running: (\d+) reqs, Waiting: (\d+) reqs",
}
_ENGINE_OF = re.compile(r"\bpid=(\d+)(?:, ip=([\d.:a-f]+))?")
_RETRY = re.compile(r"attempt \d+/\d+; retrying")

_DAY_S = 86400

_RECENT = 12
"""Reports of one engine, and states of the buffer, that are looked back on."""


class Sighting(NamedTuple):
    """How often a line was seen, and its first appearance."""

    times: int
    first: LogLine


class Report(NamedTuple):
    """One line of an engine's statistics."""

    speed: float
    """Generated tokens per second."""
    running: int
    waiting: int
    line: LogLine


class Fill(NamedTuple):
    """One line of the generation buffer's progress."""

    done: int
    size: int
    elapsed_s: int
    line: LogLine


class Sightings:
    """Everything that the rules look at, from one pass over the lines."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.attempt, self.lines = logscan.newest_attempt(evidence)
        self.seen: dict[str, Sighting] = {}
        self.engines: dict[tuple[str, ...], deque[Report]] = {}
        self.buffer: deque[Fill] = deque(maxlen=_RECENT)
        self.open_phases: list[str] = []
        """Phases of the training loop that have started and not finished, oldest first."""
        self.rewards: list[float] = []
        self.staging: dict[int, LogLine] = {}
        self.staged: set[int] = set()
        self.nodes = evidence.facts.nodes or 0
        names = tuple(_PATTERNS)
        for hit in logscan.search(self.lines, tuple(_PATTERNS.values())):
            self._take(names[hit.key], hit)

    def __contains__(self, name: str) -> bool:
        return name in self.seen

    def __getitem__(self, name: str) -> Sighting:
        return self.seen[name]

    def _take(self, name: str, hit: Hit) -> None:
        line, match = hit.line, hit.match
        if name == NO_WEIGHTS and _RETRY.search(line.text):
            return
        if name == "weights":
            self.seen.pop(NO_WEIGHTS, None)  # it went well in the end
        if name == "engine":
            self._report(hit)
        elif name == "buffer":
            hours, minutes, seconds = (int(part or 0) for part in match.group(3, 4, 5))
            elapsed = 3600 * hours + 60 * minutes + seconds
            self.buffer.append(Fill(int(match[1]), int(match[2]), elapsed, line))
        elif name == "started":
            self.open_phases.append(match[1])
        elif name == "finished" and match[1] in self.open_phases:
            self.open_phases.remove(match[1])
        elif name == "reward":
            self.rewards.append(float(match[1]))
        elif name in ("staging", "staged") and line.rank is not None:
            self.nodes = self.nodes or logscan.nodes_told(line) or 0
            if name == "staged":
                self.staged.add(line.rank)
            self.staging.setdefault(line.rank, line)
        before = self.seen.get(name, Sighting(0, line))
        self.seen[name] = before._replace(times=before.times + 1 + logscan.repeats(line))

    def _report(self, hit: Hit) -> None:
        # every vLLM process calls its engine 000: the actor's process tells them apart
        owner = _ENGINE_OF.search(hit.line.text)
        key = (hit.match[1], *(owner.groups("") if owner else ()))
        reports = self.engines.setdefault(key, deque(maxlen=_RECENT))
        speed, running, waiting = float(hit.match[2]), int(hit.match[3]), int(hit.match[4])
        reports.append(Report(speed, running, waiting, hit.line))

    def silent_s(self) -> float | None:
        """Return the seconds between the newest line and now; None where the lines carry no time.

        Iris's prefix has a time of day and no date; it is taken as UTC within the last twelve hours.
        """
        newest = max(
            (line for line in self.lines if line.at), key=lambda line: line.at, default=None
        )
        told = [newest] if newest else _last_of_ranks(self.lines)
        return min((age for line in told if (age := self.age_s(line)) is not None), default=None)

    def age_s(self, line: LogLine) -> float | None:
        """Return the seconds between a line and now; None where the line carries no time."""
        now = datetime.fromisoformat(self.evidence.now)
        if line.at:
            return (now - datetime.fromisoformat(line.at)).total_seconds()
        told = logscan.clock_of(line)
        if told is None:
            return None
        age = (3600 * now.hour + 60 * now.minute + now.second - told) % _DAY_S
        return float(age) if age < _DAY_S / 2 else None


def _last_of_ranks(lines: Sequence[LogLine]) -> list[LogLine]:
    last: dict[int | None, LogLine] = {}
    for line in reversed(lines[-5000:]):
        last.setdefault(logscan.rank_of(line), line)
    return list(last.values())
