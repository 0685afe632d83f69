"""The training loop, and the lines that it is known by.

The lines have the shapes of SkyRL's and vLLM's, since the same ladder reads them all.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import ray

from . import checkpoints, faults
from .dataset import LARGEST, Task, load, summands
from .gang import Gang, connect
from .places import Place
from .policy import Batch, Learning, Policy, advantages
from .rollout import Work
from .settings import Settings

ANSWERS = 2 * LARGEST + 1


def say(line: str) -> None:
    """Print one line at once, whole, whoever else is printing."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


class Trainer:
    """One training run from its settings to its last checkpoint."""

    def __init__(
        self, settings: Settings, tasks: tuple[Task, ...], held_out: tuple[Task, ...]
    ) -> None:
        self._settings = settings
        self._tasks = tasks
        self._train = np.arange(len(tasks))
        self._val = np.arange(len(tasks), len(tasks) + len(held_out))
        self._prompts = tuple((task.id, task.prompt) for task in (*tasks, *held_out))
        # one row of weights per prompt text, so that the same prompt in two datasets is one state
        self._rows = np.array([_row(prompt) for _, prompt in self._prompts])
        self._policy = Policy((LARGEST + 1) ** 2, ANSWERS)
        self._learning = Learning(
            settings.lr,
            settings.eps_clip_low,
            settings.eps_clip_high,
            settings.temperature,
            settings.max_grad_norm,
        )
        self._step = 0
        self._rewards: list[float] = []
        self._trials = 0
        self._reported = float("-inf")
        self._request = faults.Request()

    @property
    def total_steps(self) -> int:
        """Steps in all: `max_steps`, else as many as the epochs have."""
        settings = self._settings
        per_epoch = -(-len(self._tasks) // settings.train_batch_size)
        return settings.max_steps or settings.epochs * per_epoch

    def run(self) -> None:
        """Train to the end; raises what went wrong."""
        settings = self._settings
        if settings.save_seconds is not None:
            self._request.listen()
        work = Work(
            self._prompts,
            settings.n_samples,
            settings.temperature,
            settings.seed,
            settings.max_num_seqs,
            settings.trials_dir,
            settings.run_name,
        )
        gang = Gang(work, settings.engines)
        if settings.dump_env:
            faults.dump_environment(settings.dump_env, "driver", os.environ)
            for number, environ in enumerate(gang.environments()):
                faults.dump_environment(settings.dump_env, f"node-{number}", environ)
        if settings.dial:
            say(f"dialled {settings.dial}, which says: {faults.dial(settings.dial)}")
        say(f"InferenceEngineClient initialized with {len(gang.engines)} engines.")
        say("init policy/ref/critic models done")
        say(
            "TerminalBenchGenerator initialized with the toy task. "
            f"Concurrent trials: {settings.concurrent_trials}."
        )
        say(f"Total training steps: {self.total_steps}")
        self._resume()
        while self._step < self.total_steps:
            self._one_step(gang)
            if self._request.made:
                self._save_and_leave()
        if settings.ckpt_interval > 0 and self._step % settings.ckpt_interval:
            self._save()
        self._summarise()
        say(f"Reached max training steps ({self.total_steps})")
        say("Training done!")

    def _one_step(self, gang: Gang) -> None:
        step, settings = self._step + 1, self._settings
        with timed("step"):
            began = time.monotonic()
            faults.strike(settings, step, os.environ, self._request)
            if step == settings.eat_at_step:
                self._eat()
            batch = self._generate(gang, step)
            with timed("policy_train"):
                self._learn(batch)
            reward = float(batch.rewards.mean())
            self._rewards.append(reward)
            self._trials += batch.rewards.size
            self._step = step
            self._report(gang)
            say(f"avg_final_rewards: {reward:.4f}")
            time.sleep(max(0.0, settings.step_seconds - (time.monotonic() - began)))
        if len(self._val) and settings.eval_interval > 0 and step % settings.eval_interval == 0:
            with timed("eval"):
                score = gang.evaluate(self._policy.theta, self._rows[self._val])
            say(f"eval/avg_score: {score:.4f}")
        if settings.ckpt_interval > 0 and step % settings.ckpt_interval == 0:
            self._save()

    def _eat(self) -> None:
        settings = self._settings
        say(
            f"taking {settings.eat_bytes} bytes in the {settings.eat_in}, as `smoke.eat_bytes` asked"
        )
        if settings.eat_in == "driver":
            faults.eat(settings.eat_bytes)
        else:
            eater = ray.remote(faults.eat).options(num_cpus=0, max_retries=0)
            ray.get(eater.remote(settings.eat_bytes))

    def _generate(self, gang: Gang, step: int) -> Batch:
        settings = self._settings
        chosen = batch_of(len(self._tasks), settings.train_batch_size, settings.seed, step)
        total = len(chosen) * settings.n_samples
        began, shown = time.perf_counter(), 0
        say("Started: 'generate'")
        rows = self._rows[chosen]
        for news in gang.rollout(self._policy.theta, rows, step, settings.concurrent_trials):
            if isinstance(news, Batch):
                say(f"Finished: 'generate', time cost: {time.perf_counter() - began:.2f}s")
                return news
            if news == total or news - shown >= total / 4:
                shown = news
                say(_progress(news, total, time.perf_counter() - began))
        raise AssertionError("a rollout always ends with its batch")

    def _learn(self, batch: Batch) -> None:
        gains = advantages(batch.rewards)
        size = self._settings.mini_batch_size or len(batch.states)
        for _ in range(self._settings.update_epochs):
            for start in range(0, len(batch.states), size):
                part = slice(start, start + size)
                piece = Batch(
                    batch.states[part], batch.answers[part], batch.logps[part], batch.rewards[part]
                )
                self._policy.update(piece, gains[part], self._learning)

    def _report(self, gang: Gang) -> None:
        # vLLM reports at intervals; a step of this trainer takes a fraction of one
        if time.monotonic() - self._reported < 1.0 and self._step < self.total_steps:
            return
        self._reported = time.monotonic()
        for engine in gang.engines:
            if engine.busy:
                say(engine.report())

    def _resume(self) -> None:
        settings = self._settings
        found: checkpoints.Checkpoint | None = None
        if settings.resume_mode == "none":
            return
        if settings.resume_mode == "latest":
            found = checkpoints.latest(Place(settings.ckpt_path or ""))
        elif settings.resume_path:
            found = checkpoints.load(Place(settings.resume_path))
        if found is not None:
            try:
                self._policy.restore(found.weights)
            except (ValueError, KeyError) as error:
                raise checkpoints.CheckpointError(f"checkpoint does not fit: {error}") from None
            self._step = found.step
            self._rewards = [float(reward) for reward in found.state.get("rewards", [])]
            self._trials = int(found.state.get("trials", 0))
        say(f"Resumed training from global_step {self._step}")

    def _save(self) -> None:
        if self._settings.ckpt_path is None:
            return
        state: dict[str, Any] = {"rewards": self._rewards, "trials": self._trials}
        kept = checkpoints.Checkpoint(self._step, self._policy.state(), state)
        place = checkpoints.save(Place(self._settings.ckpt_path), kept)
        say(f"Successfully saved checkpoint for global_step_{self._step} to: {place}")

    def _save_and_leave(self) -> None:
        """Save as a large model does: slowly. Always raises `FaultError`."""
        seconds = self._settings.save_seconds or 0.0
        say(f"Asked to end: saving global_step_{self._step}, which takes {seconds:g} s")
        time.sleep(seconds)
        self._save()
        raise faults.FaultError("ended by SIGTERM, and saved", 128 + signal.SIGTERM)

    def _summarise(self) -> None:
        if self._settings.export_path is None:
            return
        body = {
            "schema": "rlaunch.smoke-summary/1",
            "run": self._settings.run_name,
            "steps": self._step,
            "trials": self._trials,
            "rewards": self._rewards,
        }
        place = Place(self._settings.export_path) / "summary.json"
        place.write((json.dumps(body) + "\n").encode())


def batch_of(tasks: int, size: int, seed: int, step: int) -> np.ndarray[Any, Any]:
    """Return the task numbers of a step: the tasks are shuffled anew each time all have been used.

    A pure function of its arguments: a resumed run sees the batches that it would have seen.
    """
    start = (step - 1) * size
    chosen = np.empty(size, dtype=np.int64)
    for place in range(size):
        epoch, offset = divmod(start + place, tasks)
        if place == 0 or offset == 0:
            order = np.random.default_rng([seed, 1_000_000 + epoch]).permutation(tasks)
        chosen[place] = order[offset]
    return chosen


def _row(prompt: str) -> int:
    left, right = summands(prompt)
    return left * (LARGEST + 1) + right


def _progress(done: int, total: int, seconds: float) -> str:
    share = done / total
    each = seconds / done
    bar = ("#" * int(10 * share)).ljust(10)
    left = each * (total - done)
    return (
        f"Generation Buffer Progress: {share:4.0%}|{bar}| {done}/{total} "
        f"[{_clock(seconds)}<{_clock(left)}, {each:.3f}s/it]"
    )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Say when a phase starts and how long it took; nothing at the end where it failed."""
    say(f"Started: '{name}'")
    began = time.perf_counter()
    yield
    say(f"Finished: '{name}', time cost: {time.perf_counter() - began:.2f}s")


def train(settings: Settings) -> None:
    """Load the data, join Ray, train. Raises the package's errors for what went wrong."""
    tasks = load(settings.train_data)
    held_out = load(settings.val_data) if settings.val_data else ()
    trainer = Trainer(settings, tasks, held_out)
    connect()
    try:
        trainer.run()
    finally:
        ray.shutdown()
