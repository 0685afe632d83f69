"""Rank 0: claims the attempt, starts Ray's head, waits for all nodes, runs the driver, says how it ended."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import signal
import time

from . import reasons
from .agent import Agent, terminate
from .children import Child
from .courier import Courier
from .desk import Desk
from .environment import add_gloo, add_ray
from .limits import plan_memory, read_cgroup_limit, read_host_memory, read_shm_room
from .loop import back_off
from .ports import claim_ports
from .probe import Probe, answers
from .rayline import build_ray_command, find_package, join_address
from .reasons import Ending, Outcome, fail, judge_driver
from .records import (
    DONE_KEY,
    HEAD_KEY,
    Head,
    claim_key,
    decode,
    done_body,
    encode,
    find_outcome,
    now,
)
from .staging import stage
from .store import open_store

MARKER = "latest_ckpt_global_step.txt"
"""The file in which SkyRL names the newest whole checkpoint of a directory."""
STORE_PATIENCE = 45.0
"""Seconds that one step of bring-up waits for the store: with the farewell a gang ends within a minute."""


class HeadRole:
    """The life of rank 0's agent: `run` raises `Ending`, `finish` makes it true."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.driver: Child | None = None
        self.desk: Desk | None = None
        self.probe: Probe | None = None
        self.claimed = False
        self.token = secrets.token_hex(32)

    def run(self) -> None:
        """Go through all phases; always ends by raising `Ending`."""
        agent = self.agent
        self._look_back()
        if not agent.versions.ray:
            raise Ending(fail(reasons.RAY_FAILED, "this interpreter has no `ray`"))
        desk = self._publish()
        stage(agent)
        desk.compare_all()
        agent.enter("rendezvous")
        began = time.monotonic()
        env = add_ray(agent.env, auth=agent.flags.ray_auth, token=self.token)
        self._start_ray(add_gloo(env, agent.flags))
        self._wait_for_nodes(desk, env, began)
        self._run_driver(desk)

    def _look_back(self) -> None:
        """Look for what earlier attempts left, then claim this one."""
        agent, fence = self.agent, self.agent.fence
        found = agent.courier.list("", STORE_PATIENCE)
        for key in (DONE_KEY, HEAD_KEY):
            body = decode(agent.courier.read(key, STORE_PATIENCE)) if key in found else {}
            outcome = find_outcome(fence, body) if key == DONE_KEY else None
            if outcome is not None:
                agent.log.say(f"This run has already ended: {outcome.outcome} {outcome.reason}")
                raise Ending(outcome)
            if fence.is_behind(body):
                raise Ending(fail(reasons.SUPERSEDED, f"attempt {body['attempt']} has begun"))
            if body:
                left = f"run={body.get('run')} attempt={body.get('attempt')}"
                agent.log.say(f"Ignoring stale {key}: {left}")
        body = fence.mark(node=agent.flags.node_ip, pid=agent.record.pid, at=now())
        if not agent.courier.create(claim_key(fence.attempt), encode(body), STORE_PATIENCE):
            raise Ending(fail(reasons.SUPERSEDED, "another rank 0 has claimed this attempt"))
        self.claimed = True
        agent.enter("starting")

    def _publish(self) -> Desk:
        agent, flags = self.agent, self.agent.flags
        width = 256 if flags.cpus is not None and flags.cpus <= 32 else 1024
        agent.ports = ports = claim_ports(flags.ports, ip=flags.node_ip, width=width, head=True)
        assert ports.listener is not None  # noqa: S101  # `head=True`
        self.desk = Desk(agent, ports.listener, self.token)
        head = Head(
            head_ip=flags.node_ip,
            port=ports.numbers["gcs"],
            agent_port=ports.numbers["agent"],
            token=self.token,
            num_nodes=flags.nodes,
            written_at=now(),
            ray_version=agent.versions.ray,
            python_version=agent.versions.python,
            ray_auth=flags.ray_auth,
        )
        where = f"head_ip={head.head_ip} ray_port={head.port} agent_port={head.agent_port}"
        agent.log.say(f"ROLE=head {where}")
        agent.courier.write(HEAD_KEY, encode(agent.fence.mark(**head._asdict())), STORE_PATIENCE)
        agent.log.say(f"Wrote rendezvous {flags.rendezvous}/{HEAD_KEY}: {where}")
        return self.desk

    def _start_ray(self, env: dict[str, str]) -> None:
        agent, flags = self.agent, self.agent.flags
        assert agent.ports is not None  # noqa: S101  # claimed in `_publish`
        memory = plan_memory(
            read_cgroup_limit(),
            host=read_host_memory(),
            shm=read_shm_room(),
            asked=flags.memory,
            store=flags.object_store_memory,
        )
        client = bool(find_package("grpc", flags.pythonpath))
        argv = build_ray_command(
            flags, agent.ports, memory, head="", temp=agent.ray_temp, client=client
        )
        agent.enter("ray")
        agent.log.say(f"Starting Ray HEAD: {shlex.join(argv)}")
        agent.start_ray(argv, env)
        port = agent.ports.numbers["gcs"]
        deadline = time.monotonic() + flags.join_timeout
        for pause in back_off(0.05, 0.2):
            if answers(agent.loop, flags.node_ip, port, 5.0):
                break
            if time.monotonic() > deadline:
                detail = f"Ray's head did not answer within {flags.join_timeout:g} s"
                raise Ending(fail(reasons.RAY_FAILED, detail))
            agent.loop.until(lambda: False, pause)

    def _wait_for_nodes(self, desk: Desk, env: dict[str, str], began: float) -> None:
        """Wait until GCS sees as many nodes as the gang has, and name the ranks that do not come."""
        agent, flags = self.agent, self.agent.flags
        assert agent.ports is not None  # noqa: S101  # claimed in `_publish`
        address = join_address(flags.node_ip, agent.ports.numbers["gcs"])
        desk.say(ray=True)
        agent.enter("joining")
        limit = flags.join_timeout
        agent.log.say(f"Waiting for {flags.nodes} Ray node(s) at {address} (timeout {limit:g}s)...")
        self.probe = probe = Probe(agent.loop, address, env)
        desk.on_change = probe.hurry
        started, seen, restarts = time.monotonic(), -1, agent.ray_restarts
        while len(probe.alive.nodes) < flags.nodes:
            if len(probe.alive.nodes) != seen:
                seen = len(probe.alive.nodes)
                agent.log.say(f"Ray nodes alive: {seen}/{flags.nodes}")
            if agent.ray_restarts != restarts:  # another GCS: ask that one
                restarts, seen = agent.ray_restarts, -1
                probe.close()
                self.probe = probe = Probe(agent.loop, address, env)
                desk.on_change = probe.hurry
            self._check_missing(desk, probe, time.monotonic() - began, time.monotonic() - started)
            probe.wait(0.5)
        agent.log.say(f"Ray nodes alive: {len(probe.alive.nodes)}/{flags.nodes}")
        desk.on_change = lambda: None
        probe.close()
        resources = dict(sorted(probe.alive.resources.items()))
        agent.log.say(f"All {flags.nodes} Ray node(s) joined. Resources: {resources}")
        desk.say(joined=True)
        agent.enter("ready")

    def _check_missing(self, desk: Desk, probe: Probe, waited: float, joining: float) -> None:
        """Raise `Ending` with reason `rank-missing` once a rank is later than it may be."""
        flags = self.agent.flags
        here = set(probe.alive.nodes)
        if probe.ended:
            raise Ending(fail(reasons.RAY_FAILED, f"the node probe died: {probe.trouble}"))
        if desk.missing() and waited > flags.rendezvous_timeout:
            absent, limit = desk.missing(), flags.rendezvous_timeout
        elif joining > flags.join_timeout:
            others = range(1, flags.nodes)
            absent = [
                r for r in others if r not in desk.records or desk.records[r].node not in here
            ]
            limit = flags.join_timeout
        else:
            return
        text = f"Only {len(here)}/{flags.nodes} Ray nodes joined within {limit:g}s"
        trouble = "" if absent else probe.trouble
        raise Ending(
            fail(reasons.RANK_MISSING, f"{text}: missing {desk.describe(absent) or trouble}")
        )

    def _driver_words(self) -> tuple[str, ...]:
        """Return the driver's command, which goes on from the run's own checkpoint where it has one."""
        agent, flags = self.agent, self.agent.flags
        if not flags.own_checkpoint:
            return flags.driver
        with contextlib.suppress(OSError):
            os.listdir(flags.own_checkpoint)  # NFS remembers a look-up that failed, and lists anew
        step = Courier(open_store(flags.own_checkpoint), agent.loop).read(MARKER, STORE_PATIENCE)
        if step is None:
            return flags.driver
        told = step[:20].decode("utf-8", "replace").strip()
        agent.log.say(f"This run goes on from its own checkpoint at step {told}")
        return (*flags.driver, *flags.own_words)

    def _run_driver(self, desk: Desk) -> None:
        agent, flags = self.agent, self.agent.flags
        assert agent.ports is not None  # noqa: S101  # claimed in `_publish`
        address = join_address(flags.node_ip, agent.ports.numbers["gcs"])
        env = add_ray(agent.env, auth=flags.ray_auth, token=self.token, address=address)
        words = self._driver_words()
        agent.log.say(f"Launching the training driver: {shlex.join(words)}")
        try:
            self.driver = driver = Child(
                agent.loop, words, env=env, cwd=agent.cwd, take=agent.log.put
            )
        except OSError as error:
            code = 127 if isinstance(error, FileNotFoundError) else 126
            detail = f"the driver cannot start: {error}"
            outcome = Outcome(reasons.FAILED, reasons.DRIVER_EXIT, code, None, detail, code)
            raise Ending(outcome) from error
        agent.adopt(driver)
        agent.enter("running")
        desk.running = True
        desk.say(running=True)
        limit = flags.liveness_timeout
        while not agent.loop.until(lambda: driver.ended, 1.0):
            if limit and time.monotonic() - driver.heard_at > limit:
                detail = f"the driver printed nothing for {limit:g} s"
                raise Ending(fail(reasons.DRIVER_SILENT, detail))
        agent.loop.shielded = True  # it has ended by itself: nothing later changes that
        agent.loop.until(lambda: driver.drained, 1.0)
        raise Ending(self._judge(desk, driver.status or 0))

    def _judge(self, desk: Desk, status: int) -> Outcome:
        """Blame a lost worker for a driver that failed of it; the exit code stays the driver's."""
        outcome = judge_driver(status)
        silent = desk.find_silent(7.5)
        if outcome.succeeded or not silent:
            return outcome
        detail = f"{desk.describe(silent)} was lost, then {outcome.detail}"
        return outcome._replace(reason=reasons.WORKER_LOST, detail=detail)

    def finish(self, outcome: Outcome) -> Outcome:
        """Publish the outcome, end the driver and Ray, tell the workers; returns what became of it."""
        agent = self.agent
        agent.loop.shielded = True
        alive = self.driver is not None and not self.driver.ended
        outcome = agent.blame(outcome)
        agent.stop(outcome)
        if not outcome.succeeded:
            agent.log.say(f"Stopping: {outcome.reason}: {outcome.detail}")
            agent.write_termination(outcome)
        if alive and self.driver is not None:
            terminate(self.driver)
        early = outcome.signal == signal.SIGUSR1 and alive
        hurried = outcome.reason in (reasons.TERMINATED, reasons.SUPERVISOR_LOST)
        patience = 1.0 if hurried else STORE_PATIENCE
        if self.claimed and not early:
            outcome = self._publish_outcome(outcome, patience)
        if alive:
            agent.outlast(outcome, self._driver_drained)
        if self.claimed and early:  # not before: who watches the store would end its Ray
            outcome = self._publish_outcome(outcome, patience)
        if self.desk is not None:
            self.desk.say(outcome=outcome._asdict())
            self.desk.flush(0.5)
        if self.probe is not None:
            self.probe.close()
        agent.kill_all()
        return outcome

    def _driver_drained(self) -> bool:
        return self.driver is None or self.driver.drained

    def _publish_outcome(self, outcome: Outcome, patience: float) -> Outcome:
        """Write `ray_head.done`; a success that nobody can be told of is a failure of the store."""
        body = encode(done_body(self.agent.fence, outcome))
        if self.agent.send(DONE_KEY, body, patience) or not outcome.succeeded:
            return outcome
        detail = "the driver succeeded, but the store did not take the outcome"
        return fail(reasons.STORE_FAILED, detail)
