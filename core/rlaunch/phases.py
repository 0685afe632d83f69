"""How far each node of a gang had come before there was a driver, and what it said last. Pure.

By the node agent's own lines (`[rlaunch-node] rank=R/N …`). An older launcher's lines have another mark,
so nothing is concluded from what they lack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from rlaunch import logscan
from rlaunch.model import Evidence, LogLine, Status
from rlaunch.texts import brief

RUNNING = "running"
_LAUNCH = re.compile(r"Launching .*training driver")
_BEGIN = (
    ("staging", re.compile(r"Staging train_data on this node")),
    ("rendezvous", re.compile(r"train_data staged to node-local paths|Polling for rendezvous")),
    ("ray", re.compile(r"Starting Ray (?:HEAD|WORKER)")),
    ("joining", re.compile(r"Waiting for \d+ Ray node\(s\) at|joined Ray cluster at")),
    ("ready", re.compile(r"All \d+ Ray node\(s\) joined")),
    (RUNNING, _LAUNCH),
)
"""Phase -> what an agent says when it begins."""
_AGENT = re.compile(r"\[rlaunch-node\] rank=\d+/\d+ attempt=\d+ (?P<said>.*)", re.DOTALL)
_MARK = re.compile(
    r"\[(?:(?P<ray>ray)|(?P<older>task-runtime|start_rl_iris_controller|rl-iris)|rlaunch-[a-z]+)\](?: |$)"
)
_HEAD = 160
"""A mark stands within so many characters of a line, behind what transports put before it."""
_TRANSPORT = re.compile(
    r"(?:\d{4}-\d\d-\d\dT\S+Z )?(?:\[\d\d:\d\d:\d\d\] task=\S+ \| ?)?(?:\d{4}-\d\d-\d\dT\S+Z )?"
)
_STOPPING = re.compile(r"Stopping: (?P<reason>[a-z-]+): (?P<detail>.*)", re.DOTALL)
_CULPRIT = re.compile(r"rank (\d+)\b")

BEFORE = frozenset({"staging-failed", "rank-missing", "version-mismatch", "bad-flags"})
"""Reasons of an end that comes before the driver, whatever the log has."""


class Told(NamedTuple):
    """What the lines of one rank tell."""

    phase: str = ""
    """The last that it began: `starting`, `staging`, …, `running`; empty where no agent spoke."""
    word: str = ""
    """The last line in that phase that is not the agent's own: the staging program's, Ray's, the driver's."""
    said: str = ""
    """The agent's own last line before it stopped, without its mark."""
    reason: str = ""
    """Why it stopped, by its own word; empty where it left none."""
    detail: str = ""


def read(lines: Iterable[LogLine]) -> Mapping[int, Told]:
    """Return what each rank tells; lines of no rank are taken for rank 0's."""
    found: dict[int, _Rank] = {}
    for line in lines:
        rank = line.rank if line.rank is not None else logscan.rank_of(line) or 0
        if rank not in found:
            found[rank] = _Rank()
        found[rank].hear(line.text)
    return {rank: one.told() for rank, one in found.items()}


class _Rank:
    """Listens to one rank; most lines have no mark and cost one look for it."""

    def __init__(self) -> None:
        self._told = Told()
        self._word = ""
        self._leaving = False

    def hear(self, text: str) -> None:
        if self._leaving:  # before it had a driver
            return
        mark = _MARK.search(text, 0, _HEAD)
        if mark is None:
            if text and not text.isspace():
                self._word = text
        elif mark["older"]:
            if _LAUNCH.search(text):
                self._told, self._word = Told(RUNNING), ""
        elif mark["ray"]:
            if self._told.phase not in ("", RUNNING):
                self._word = text
        elif (agent := _AGENT.search(text)) and not self._told.reason:
            self._heed(agent["said"].strip())

    def _heed(self, said: str) -> None:
        if end := _STOPPING.match(said):
            self._told = self._told._replace(reason=end["reason"], detail=end["detail"])
            self._leaving = self._told.phase != RUNNING
            return
        phase = next((phase for phase, pattern in _BEGIN if pattern.match(said)), "")
        if phase:
            self._told, self._word = Told(phase, said=said), ""
        else:
            self._told = self._told._replace(phase=self._told.phase or "starting", said=said)

    def told(self) -> Told:
        match = _TRANSPORT.match(self._word)
        return self._told._replace(word=self._word[match.end() if match else 0 :].strip())


def last_words(evidence: Evidence) -> Iterator[str]:
    """Say whether an ended run ever had a driver, and quote what printed last.

    "The driver's last line" is said only of a driver that was launched; else the phase that ended the
    run is named, with the last line of what ran in it.
    """
    status = evidence.states[-1]
    told = read(logscan.newest_attempt(evidence)[1])
    head = told.get(0, Told())
    if head.phase == RUNNING or status.reason.startswith("driver-"):
        yield from _quoted("the driver's last line", head.word)
    elif status.reason not in BEFORE and not head.phase:
        yield from _quoted("the last line of rank 0", head.word)
    else:
        yield from _without_driver(status, told)


def _without_driver(status: Status, told: Mapping[int, Told]) -> Iterator[str]:
    rank = culprit(status, told)
    one = told.get(rank, Told())
    phase = "staging" if status.reason == "staging-failed" else one.phase
    where = f"rank {rank} was in the phase `{phase}`" if phase else f"the run ended for rank {rank}"
    yield f"the driver was not launched: {where}"
    if one.detail and not status.native.get("detail"):
        yield f"{one.reason}: {brief(one.detail)}"
    whose = {"staging": "the staging program", "ray": "Ray", "joining": "Ray"}.get(phase)
    if whose and one.word:
        yield from _quoted(f"{whose}'s last line (rank {rank})", one.word)
    else:
        yield from _quoted(f"the node agent's last line (rank {rank})", one.said)


def _quoted(whose: str, text: str) -> Iterator[str]:
    if text:
        yield f"{whose}: `{text[-300:]}`"


def culprit(status: Status, told: Mapping[int, Told]) -> int:
    """Return the rank that ended the run: the one that is blamed, else the first that says so of itself."""
    blames = (str(status.native.get("detail") or ""), *(told[rank].detail for rank in sorted(told)))
    for text in blames:
        if found := _CULPRIT.match(text):
            return int(found[1])
    own = (rank for rank in told if told[rank].reason and _own(rank, told))
    return min(own, key=lambda rank: (told[rank].reason != status.reason, rank), default=0)


def _own(rank: int, told: Mapping[int, Told]) -> bool:
    """True where a rank stopped for what happened on it, and not for what another one had told it."""
    one, head = told[rank], told.get(0, Told())
    if _CULPRIT.match(one.detail):
        return False
    return not rank or one.detail != head.detail or bool(one.word and one.word[:200] in one.detail)


def failed_in(phases: Sequence[str], status: Status, told: Mapping[int, Told]) -> Mapping[int, str]:
    """Return rank -> why, of the ranks that ended in one of these phases for their own fault."""
    found = {
        rank: f"{one.reason}: {brief(one.detail)}"
        for rank, one in told.items()
        if one.reason and one.phase in phases and _own(rank, told)
    }
    detail = str(status.native.get("detail") or "")
    if status.reason == "staging-failed" and "staging" in phases and not found:
        found[culprit(status, told)] = f"staging-failed: {brief(detail)}".rstrip(": ")
    return dict(sorted(found.items()))
