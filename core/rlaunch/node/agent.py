"""What both roles share: the rank's record, its children, and the order in which it ends."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import environment, reasons
from .children import Child, reap_strays, sweep
from .courier import Courier
from .flags import Flags, choose_ray_temp
from .loop import Loop
from .output import Log, save_ends
from .rayline import STARTED, Versions, read_versions
from .reasons import Ending, Outcome, fail
from .records import Fence, RankRecord, encode, now, rank_key, term_key
from .samples import Sampler, read_kernel_lines
from .store import open_store

if TYPE_CHECKING:
    from .ports import Ports

HEARTBEAT = 60.0
RESTARTS = 2
TEARDOWN = 10.0
"""Seconds of a lead that are kept for what follows the driver: records, Ray, and the batch script."""
TOO_SLOW = re.compile(
    r"timed out during startup|No node info found for head node|Failed to get head node info"
    r"|Failed to connect to GCS|RpcError|Unable to connect to GCS|session_name"
)
"""What `ray start` says where it, or the head that it joins, only was too slow."""


class Agent:
    """One node's agent. The roles drive it; it owns everything that must be cleaned up."""

    def __init__(self, flags: Flags, log: Log) -> None:
        self.flags = flags
        self.log = log
        self.loop = Loop()
        self.fence = Fence(flags.run_id, flags.attempt)
        self.marks = environment.marks_of(flags)
        self.env = environment.build_environment(flags, os.environ)
        self.courier = Courier(open_store(flags.rendezvous), self.loop)
        os.makedirs(flags.work_dir, exist_ok=True)
        self.cwd = flags.cwd or flags.work_dir
        self.versions: Versions = read_versions(flags.pythonpath)
        self.children: list[Child] = []
        self.ray: Child | None = None
        self.ray_started = False
        self.ray_restarts = 0
        self.ports: Ports | None = None
        self.tell: Callable[[RankRecord], None] = lambda record: None
        """Gets each new record of this rank, beside the store."""
        stamp = now()
        self.record = RankRecord(flags.rank, flags.node_ip, os.getpid(), "", stamp, stamp)
        self.name_session: Callable[[int], None] = lambda session: None
        """Tells the warden of each session."""
        self._made_temp = ""
        self._orphaned = False
        self._sampler: Sampler | None = None

    def open(self) -> None:
        """Begin: signals, lifeline, heartbeat, samples."""
        self.loop.catch_signals(early=self.flags.rank == 0)  # rank 0 tells the others
        if self.flags.lifeline_fd is not None:
            self._hold_lifeline(self.flags.lifeline_fd)
        self.loop.every(HEARTBEAT, self._beat)
        self.loop.every(HEARTBEAT, lambda: reap_strays({child.pid for child in self.children}))
        places = [self.flags.work_dir, tempfile.gettempdir(), "/dev/shm"]  # noqa: S108  # measured
        self._sampler = Sampler(places)

    def enter(self, phase: str, *, staged: dict[str, int] | None = None) -> None:
        """Write this rank's record with a phase (the same one: a heartbeat)."""
        stamp = now()
        since = self.record.since if phase == self.record.phase else stamp
        self.record = self.record._replace(at=stamp, phase=phase, since=since)
        if staged is not None:
            self.record = self.record._replace(staged=staged)
        body = self.fence.mark(**self.record._asdict())
        self.courier.draft(rank_key(self.fence.attempt, self.flags.rank), encode(body))
        self.tell(self.record)

    def _beat(self) -> None:
        if self.record.phase:
            self.enter(self.record.phase)

    def _hold_lifeline(self, descriptor: int) -> None:
        def ready(mask: int) -> None:
            with contextlib.suppress(BlockingIOError):
                try:
                    data = os.read(descriptor, 64)
                except BlockingIOError:
                    raise
                except OSError:
                    data = b""
                if not data:
                    self.loop.drop(descriptor)
                    self._orphaned = True
                    if self.flags.secrets_file:  # its owner, the supervisor, removes it no more
                        with contextlib.suppress(OSError):
                            os.unlink(self.flags.secrets_file)
                    self.loop.hurry()
                    self.loop.end(fail(reasons.SUPERVISOR_LOST, "the supervisor is gone"))

        os.set_blocking(descriptor, False)
        os.set_inheritable(descriptor, False)
        self.loop.watch(descriptor, selectors.EVENT_READ, ready)

    def adopt(self, child: Child) -> None:
        """Answer for a child's end, and for that of its session."""
        self.children.append(child)
        self.name_session(child.pid)

    # Ray

    @property
    def ray_temp(self) -> str:
        """Directory of Ray's session: short, since sockets live in it."""
        return self.flags.ray_temp or choose_ray_temp(self.flags)

    def start_ray(self, argv: list[str], env: dict[str, str]) -> None:
        """Start `ray start --block`; its end ends the attempt with reason `ray-failed`.

        Ray gives its raylet 30 s, which a cold image or a busy host needs alone for its imports; so a start
        that only was too slow is tried again.
        """
        last: list[str] = []

        def take(line: bytes) -> None:
            text = line.decode("utf-8", "replace").strip()
            if text:
                last.append(text)
                del last[:-6]
                self.log.put(b"[ray] " + line)
            if STARTED in line:
                self.ray_started = True

        if not os.path.isdir(self.ray_temp):
            self._made_temp = self.ray_temp
            os.makedirs(self.ray_temp, mode=0o700, exist_ok=True)
        try:
            self.ray = ray = Child(self.loop, argv, env=env, cwd=self.cwd, take=take)
        except OSError as error:
            raise Ending(fail(reasons.RAY_FAILED, f"Ray cannot start: {error}")) from error
        self.adopt(ray)

        def watch() -> None:
            gone = ray.drained or (ray.ended and time.monotonic() - ray.heard_at > 1)
            if self.ray is not ray or self.loop.ending is not None or not gone:
                return
            said = " | ".join(last)
            if not self.ray_started and self.ray_restarts < RESTARTS and TOO_SLOW.search(said):
                self.ray_restarts += 1
                self.log.say(f"Ray was too slow, starting it again: {last[-1]}")
                ray.kill()
                self.start_ray(argv, env)
                return
            detail = f"Ray on rank {self.flags.rank} exited {ray.status}: {said}"
            self.loop.end(fail(reasons.RAY_FAILED, detail[:1500]))

        self.loop.reap(watch)

    # The end

    def kill_at(self, outcome: Outcome) -> float:
        """Return the monotonic time at which everything is killed: 2 s before the grace is over.

        After the early signal it is the lead that counts, where that is longer; what follows the driver's
        end must still fit into it. A SIGTERM meanwhile brings the end nearer, never further away.
        """
        grace = self.flags.grace
        if outcome.reason == reasons.SUPERVISOR_LOST or self._orphaned:
            grace = min(grace, 9.0)
        began = self.loop.ended_at
        assert began is not None  # noqa: S101  # `guard` has said so
        patience = max(0.2, grace - 2)
        if outcome.signal != signal.SIGUSR1:
            return began + patience
        at = began + max(patience, self.flags.lead - min(grace, TEARDOWN))
        hurried = self.loop.hurried_at
        return at if hurried is None else min(at, hurried + patience)

    def outlast(self, outcome: Outcome, done: Callable[[], bool]) -> None:
        """Wait for `done` until everything is killed, whenever that is by now; the loop is shielded."""
        while not done() and (left := self.kill_at(outcome) - time.monotonic()) > 0:
            self.loop.turn(min(left, 5.0))

    def blame(self, outcome: Outcome) -> Outcome:
        """Return a failure with what is known of this node's part in it."""
        if outcome.succeeded or self._sampler is None:
            return outcome
        return reasons.blame_memory(outcome, self._sampler.count_oom_kills())

    def stop(self, outcome: Outcome) -> None:
        """Put the outcome into this rank's record, with phase `stopping`, and send it."""
        self.record = self.record._replace(
            reason=outcome.reason,
            detail=outcome.detail,
            signal=outcome.signal,
            oom_kills=outcome.oom_kills,
        )
        if outcome.reason != reasons.SUPERSEDED:  # the record is somebody else's by now
            self.enter("stopping")

    def write_termination(self, outcome: Outcome) -> None:
        """Write how the node stood, within 2 s, from what was sampled before."""
        sampler = self._sampler
        body = self.fence.mark(
            rank=self.flags.rank,
            node=self.flags.node_ip,
            at=now(),
            reason=outcome.reason,
            detail=outcome.detail,
            signal=outcome.signal,
            oom_kills=outcome.oom_kills,
            samples=[sampler.before, sampler.latest] if sampler else [],
            kernel=read_kernel_lines(),
            noteworthy=[line.decode("utf-8", "replace") for line in self.log.noteworthy],
            last=[line.decode("utf-8", "replace") for line in self.log.last],
        )
        key = term_key(self.fence.attempt, self.flags.rank)
        self.send(key, encode(body), min(2.0, self.flags.grace / 4))

    def send(self, key: str, data: bytes, timeout: float) -> bool:
        """Write to the store while ending; a failure is logged and changes nothing."""
        try:
            self.courier.write(key, data, timeout)
        except Ending as ending:
            self.log.say(f"{key}: {ending.outcome.detail}")
            return False
        return True

    def kill_all(self) -> None:
        """Kill Ray, the driver and all their descendants; never raises."""
        try:
            for child in self.children:
                child.kill()
            # an agent that started nothing has nothing to sweep: what is there is a twin's
            stray = sweep(self.marks) if self.children else 0
            if stray:
                self.log.say(f"Killed {stray} process(es) that had left their session")
            self.loop.until(lambda: all(child.ended for child in self.children), 1.0)
            for child in self.children:
                child.finish()
        except Exception as error:  # noqa: BLE001  # teardown trouble never changes an exit code
            self.log.say(f"teardown: {error!r}")

    def close(self, outcome: Outcome) -> None:
        """Write the last record and leave nothing behind."""
        stamp = now()
        ended = self.record._replace(phase="ended", at=stamp, since=stamp, exit_code=outcome.code)
        self.record = ended._replace(
            reason=outcome.reason, detail=outcome.detail, signal=outcome.signal
        )
        self.tell(self.record)
        if outcome.reason != reasons.SUPERSEDED:
            key = rank_key(self.fence.attempt, self.flags.rank)
            self.send(key, encode(self.fence.mark(**self.record._asdict())), 1.5)
        self._keep_ray_logs(outcome)
        self.log.say(f"Store requests: {self.courier.requests}")
        told = f"{outcome.outcome} reason={outcome.reason} code={outcome.code}"
        self.log.say(f"Ended: {told} {outcome.detail}".rstrip())
        if self._sampler:
            self._sampler.stop()
        self.log.drain(1.0)

    def _keep_ray_logs(self, outcome: Outcome) -> None:
        """Save the ends of Ray's logs of a failure, and remove the temp dir that nobody else will."""
        with contextlib.suppress(OSError):
            if not outcome.succeeded and self.ray is not None:
                target = os.path.join(self.flags.work_dir, "ray-logs", str(self.fence.attempt))
                save_ends(
                    os.path.join(self.ray_temp, "session_latest", "logs"),
                    os.path.join(target, str(self.flags.rank)),
                )
        if self._made_temp:
            shutil.rmtree(self._made_temp, ignore_errors=True)
        if self._orphaned and self.flags.ray_temp:
            shutil.rmtree(self.flags.ray_temp, ignore_errors=True)
            with contextlib.suppress(OSError):  # the run's own directory, once no attempt is in it
                os.rmdir(os.path.dirname(self.flags.ray_temp))


def terminate(child: Child) -> None:
    """Ask a child's group to end."""
    child.signal_group(signal.SIGTERM)
