"""Simulations a second of `Annealing`, against the same algorithm in numpy on the same simulator.

    python benchmarks/bench_abc.py [--iterations 100]

1,000 particles × 100 iterations on Gamma (its sufficient statistics) and on small Lorenz96 (means, standard deviations
and lag-1 products of the variables). The numpy side is the algorithm as one writes it down: one proposal at a time,
with the simulators of `bench_simulation.py`, over as many iterations as take a few seconds. Both sides are timed from
the first simulation to the last and both count simulations made; ours is compiled before (its second run counts).
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import brentq

import suffice as sf
from bench_simulation import Loop, gamma, lorenz
from suffice.abc import Annealing

PARTICLES = 1000
BETA, DELTA, SPEED = 2.0, 0.2, 0.3
Statistics = Callable[[Any], Any]


def gamma_statistics(x: np.ndarray) -> np.ndarray:
    return np.array([np.log(x).sum(), x.sum()])


def moments(x: Any, library: Any = jnp) -> Any:
    """Means, standard deviations and lag-1 products of each variable of a series."""
    return library.concatenate([x.mean(axis=0), x.std(axis=0), (x[1:] * x[:-1]).mean(axis=0)])


def moments_in_numpy(x: np.ndarray) -> np.ndarray:
    return np.asarray(moments(x, np))


def smoothed(reference: np.ndarray, distance: float) -> float:
    if distance < reference[0]:
        return distance / reference[0] / len(reference)
    return float(np.searchsorted(reference, distance)) / len(reference)


def root(mean: float) -> float:
    return float(brentq(lambda eps: eps**2 + SPEED * eps**1.5 - mean**2, 0.0, 2.0))


def anneal_in_numpy(
    loop: Loop, statistics: Statistics, low: np.ndarray, high: np.ndarray, observed: np.ndarray, iterations: int
) -> tuple[np.ndarray, int]:
    """Particles after so many iterations, and the simulations they took."""
    rng, used = np.random.default_rng(0), PARTICLES
    theta = rng.uniform(low, high, (PARTICLES, len(low)))
    first = np.array([statistics(loop(rng, row)) for row in theta])
    scale, target = first.std(axis=0), statistics(observed)
    distances = np.linalg.norm((first - target) / scale, axis=1)
    reference = np.sort(distances)
    u = np.array([smoothed(reference, distance) for distance in distances])
    tolerance, accepted = root(float(u.mean())), 0
    for _ in range(iterations - 1):
        covariance = BETA * np.cov(theta, rowvar=False)
        old, old_u = theta.copy(), u.copy()
        for _ in range(PARTICLES):
            picked = rng.integers(PARTICLES)
            proposed = rng.multivariate_normal(old[picked], covariance)
            if np.any(proposed < low) or np.any(proposed > high):
                continue
            used += 1
            distance = float(np.linalg.norm((statistics(loop(rng, proposed)) - target) / scale))
            new = smoothed(reference, distance)
            if rng.uniform() < np.exp(min(0.0, (old_u[picked] - new) / tolerance)):
                accepted += 1
                theta[picked], u[picked] = proposed, new
        tolerance = root(float(u.mean()))
        if accepted >= PARTICLES:
            weights = np.exp(-DELTA * u / u.mean())
            rows = rng.choice(PARTICLES, PARTICLES, p=weights / weights.sum())
            theta, u, accepted = theta[rows], u[rows], 0
            tolerance = root(float(u.mean()))
    return theta, used


CASES: list[tuple[str, sf.Model, Statistics, Loop, Statistics, int]] = [  # …, iterations by the loop
    ("gamma", sf.zoo.gamma(), sf.zoo.gamma().sufficient_statistics, gamma, gamma_statistics, 30),  # type: ignore[list-item]
    ("lorenz96 small", sf.zoo.lorenz96("small"), moments, lorenz(45, 8), moments_in_numpy, 2),
]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    print(f"{'model':16} {'suffice, 1/s':>14} {'seconds':>8} {'numpy loop, 1/s':>16} {'ratio':>8}")
    for name, model, statistics, loop, loop_statistics, loop_iterations in CASES:
        key = jax.random.key(0)
        observed = sf.simulate(key, model, 1, progress=False).x[0]
        method = Annealing(model, statistics, PARTICLES, arguments.iterations)
        low, high = (np.asarray(bound) for bound in (model.prior.base_dist.low, model.prior.base_dist.high))
        best, used = np.inf, 0
        for _ in range(arguments.repetitions + 1):
            info = sf.sample(key, method, observed, progress=False).info
            best, used = min(best, info["seconds"]), info["simulations"]
        slow = np.inf
        for _ in range(arguments.repetitions):
            began = time.perf_counter()
            _, loop_used = anneal_in_numpy(loop, loop_statistics, low, high, observed, loop_iterations)
            slow = min(slow, (time.perf_counter() - began) / loop_used)
        print(f"{name:16} {used / best:14,.0f} {best:8.2f} {1 / slow:16,.0f} {used / best * slow:8.0f}", flush=True)


if __name__ == "__main__":
    main()
