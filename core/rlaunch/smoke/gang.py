"""The rollout workers of all nodes: placed on every node, asked in parallel."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import ray
from ray.cloudpickle.cloudpickle import register_pickle_by_value
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from .policy import Batch, Floats, Ints
from .rollout import RolloutWorker, Work

START_S = 300.0
"""How long workers may take to start: an interpreter with numpy on every node."""


class GangError(Exception):
    """Workers could not be started, or one was lost."""


class Seat(NamedTuple):
    """A place for one worker."""

    node: str
    gpus: float


class Engine:
    """One rollout worker, and what it has done since it was last reported."""

    def __init__(self, number: int, node: str, actor: Any) -> None:
        self.number = number
        self.node = node
        self.actor = actor
        self.took: dict[str, float] = {}
        self._since = time.perf_counter()

    def add(self, took: dict[str, float]) -> None:
        """Count a finished call."""
        for name in ("prompt_tokens", "answer_tokens"):
            self.took[name] = self.took.get(name, 0.0) + took[name]
        for name in ("running", "waiting"):
            self.took[name] = took[name]

    def report(self) -> str:
        """Return the line of vLLM's statistics for the time since the last report, as measured."""
        now = time.perf_counter()
        span, self._since = max(now - self._since, 1e-6), now
        took, self.took = self.took, {}
        return (
            f"INFO {time.strftime('%m-%d %H:%M:%S')} [gang.py:1] Engine {self.number:03d}: "
            f"Avg prompt throughput: {took.get('prompt_tokens', 0) / span:.1f} tokens/s, "
            f"Avg generation throughput: {took.get('answer_tokens', 0) / span:.1f} tokens/s, "
            f"Running: {took.get('running', 0):.0f} reqs, "
            f"Waiting: {took.get('waiting', 0):.0f} reqs"
        )

    @property
    def busy(self) -> bool:
        """True where it has finished anything since the last report."""
        return bool(self.took)


def connect() -> None:
    """Join the Ray of RAY_ADDRESS, or start a small one of our own without it."""
    # A local `ray.init` otherwise leaves a token file behind that turns on authentication for the
    # next `ray start` of this user, and for that one only (Ray 2.60).
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    register_pickle_by_value(sys.modules[__package__])
    if os.environ.get("RAY_ADDRESS"):
        ray.init(address=os.environ["RAY_ADDRESS"], logging_level="WARNING")
    else:
        ray.init(address="local", num_cpus=2, include_dashboard=False, logging_level="WARNING")


def seats(nodes: list[dict[str, Any]], engines: int | None) -> list[Seat]:
    """Return where the workers go: spread over the alive nodes, at least one on each.

    A node that declares GPUs gives each of its workers one, or a share where there are fewer GPUs
    than workers; a node without GPUs gives none.
    """
    alive = sorted((node for node in nodes if node["Alive"]), key=lambda node: str(node["NodeID"]))
    if not alive:
        raise GangError("no node of the Ray cluster is alive")
    wanted = max(engines or 0, len(alive))
    chosen = [alive[index % len(alive)] for index in range(wanted)]
    count: dict[str, int] = {}
    for node in chosen:
        count[node["NodeID"]] = count.get(node["NodeID"], 0) + 1
    found: list[Seat] = []
    for node in chosen:
        gpus = float(node.get("Resources", {}).get("GPU", 0.0))
        share = int(min(1.0, gpus / count[node["NodeID"]]) * 1000) / 1000
        found.append(Seat(node["NodeID"], share))
    return found


class Gang:
    """All engines. Use as a context: leaving it ends the workers."""

    def __init__(self, work: Work, engines: int | None) -> None:
        remote = ray.remote(RolloutWorker)
        self.engines = [
            Engine(
                number,
                seat.node,
                remote.options(
                    num_cpus=0,
                    num_gpus=seat.gpus,
                    scheduling_strategy=NodeAffinitySchedulingStrategy(seat.node, soft=False),
                ).remote(number, tuple(work)),
            )
            for number, seat in enumerate(seats(ray.nodes(), engines))
        ]
        self._samples = work.samples
        try:
            ray.get([engine.actor.describe.remote() for engine in self.engines], timeout=START_S)
        except ray.exceptions.RayError as error:
            raise GangError(f"rollout workers did not start: {error}") from error

    def environments(self) -> Iterator[dict[str, str]]:
        """Yield the environment of one worker per node."""
        seen: set[str] = set()
        for engine in self.engines:
            if engine.node not in seen:
                seen.add(engine.node)
                yield ray.get(engine.actor.environment.remote())

    def evaluate(self, theta: Floats, states: Ints) -> float:
        """Return the share of prompts that greedy answers get right; asks one engine."""
        score: float = ray.get(self.engines[0].actor.solve_greedily.remote(theta, states))
        return score

    def rollout(
        self, theta: Floats, states: Ints, step: int, at_once: int
    ) -> Iterator[int | Batch]:
        """Yield the number of finished trials whenever it grows, and at last the whole batch.

        At most `at_once` trials are under way, divided among the engines; each gets its next part
        when it has finished one. The batch does not depend on who answered what.
        """
        weights = ray.put(theta)
        part = max(1, at_once // (len(self.engines) * self._samples))
        todo = [range(i, min(i + part, len(states))) for i in range(0, len(states), part)][::-1]
        idle = list(self.engines[::-1])
        under_way: dict[Any, tuple[Engine, range]] = {}
        shape = (len(states), self._samples)
        answers = np.zeros(shape, dtype=np.int64)
        logps, rewards = np.zeros(shape), np.zeros(shape)
        done = 0
        while todo or under_way:
            while todo and idle:
                engine, rows = idle.pop(), todo.pop()
                chosen = np.asarray(states[rows.start : rows.stop])
                call = engine.actor.generate.remote(weights, chosen, step, list(rows))
                under_way[call] = (engine, rows)
            for call in ray.wait(list(under_way))[0]:
                engine, rows = under_way.pop(call)
                try:
                    got = ray.get(call)
                except ray.exceptions.RayError as error:
                    raise GangError(f"engine {engine.number:03d} was lost: {error}") from error
                place = slice(rows.start, rows.stop)
                answers[place], logps[place], rewards[place] = got[0], got[1], got[2]
                engine.add(got[3])
                idle.append(engine)
                done += got[0].size
                yield done
        yield Batch(states, answers, logps, rewards)
