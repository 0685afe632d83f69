"""The supervisor of one run: `PYTHON -m rlaunch_local.supervisor RUN_DIR`.

It outlives the terminal, starts the agents of an attempt, notes where the run stands in `state.json`,
starts a new attempt after a failure while retries are left, and removes what must not stay. It reads
`plan.json` and decides nothing that is not in there. It prints `ready` once it lives; from then on its
output is `supervisor.log`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlaunch.model import State
from rlaunch_local import proc, statefile
from rlaunch_local.gang import Gang
from rlaunch_local.inheritance import inherited
from rlaunch_local.statefile import Snapshot
from rlaunch_local.verdict import Verdict, again, judge, name

LOG = "supervisor.log"
READY, PORT_BUSY = "ready\n", "port-busy\n"
"""What it says to the submitting process."""
FASTEST, SLOWEST = 0.25, 1.0
"""Seconds between two looks at the head's phase during bring-up; none once it runs."""
RETRY_S = 1.0
"""Before the next attempt: ports in TIME_WAIT do not matter, but a crash loop should not spin."""


class Supervisor:
    """One run on this machine, from the first attempt to the last."""

    def __init__(self, run_dir: Path) -> None:
        plan = json.loads((run_dir / "plan.json").read_text(encoding="utf-8"))
        self.run_dir, self.run, self.native = run_dir, str(plan["run"]["id"]), plan["native"]
        self.rendezvous = Path(self.native["rendezvous"])
        self.ranks: list[dict[str, Any]] = self.native["ranks"]
        self.asked = ""
        """`stopped` or `terminated`, once somebody has asked for the end."""
        self.started = time.monotonic()
        self.wakeup, write_end = os.pipe()
        for end in (self.wakeup, write_end):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._ask)
        signal.signal(signal.SIGHUP, lambda number, frame: None)  # SIG_IGN would be the agents' too
        self.guards: list[socket.socket] = []
        self.snapshot = Snapshot(self.run, State.PENDING, supervisor=proc.identify(os.getpid()))

    def _ask(self, number: int, frame: object) -> None:
        by_stop = (self.run_dir / statefile.STOP).exists()
        self.asked = self.asked or ("stopped" if by_stop else "terminated")

    def guard(self) -> bool:
        """Listen on the guard port of every node: no later run finds its block of ports free.

        False when another run, or another program, was faster.
        """
        try:
            for node in self.ranks:
                self.guards.append(socket.create_server(("127.0.0.1", node["guard"]), backlog=1))
        except OSError:
            self.forget_secrets()
            return False
        return True

    def heed_stop(self) -> None:
        """End at once where `stop` came before we could be signalled."""
        if (self.run_dir / statefile.STOP).exists():
            self.asked = "stopped"

    def note(self, state: State, **changes: Any) -> None:
        """Write a transition."""
        self.snapshot = self.snapshot._replace(state=state, since=statefile.now(), **changes)
        statefile.write(self.run_dir, self.snapshot)
        said = " ".join(f"{k}={v}" for k, v in changes.items() if v and k != "agents")
        say(f"attempt={self.snapshot.attempt} {state} {said}".rstrip())

    def supervise(self) -> None:
        """Run attempts until one succeeds, none is left, or somebody asks for the end."""
        last: Verdict | None = None
        base = Path(self.native["ray_temp"])
        base.mkdir(mode=0o700)
        try:
            for attempt in range(1, int(self.native["max_retries"]) + 2):
                verdict = Verdict(State.KILLED, self.asked) if self.asked else self.attempt(attempt)
                ended = (
                    verdict.state in {State.SUCCEEDED, State.KILLED} or verdict.reason == "timeout"
                )
                if ended or attempt > self.native["max_retries"]:
                    break
                if again(last, verdict):
                    say(f"attempt={attempt} failed as the one before: no further attempt")
                    told = f"{verdict.detail} (failed the same way twice, so retries stopped)"
                    verdict = verdict._replace(detail=told.strip())
                    break
                last = verdict
                self.pause(attempt, verdict)
        finally:
            self.forget_secrets()
            shutil.rmtree(base, ignore_errors=True)
        self.finish(verdict)

    def pause(self, attempt: int, verdict: Verdict) -> None:
        """Say that another attempt follows, and wait a moment."""
        code = "" if verdict.exit_code is None else f" (exit code {verdict.exit_code})"
        told = f"attempt {attempt} ended: {verdict.reason}{code}"
        self.note(State.STARTING, reason="retry", detail=told, attempt=attempt + 1, agents=())
        end = time.monotonic() + RETRY_S
        while not self.asked and time.monotonic() < end:
            time.sleep(0.1)

    def attempt(self, attempt: int) -> Verdict:
        """Run one attempt to its end and clear it away."""
        self.note(State.STARTING, attempt=attempt)
        gang = Gang(self.run, attempt, self.wakeup)
        cause, counted = "failed", 0
        try:
            (Path(self.native["ray_temp"]) / str(attempt)).mkdir(mode=0o700)
            for spec in self.ranks:
                Path(self.run_dir, "work", str(spec["rank"])).mkdir(parents=True, exist_ok=True)
            environ = inherited(self.native["inherit"], os.environ)
            gang.start(self.ranks, environ, self.run_dir / "logs" / str(attempt))
            self.snapshot = self.snapshot._replace(agents=gang.agents)
            statefile.update(self.run_dir, self.snapshot)
            cause = self.attend(gang, attempt)
            counted = len(gang.ends)
            if cause != "ended":
                self.note(State.STOPPING, reason=cause)
        finally:
            killed = gang.close(float(self.native["grace_s"]))
        if killed:
            say(f"attempt={attempt} processes ended by SIGKILL: {killed}")
        for end in gang.ends:
            how = f"exit code {end.exit_code}" if end.signal is None else name(end.signal)
            say(f"attempt={attempt} rank={end.rank} agent ended: {how}")
        self.snapshot = self.snapshot._replace(agents=gang.agents)
        outcome = statefile.outcome(self.rendezvous, self.run, attempt)
        records = statefile.records(self.rendezvous, self.run, attempt, len(self.ranks))
        return judge(cause, gang.ends[:counted], outcome, records)

    def attend(self, gang: Gang, attempt: int) -> str:
        """Wait until the gang is over; returns why: `ended`, `stopped`, `terminated` or `timeout`."""
        look, running, limit = FASTEST, False, None
        while gang.left:
            if self.asked:
                return self.asked
            if self.remaining() <= 0:
                return "timeout"
            if gang.ends and limit is None:
                limit = time.monotonic() + self.patience(gang, attempt)
            if limit is not None and time.monotonic() >= limit:
                return "ended"
            if not running:
                if running := self.see_running(attempt):
                    gang.look()
                look = min(SLOWEST, look * 1.1)
            waits = [self.remaining()]
            waits += [] if running else [look]
            waits += [] if limit is None else [limit - time.monotonic()]
            gang.wait(min(waits))
        return "ended"

    def patience(self, gang: Gang, attempt: int) -> float:
        """Return how long the others may stay after the first agent has ended, in seconds."""
        first = gang.ends[0]
        won = statefile.outcome(self.rendezvous, self.run, attempt).get("outcome") == "succeeded"
        gang.look()
        return float(self.native["farewell_s" if won and first.exit_code == 0 else "settle_s"])

    def remaining(self) -> float:
        """Return the seconds until the run's time limit; a day where it has none."""
        limit = self.native["timeout_s"]
        return 86400.0 if limit is None else self.started + float(limit) - time.monotonic()

    def see_running(self, attempt: int) -> bool:
        """Note RUNNING once the head's own record says that the driver runs."""
        head = statefile.records(self.rendezvous, self.run, attempt, 1).get(0, {})
        if head.get("phase") == "running":
            self.note(State.RUNNING, reason="", detail="")
        return head.get("phase") in {"running", "stopping", "ended"}

    def forget_secrets(self) -> None:
        """Remove the file of secrets: no further attempt will read it."""
        if secrets := self.native["secrets_file"]:
            Path(secrets).unlink(missing_ok=True)

    def finish(self, verdict: Verdict) -> None:
        """Write the last state."""
        self.note(
            verdict.state,
            reason=verdict.reason,
            exit_code=verdict.exit_code,
            signal=verdict.signal,
            detail=verdict.detail,
        )


def say(text: str) -> None:
    """Write one line to the supervisor's log."""
    sys.stderr.write(f"{statefile.now()} [rlaunch-local] {text}\n")
    sys.stderr.flush()


def main(run_dir: Path) -> int:
    """Leave the terminal and the parent, tell that we live, and supervise the run."""
    if os.fork():
        os._exit(0)  # the child is nobody's child now: no zombie stays with a launcher that waits
    os.chdir(run_dir)
    supervisor = Supervisor(run_dir)
    if not proc.alive(statefile.read(run_dir).supervisor):
        say("the submitting process is gone: the run counts as lost already, and is not begun")
        supervisor.forget_secrets()
        return 1
    if not supervisor.guard():
        sys.stdout.write(PORT_BUSY)
        return 1
    try:
        supervisor.note(State.PENDING)
        supervisor.heed_stop()
        with suppress(BrokenPipeError):  # the submitting process has just gone: the run goes on
            sys.stdout.write(READY)
            sys.stdout.flush()
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        supervisor.supervise()
    except Exception as error:  # noqa: BLE001  # the run must not stay without an end
        traceback.print_exc()
        supervisor.forget_secrets()
        supervisor.finish(Verdict(State.FAILED, "supervisor-error", detail=f"{error!r}"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
