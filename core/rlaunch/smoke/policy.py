"""A softmax policy over sums, and the clipped GRPO update that trains it. Numpy only."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Batch(NamedTuple):
    """The rollouts of one step: P prompts, S samples each."""

    states: Ints
    """(P,): the row of the weights that belongs to every prompt."""
    answers: Ints
    """(P, S): what was answered."""
    logps: Floats
    """(P, S): log probability of the answer when it was given."""
    rewards: Floats
    """(P, S): 1 for the right answer, else 0."""


class Learning(NamedTuple):
    """How an update is made; the words are SkyRL's."""

    lr: float
    eps_clip_low: float
    eps_clip_high: float
    temperature: float
    max_grad_norm: float | None


def log_probabilities(theta: Floats, states: Ints, temperature: float) -> Floats:
    """Return (P, V) log probabilities of all answers at a temperature.

    `theta` is (states, V), one row of scores per prompt, and starts at zero: nothing is built in.
    """
    scaled = theta[states] / temperature
    scaled -= scaled.max(axis=1, keepdims=True)
    result: Floats = scaled - np.log(np.exp(scaled).sum(axis=1, keepdims=True))
    return result


def sample(logps: Floats, samples: int, seeds: list[list[int]]) -> Ints:
    """Return (P, S) answers. Every prompt has its own seed: it does not matter who samples it."""
    cumulative = np.cumsum(np.exp(logps), axis=1)
    drawn = np.empty((len(logps), samples), dtype=np.int64)
    for row, seed in enumerate(seeds):
        points = np.random.default_rng(seed).random(samples) * cumulative[row, -1]
        drawn[row] = np.searchsorted(cumulative[row], points, side="right")
    drawn.clip(max=logps.shape[1] - 1, out=drawn)
    return drawn


def advantages(rewards: Floats) -> Floats:
    """Return (P, S) rewards, normalised within each prompt's group; a uniform group gives zeros."""
    spread = rewards.std(axis=1, keepdims=True)
    result: Floats = (rewards - rewards.mean(axis=1, keepdims=True)) / (spread + 1e-6)
    return result


def gradient(theta: Floats, batch: Batch, gains: Floats, how: Learning) -> Floats:
    """Return the gradient of the clipped surrogate objective, averaged over all samples.

    `gains` are the advantages. A sample whose ratio has left [1 - low, 1 + high] on the side that
    its advantage pushes to contributes nothing, as in PPO.
    """
    logps = log_probabilities(theta, batch.states, how.temperature)
    now = np.take_along_axis(logps, batch.answers, axis=1)
    ratio = np.exp(now - batch.logps)
    clipped = ((gains > 0) & (ratio > 1 + how.eps_clip_high)) | (
        (gains < 0) & (ratio < 1 - how.eps_clip_low)
    )
    weight = np.where(clipped, 0.0, gains * ratio) / (gains.size * how.temperature)
    # d log p(y) / d logit = [y] - p, summed over the samples of a prompt
    slope = -np.exp(logps) * weight.sum(axis=1, keepdims=True)
    rows = np.arange(len(batch.answers))[:, None]
    np.add.at(slope, (np.broadcast_to(rows, batch.answers.shape), batch.answers), weight)
    result = np.zeros_like(theta)
    np.add.at(result, batch.states, slope)
    return result


class Policy:
    """The weights and the optimiser (Adam); both are what a checkpoint keeps."""

    def __init__(self, states: int, answers: int) -> None:
        self.theta: Floats = np.zeros((states, answers))
        self._first: Floats = np.zeros_like(self.theta)
        self._second: Floats = np.zeros_like(self.theta)
        self._updates = 0

    def update(self, batch: Batch, gains: Floats, how: Learning) -> float:
        """Climb one step; return the norm of the gradient before it was limited."""
        slope = gradient(self.theta, batch, gains, how)
        norm = float(np.sqrt((slope**2).sum()))
        if how.max_grad_norm and norm > how.max_grad_norm:
            slope *= how.max_grad_norm / norm
        self._updates += 1
        self._first = 0.9 * self._first + 0.1 * slope
        self._second = 0.999 * self._second + 0.001 * slope**2
        first = self._first / (1 - 0.9**self._updates)
        second = self._second / (1 - 0.999**self._updates)
        self.theta = self.theta + how.lr * first / (np.sqrt(second) + 1e-8)
        return norm

    def state(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything that training needs to go on as if it had never stopped."""
        return {
            "theta": self.theta,
            "first": self._first,
            "second": self._second,
            "updates": np.array(self._updates),
        }

    def restore(self, state: dict[str, npt.NDArray[Any]]) -> None:
        """Take over a saved state; raises ValueError when it is of another shape."""
        if state["theta"].shape != self.theta.shape:
            raise ValueError(f"weights of shape {state['theta'].shape}, not {self.theta.shape}")
        self.theta = state["theta"]
        self._first, self._second = state["first"], state["second"]
        self._updates = int(state["updates"])
