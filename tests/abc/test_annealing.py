"""The schedule of annealing, step for step, against a slow version in numpy written from its description."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.linalg import sqrtm
from scipy.optimize import brentq

import suffice as sf
from suffice.abc.annealing import AnnealingScheme, next_tolerance, smooth
from suffice.abc.distances import Euclidean
from suffice.abc.driving import Problem, fused_steps
from suffice.abc.measuring import Measure
from suffice.abc.space import Space

COUNT, BETA, DELTA, SPEED = 30, 2.0, 0.2, 0.3
CENTRE, LOW, HIGH = np.array([0.5, 0.2]), np.zeros(2), np.array([2.0, 3.0])
OBSERVED = np.array([0.3, 0.6])


def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta + 0.3 * jax.random.normal(key, (2,))


def log_prior(theta: np.ndarray) -> float:
    """A normal density cut off at both sides, up to a constant."""
    inside = np.all((theta > LOW) & (theta < HIGH))
    return float(-0.5 * np.sum((theta - CENTRE) ** 2)) if inside else -np.inf


def slow_u(reference: list[float], d: float) -> float:
    """Fraction of the reference strictly below d; below all of them, (d / least) / N."""
    if d < min(reference):
        return d / min(reference) / len(reference)
    return sum(value < d for value in reference) / len(reference)


def slow_tolerance(mean: float) -> float:
    return float(brentq(lambda eps: eps**2 + SPEED * eps**1.5 - mean**2, 0.0, 2.0, xtol=1e-300, rtol=1e-14))


class Slow:
    """One particle at a time."""

    def __init__(self, theta: np.ndarray, distance: np.ndarray) -> None:
        self.theta = [np.array(row) for row in theta]
        self.reference = [float(d) for d in distance]
        self.u = [slow_u(self.reference, d) for d in self.reference]
        self.eps = slow_tolerance(float(np.mean(self.u)))
        self.accepted = self.proposed = self.outside = self.resampled = 0

    def step(self, key: jax.Array, simulate: Any, measure: Any) -> None:
        key_propose, key_data = jax.random.split(key)
        key_step, key_uniform = jax.random.split(key_propose)
        uniforms = np.asarray(jax.random.uniform(key_uniform, (3, COUNT), jnp.float64))
        noise = np.asarray(jax.random.normal(key_step, (COUNT, 2), jnp.float64))
        scale = np.real(sqrtm(BETA * np.cov(np.array(self.theta).T)))
        before_theta, before_u = [row.copy() for row in self.theta], list(self.u)
        number = 0
        for i in range(COUNT):
            chosen = int(uniforms[0, i] * COUNT)
            proposed = before_theta[chosen] + scale @ noise[i]
            self.proposed += 1
            if log_prior(proposed) == -np.inf:
                self.outside += 1
                continue
            x = simulate(jax.random.fold_in(key_data, number), proposed)
            number += 1
            u = slow_u(self.reference, measure(x))
            ratio = np.exp(log_prior(proposed) - log_prior(before_theta[chosen]) + (before_u[chosen] - u) / self.eps)
            if uniforms[1, i] < ratio:
                self.accepted += 1
                self.theta[chosen], self.u[chosen] = proposed, u
        mean = float(np.mean(self.u))
        self.eps = slow_tolerance(mean)
        if self.accepted >= COUNT:
            weights = np.exp(-DELTA * np.array(self.u) / mean)
            cumulated = np.cumsum(weights) / weights.sum()
            rows = [int(np.argmax(cumulated > uniform)) for uniform in uniforms[2]]
            self.theta, self.u = [self.theta[row] for row in rows], [self.u[row] for row in rows]
            self.eps = slow_tolerance(float(np.mean(self.u)))
            self.accepted = self.proposed = 0
            self.resampled += 1


@pytest.fixture
def problem(float64: None) -> Problem:
    prior = dist.TruncatedNormal(jnp.asarray(CENTRE), 1.0, low=jnp.asarray(LOW), high=jnp.asarray(HIGH)).to_event(1)
    measure = Measure.of(sf.Model(prior, simulator), lambda x: x, OBSERVED)
    ruler = Euclidean(scaled=False).ruler(np.ones((3, 2)))
    return Problem(measure, ruler, Space.of(prior), jnp.asarray(OBSERVED), jnp.array([1.0, 1.0]))


def test_every_step_is_that_of_the_slow_version(key: jax.Array, problem: Problem) -> None:
    scheme, run_one = AnnealingScheme(COUNT, BETA, DELTA, SPEED), jax.jit(simulator)

    def measure(x: np.ndarray) -> float:
        return float(np.sqrt(np.sum((np.asarray(x) - OBSERVED) ** 2)))

    theta, measured = problem.measure.from_prior(key, COUNT)
    distance = np.array([measure(row) for row in np.asarray(measured.statistics)])
    slow = Slow(theta, distance)
    zero = jnp.zeros(())
    state, _ = scheme.begin(
        problem.space, jnp.asarray(theta), jnp.asarray(measured.statistics), jnp.asarray(distance), zero
    )
    outside = 0
    for number in range(25):
        state, (record, simulations, _) = fused_steps(scheme, problem, key, state, np.arange(number, number + 1))
        slow.step(jax.random.fold_in(key, number), run_one, measure)
        outside += COUNT - int(simulations[0])
        assert np.allclose(state.particles.position, slow.theta, rtol=1e-9)
        assert np.allclose(state.smoothed, slow.u, rtol=1e-9)
        assert float(record.tolerance[0]) == pytest.approx(slow.eps, rel=1e-9)
        assert (int(state.accepted), int(state.proposed)) == (slow.accepted, slow.proposed)
    assert outside == slow.outside > 10
    assert slow.resampled > 2
    assert float(np.min(slow.u)) < 1 / COUNT  # the rule below all of the reference was used


def test_smoothed_distances() -> None:
    reference = jnp.array([1.0, 2.0, 2.0, 4.0])
    u = smooth(reference, jnp.array([0.5, 1.0, 1.5, 2.0, 3.0, 9.0]))
    assert u.tolist() == [0.125, 0.0, 0.25, 0.25, 0.75, 1.0]


@pytest.mark.parametrize("mean", [0.5, 1e-2, 1e-5, 1e-9])
def test_the_tolerance_is_the_root(mean: float) -> None:
    assert float(next_tolerance(jnp.asarray(mean), SPEED)) == pytest.approx(slow_tolerance(mean), rel=1e-4)
