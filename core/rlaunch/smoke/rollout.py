"""The rollout worker: one per engine, an actor on its node.

The class is sent to the nodes by value (see `gang.py`), so nothing in here may import a module of
this package inside a function, and its methods take and give plain values only.
"""

from __future__ import annotations

import json
import os
import platform
import time
from datetime import datetime, timezone
from typing import Any, NamedTuple

import numpy as np

from .dataset import solve
from .places import Place
from .policy import Floats, Ints, log_probabilities, sample


class Work(NamedTuple):
    """What the workers are told once, at the start."""

    prompts: tuple[tuple[str, str], ...]
    """(id, prompt) of every task; the row of the weights is its index."""
    samples: int
    temperature: float
    seed: int
    most_at_once: int | None
    trials_dir: str | None
    run: str


class RolloutWorker:
    """Answers prompts with the weights it is given, verifies the answers, writes the trials."""

    def __init__(self, engine: int, work: tuple[Any, ...]) -> None:
        (prompts, samples, temperature, seed, most_at_once, trials_dir, run) = work
        self._engine = engine
        self._prompts = prompts
        self._samples = samples
        self._temperature = temperature
        self._seed = seed
        self._most = most_at_once
        self._trials = Place(trials_dir) if trials_dir else None
        self._run = run

    def describe(self) -> dict[str, Any]:
        """Return where this worker runs."""
        return {"engine": self._engine, "pid": os.getpid(), "python": platform.python_version()}

    def environment(self) -> dict[str, str]:
        """Return the environment of this worker's process."""
        return dict(os.environ)

    def generate(
        self, theta: Floats, states: Ints, step: int, places: list[int]
    ) -> tuple[Ints, Floats, Floats, dict[str, float]]:
        """Return answers, log probabilities and rewards, each (P, S), and what it took.

        `places` are the prompts' places in the step's batch: they seed the samples, so that a batch
        comes out the same whichever worker answers which part of it.
        """
        began = time.perf_counter()
        logps = log_probabilities(theta, states, self._temperature)
        seeds = [[self._seed, step, place] for place in places]
        answers = sample(logps, self._samples, seeds)
        chosen = np.take_along_axis(logps, answers, axis=1)
        right = np.array([solve(self._prompts[state][1]) for state in states])
        rewards = (answers == right[:, None]).astype(np.float64)
        if self._trials is not None:
            self._write_trials(states, step, places, answers, rewards)
        trials = int(answers.size)
        running = min(trials, self._most or trials)
        words = sum(len(self._prompts[state][1].split()) for state in states)
        took: dict[str, float] = {
            "prompt_tokens": words * self._samples,
            "answer_tokens": trials,
            "running": running,
            "waiting": trials - running,
            "seconds": time.perf_counter() - began,
        }
        return answers, chosen, rewards, took

    def solve_greedily(self, theta: Floats, states: Ints) -> float:
        """Return the share of prompts that the likeliest answer gets right."""
        best = theta[states].argmax(axis=1)
        right = np.array([solve(self._prompts[state][1]) for state in states])
        return float((best == right).mean())

    def _write_trials(
        self, states: Ints, step: int, places: list[int], answers: Ints, rewards: Floats
    ) -> None:
        if self._trials is None:
            return
        for row, (state, place) in enumerate(zip(states, places, strict=True)):
            name, prompt = self._prompts[state]
            for column in range(answers.shape[1]):
                trial = f"{name}__step{step:04d}-{place:03d}-{column:02d}"
                body = {
                    "trial_name": trial,
                    "task_name": name,
                    "run": self._run,
                    "step": step,
                    "engine": self._engine,
                    "prompt": prompt,
                    "answer": int(answers[row, column]),
                    "verifier_result": {"rewards": {"reward": float(rewards[row, column])}},
                    "exception_info": None,
                    "finished_at": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
                }
                (self._trials / trial / "result.json").write(json.dumps(body).encode())
