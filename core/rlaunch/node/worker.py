"""Ranks 1 to N−1: find rank 0, join its Ray, park, and end as it ends."""

from __future__ import annotations

import shlex
import time
from typing import Any

from . import reasons
from .agent import Agent
from .environment import add_gloo, add_ray
from .limits import plan_memory, read_cgroup_limit, read_host_memory, read_shm_room
from .link import Link
from .lookout import Lookout
from .loop import back_off
from .ports import claim_ports
from .probe import answers
from .rayline import build_ray_command, join_address
from .reasons import Ending, Outcome, fail
from .records import DONE_KEY, HEAD_KEY, Head, decode, find_outcome, ranks_prefix, read_head
from .staging import stage

STALE = 200.0
SLOW_LOOK = 20.0


class WorkerRole:
    """The life of a worker's agent: `run` raises `Ending`, `finish` makes it true."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.head: Head | None = None
        self.link: Link | None = None
        self._ignored: set[str] = set()
        self._pauses = back_off()
        self._head_phase = ""
        self._root = Lookout(
            agent.loop,
            agent.courier,
            folder="",
            wanted=lambda name: name in (HEAD_KEY, DONE_KEY),
            take=self._take,
            pause=self._pause,
        )
        self._beside = Lookout(
            agent.loop,
            agent.courier,
            folder=ranks_prefix(agent.flags.attempt),
            wanted=lambda name: name == "0.json",
            take=self._take_head_record,
            pause=lambda: SLOW_LOOK if self._by_store else None,
        )

    @property
    def _by_store(self) -> bool:
        return self.link is not None and self.link.hopeless

    def run(self) -> None:
        """Go through all phases; always ends by raising `Ending`."""
        agent, flags = self.agent, self.agent.flags
        agent.log.say(f"ROLE=worker node_ip={flags.node_ip}")
        agent.enter("starting")
        self._root.look()
        if not agent.loop.until(lambda: self._root.looked, flags.rendezvous_timeout):
            raise Ending(fail(reasons.STORE_FAILED, self._root.trouble or "no answer"))
        if not agent.versions.ray:
            raise Ending(fail(reasons.RAY_FAILED, "this interpreter has no `ray`"))
        stage(agent)
        head = self._find_head()
        self._join(head)
        agent.log.say(
            f"Worker rank {flags.rank} joined Ray cluster at {head.head_ip}:{head.port};"
            " parking until the head finishes."
        )
        self._park()

    def _take(self, name: str, body: dict[str, Any]) -> None:
        fence, loop = self.agent.fence, self.agent.loop
        if fence.is_behind(body):
            loop.end(fail(reasons.SUPERSEDED, f"attempt {body['attempt']} has begun"))
        outcome = find_outcome(fence, body) if name == DONE_KEY else None
        head = read_head(body) if name == HEAD_KEY and fence.admits(body) else None
        if outcome is not None:
            self.agent.log.say(f"The run has ended: {outcome.outcome} {outcome.reason}")
            loop.end(outcome)
        elif head is not None and self.head is None:
            self.head = head
            self.agent.log.say(f"Found rendezvous: head_ip={head.head_ip} port={head.port}")
            self.link = Link(self.agent, head)
        elif not fence.admits(body):
            stale = f"{name}: run={body.get('run')} attempt={body.get('attempt')}"
            if stale not in self._ignored:
                self._ignored.add(stale)
                self.agent.log.say(f"Ignoring stale {stale}")

    def _take_head_record(self, name: str, body: dict[str, Any]) -> None:
        if self.agent.fence.admits(body):
            self._head_phase = str(body.get("phase"))

    def _pause(self) -> float | None:
        """Look often until rank 0 is found, then not at all while its connection does."""
        if self.link is None:
            return next(self._pauses)
        return None if self.link.welcomed else SLOW_LOOK

    def _find_head(self) -> Head:
        """Wait for rank 0 and for a connection to it; raises `Ending` where they do not fit together."""
        agent, flags = self.agent, self.agent.flags
        agent.enter("rendezvous")
        limit = flags.rendezvous_timeout
        agent.log.say(f"Polling for rendezvous {flags.rendezvous} (timeout {limit:g}s)...")
        agent.loop.until(lambda: self.link and (self.link.welcomed or self.link.hopeless), limit)
        head, link = self.head, self.link
        if head is None or link is None:
            trouble = f" ({self._root.trouble})" if self._root.trouble else ""
            text = f"rank 0 published no {HEAD_KEY} within {limit:g} s{trouble}"
            raise Ending(fail(reasons.RANK_MISSING, text))
        if not link.welcomed:
            where = f"{head.head_ip}:{head.agent_port}"
            agent.log.say(f"No connection to rank 0's agent at {where}: watching the store instead")
            self._root.look()
            self._beside.look()
            agent.loop.every(SLOW_LOOK, self._check_store)
        mine, its = agent.versions, (head.ray_version, head.python_version)
        if (mine.ray, mine.python) != its:
            text = f"Ray {mine.ray} on Python {mine.python}, rank 0 has Ray {its[0]} on Python {its[1]}"
            raise Ending(fail(reasons.VERSION_MISMATCH, text))
        if head.num_nodes != flags.nodes:
            text = f"`--nodes {flags.nodes}`, rank 0 has `--nodes {head.num_nodes}`"
            raise Ending(fail(reasons.BAD_FLAGS, text))
        return head

    def _check_store(self) -> None:
        """Without a connection, rank 0 lives as long as its record changes."""
        seen = self._beside.changed_at.get("0.json")
        if self._by_store and seen is not None and time.monotonic() - seen > STALE:
            text = f"rank 0 wrote no record for {STALE:g} s"
            self.agent.loop.end(fail(reasons.HEAD_LOST, text))

    def _join(self, head: Head) -> None:
        """Start Ray as soon as the head's port answers, and wait until this node is registered."""
        agent, flags = self.agent, self.agent.flags
        agent.enter("ray")
        pauses = back_off()
        while not answers(agent.loop, head.head_ip, head.port, 5.0):
            if self._news("ray"):
                agent.loop.until(lambda: False, next(pauses))
            else:
                agent.loop.until(lambda: self._news("ray"), 5.0)
        width = 256 if flags.cpus is not None and flags.cpus <= 32 else 1024
        agent.ports = claim_ports(flags.ports, ip=flags.node_ip, width=width, head=False)
        memory = plan_memory(
            read_cgroup_limit(),
            host=read_host_memory(),
            shm=read_shm_room(),
            asked=flags.memory,
            store=flags.object_store_memory,
        )
        argv = build_ray_command(
            flags,
            agent.ports,
            memory,
            head=join_address(head.head_ip, head.port),
            temp=agent.ray_temp,
            client=False,
        )
        agent.log.say(f"Starting Ray WORKER: {shlex.join(argv)}")
        env = add_ray(agent.env, auth=head.ray_auth, token=head.token)
        agent.start_ray(argv, add_gloo(env, flags))
        if not agent.loop.until(lambda: agent.ray_started, flags.join_timeout):
            text = f"Ray did not start on this node within {flags.join_timeout:g} s"
            raise Ending(fail(reasons.RAY_FAILED, text))
        agent.enter("joining")  # rank 0 looks at once

    def _park(self) -> None:
        agent = self.agent
        forever = float("inf")
        agent.loop.until(lambda: self._news("joined"), forever)
        agent.enter("ready")
        agent.loop.until(lambda: self._news("running"), forever)
        agent.enter("running")
        agent.loop.until(lambda: False, forever)

    def _news(self, name: str) -> bool:
        """Return True where rank 0 has said so, or its record shows it."""
        if self.link is not None and self.link.news.get(name):
            return True
        order = ("ray", "joining", "ready", "running")
        reached = {"ray": 1, "joined": 2, "running": 3}[name]
        return self._head_phase in order and order.index(self._head_phase) >= reached

    def finish(self, outcome: Outcome) -> Outcome:
        """End Ray and this rank. A worker's own trouble is told first; rank 0 ends the gang for it."""
        agent = self.agent
        agent.loop.shielded = True
        if outcome.succeeded:
            agent.kill_all()
            return outcome
        outcome = agent.blame(outcome)
        agent.stop(outcome)
        agent.log.say(f"Stopping: {outcome.reason}: {outcome.detail}")
        agent.write_termination(outcome)
        if outcome.reason in (reasons.TERMINATED, reasons.SUPERVISOR_LOST):
            outcome = self._linger(outcome)
        if self.link is not None:
            self.link.flush(0.5)
        agent.kill_all()
        return outcome

    def _linger(self, outcome: Outcome) -> Outcome:
        """Keep Ray while rank 0's driver saves, unless the run has already succeeded."""
        agent = self.agent
        parcel = agent.courier.ask(lambda store: store.read(DONE_KEY))
        agent.loop.until(parcel.done.is_set, 1.0)
        found = find_outcome(agent.fence, decode(parcel.answer))
        if found is not None and found.succeeded:
            return found
        link = self.link
        if link is not None and link.connected and found is None:
            left = agent.kill_at(outcome) - time.monotonic()
            agent.loop.until(lambda: "outcome" in link.news or not link.connected, left)
        return outcome
