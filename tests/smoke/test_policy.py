"""The mathematics of the toy: the update is the gradient of the objective that it claims."""

from __future__ import annotations

import numpy as np
import pytest

from rlaunch.smoke.policy import (
    Batch,
    Learning,
    Policy,
    advantages,
    gradient,
    log_probabilities,
    sample,
)
from rlaunch.smoke.trainer import batch_of

HOW = Learning(lr=0.4, eps_clip_low=0.2, eps_clip_high=0.28, temperature=0.7, max_grad_norm=None)


def _objective(theta: np.ndarray, batch: Batch, gains: np.ndarray) -> float:
    logps = log_probabilities(theta, batch.states, HOW.temperature)
    ratio = np.exp(np.take_along_axis(logps, batch.answers, axis=1) - batch.logps)
    held = np.clip(ratio, 1 - HOW.eps_clip_low, 1 + HOW.eps_clip_high)
    return float(np.minimum(ratio * gains, held * gains).mean())


def test_the_gradient_is_that_of_the_clipped_objective() -> None:
    """Finite differences of PPO's objective agree with the gradient, clipped samples included."""
    rng = np.random.default_rng(3)
    theta = rng.normal(size=(5, 4))
    states = np.array([0, 2, 2, 4])
    answers = rng.integers(0, 4, size=(4, 6))
    logps = np.take_along_axis(log_probabilities(theta, states, 0.7), answers, axis=1)
    old = logps + rng.normal(scale=0.4, size=logps.shape)
    gains = advantages((rng.random((4, 6)) > 0.5).astype(float))
    batch = Batch(states, answers, old, gains)
    slope = gradient(theta, batch, gains, HOW)
    for place in np.ndindex(*theta.shape):
        step = np.zeros_like(theta)
        step[place] = 1e-6
        rise = _objective(theta + step, batch, gains) - _objective(theta - step, batch, gains)
        assert slope[place] == pytest.approx(rise / 2e-6, abs=1e-6)


def test_advantages_are_normalised_within_a_group() -> None:
    """Each prompt's advantages have mean 0 and spread 1; a group without a difference has none."""
    gains = advantages(np.array([[0.0, 1.0, 1.0, 0.0], [1.0, 1.0, 1.0, 1.0]]))
    assert gains[0].mean() == pytest.approx(0)
    assert gains[0].std() == pytest.approx(1, abs=1e-5)
    assert not gains[1].any()


def test_samples_do_not_depend_on_who_draws_them() -> None:
    """A batch drawn in parts, in any order, is the batch drawn at once."""
    logps = log_probabilities(np.random.default_rng(1).normal(size=(6, 9)), np.arange(6), 1.0)
    seeds = [[42, 7, place] for place in range(6)]
    whole = sample(logps, 8, seeds)
    parts = [sample(logps[i : i + 2], 8, seeds[i : i + 2]) for i in (4, 2, 0)]
    assert (np.concatenate(parts[::-1]) == whole).all()


def test_samples_follow_the_probabilities() -> None:
    """Answers come as often as their probability says."""
    logps = np.log(np.array([[0.1, 0.6, 0.3]]))
    drawn = sample(logps, 20_000, [[5]])
    shares = np.bincount(drawn[0], minlength=3) / 20_000
    assert shares == pytest.approx([0.1, 0.6, 0.3], abs=0.02)


def test_a_policy_restored_goes_on_as_if_it_had_never_stopped() -> None:
    """Weights and optimiser state together: the next update after a restore is the same one."""
    rng = np.random.default_rng(0)

    def batch() -> tuple[Batch, np.ndarray]:
        answers = rng.integers(0, 4, size=(3, 5))
        gains = rng.normal(size=(3, 5))
        return Batch(np.arange(3), answers, np.full((3, 5), -1.0), gains), gains

    first = Policy(3, 4)
    first.update(*batch(), HOW)
    second = Policy(3, 4)
    second.restore(first.state())
    more = batch()
    first.update(*more, HOW)
    second.update(*more, HOW)
    assert (first.theta == second.theta).all()
    with pytest.raises(ValueError, match="shape"):
        Policy(2, 4).restore(first.state())


def test_every_epoch_sees_every_task_once() -> None:
    """Batches walk through shuffled epochs, and a step's batch depends on the step alone."""
    seen = np.concatenate([batch_of(25, 16, 42, step) for step in range(1, 26)])
    for epoch in range(16):
        assert sorted(seen[25 * epoch : 25 * epoch + 25]) == list(range(25))
    assert (batch_of(25, 16, 42, 9) == seen[128:144]).all()
    assert (seen[:25] != seen[25:50]).any()
