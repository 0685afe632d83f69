"""A cluster for tests of the command line: it says the states that a test wrote down, one a poll.

`$SCRIPTED_DIR/states.json` is a list of `[STATE, reason, attempt, exit code]`; the last one stays.
`lines.json` has `[text, rank, attempt]`. What it was asked to do is appended to `asked.txt`.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlaunch.cluster import Cluster, LogQuery, PreflightQuery, Report
from rlaunch.codes import Code
from rlaunch.errors import ClusterError
from rlaunch.hooks import hookimpl
from rlaunch.model import (
    Command,
    Finding,
    JobRef,
    LogLine,
    Observed,
    Plan,
    Rank,
    Run,
    State,
    Status,
)
from rlaunch.profiles import Profile

PROFILES = {"scripted": str(Path(__file__).with_name("scripted.yaml"))}
DEFAULT_PROFILE = "scripted"
CODES = (Code("scripted.full", "No node is free.\n\nA test says so."),)


def _script(name: str) -> Any:
    path = Path(os.environ["SCRIPTED_DIR"], name)
    return json.loads(path.read_text()) if path.exists() else []


class Scripted(Cluster):
    """See the module."""

    Profile = Profile
    checks = ("room",)

    def _note(self, what: str) -> None:
        with Path(os.environ["SCRIPTED_DIR"], "asked.txt").open("a") as file:
            file.write(f"{what}\n")

    def plan(self, run: Run, command: Command, observed: Observed) -> Plan:
        native = {"argv": list(command.argv), "nodes": run.nodes}
        return Plan(run, command, dict(run.env), run.secrets, (), (), (), native, observed)

    def preflight(self, query: PreflightQuery) -> Iterable[Finding]:
        if "room" not in query.skip and (Path(os.environ["SCRIPTED_DIR"]) / "full").exists():
            yield Finding("error", "scripted.full", "no node is free", "preflight", "wait")
        if (Path(os.environ["SCRIPTED_DIR"]) / "early").exists():
            raise KeyboardInterrupt

    def submit(self, plan: Plan, secrets: Mapping[str, str], report: Report) -> JobRef:
        report("sending")
        self._note(f"submit {plan.run.id} {' '.join(sorted(secrets))}".rstrip())
        if (Path(os.environ["SCRIPTED_DIR"]) / "down").exists():
            raise ClusterError(Finding("error", "scripted.down", "the scheduler is down"))
        if (Path(os.environ["SCRIPTED_DIR"]) / "sent").exists():
            raise KeyboardInterrupt
        return JobRef(plan.run.cluster, plan.run.id, plan.run.id)

    def status(self, refs: Sequence[JobRef]) -> Mapping[JobRef, Status]:
        states = _script("states.json")
        if not states:
            return {ref: Status(ref, State.ABSENT) for ref in refs}
        first, *rest = states
        if rest:
            Path(os.environ["SCRIPTED_DIR"], "states.json").write_text(json.dumps(rest))
        if first[0] == "INTERRUPT":
            raise KeyboardInterrupt
        state, reason, attempt, code = first
        since = "2026-01-01T00:00:00Z"
        ranks = tuple(Rank(*fields) for fields in _script("ranks.json"))
        return {r: Status(r, State(state), reason, since, attempt, code, None, ranks) for r in refs}

    def logs(self, query: LogQuery) -> Iterator[LogLine]:
        for text, rank, attempt in _script("lines.json"):
            if query.rank in (None, rank) and query.attempt in (None, attempt):
                yield LogLine(text, rank, attempt, "2026-01-01T00:00:01Z")

    def stop(self, ref: JobRef) -> None:
        self._note(f"stop {ref.native}")
        killed = json.dumps([["KILLED", "terminated", 1, None]])
        Path(os.environ["SCRIPTED_DIR"], "states.json").write_text(killed)


@hookimpl
def rlaunch_cluster() -> type[Cluster]:
    return Scripted
