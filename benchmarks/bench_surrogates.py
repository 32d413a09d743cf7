"""Synthetic likelihood and ratio estimation at the paper's sizes: seconds, simulations, and how near they come.

    python benchmarks/bench_surrogates.py [--model gamma] [--small] [--methods PMC-SL PMC-RE MCMC-SL]

Population Monte Carlo with 1,000 particles and 10 iterations, 100 (SL) or 1,000 (RE) simulations at each particle, for
one observation; exact sufficient statistics. W₂ is taken between 1,000 draws of either posterior, beside the W₂ of two
such samples of the exact one (what no method can beat); the error of the mean is in standard deviations of the exact
posterior. "first": with compilation (CPU: the seconds of all cores together); "again": another observation with the
same programs.
"""

import argparse
import time
import warnings
from typing import Any

import jax
import numpy as np
from scipy.optimize import linear_sum_assignment

import suffice as sf
from suffice.surrogates import RatioEstimation, SyntheticLikelihood
from suffice.surrogates.surrogate import Surrogate


def wasserstein(one: np.ndarray, other: np.ndarray) -> float:
    """W₂ between two samples of the same size."""
    cost = np.sum((one[:, None] - other[None]) ** 2, axis=-1)
    return float(np.sqrt(cost[linear_sum_assignment(cost)].mean()))


def methods(model: sf.Model, small: bool) -> dict[str, Surrogate]:
    """The paper's two, and synthetic likelihood in Markov chains."""
    statistics = model.sufficient_statistics
    assert statistics is not None
    particles, iterations, shrink = (200, 3, 5) if small else (1000, 10, 1)
    sizes: dict[str, Any] = {"particles": particles, "iterations": iterations}
    return {
        "PMC-SL": SyntheticLikelihood(model, statistics, 100 // shrink, **sizes),
        "PMC-RE": RatioEstimation(model, statistics, 1000 // shrink, **sizes),
        "MCMC-SL": SyntheticLikelihood(model, statistics, 100 // shrink, sampler="metropolis", particles=particles),
    }


def main() -> None:
    """Print one line a method, and W₂ by iteration."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["gaussian", "gamma", "beta"], default="gamma")
    parser.add_argument("--small", action="store_true", help="a fifth of the simulations, 200 particles, 3 iterations")
    parser.add_argument("--methods", nargs="+", default=["PMC-SL", "PMC-RE"])
    parser.add_argument("--again", action="store_true", help="time another observation too")
    given = parser.parse_args()
    warnings.simplefilter("ignore", sf.SamplingWarning)
    model = getattr(sf.zoo, given.model)()
    observed = sf.simulate(jax.random.key(777), model, 2).x
    exact = sf.zoo.exact_posterior(model, observed[0])
    reference, other = (exact.resample(jax.random.key(i), 1000).flat for i in (0, 1))
    print(
        f"{given.model}: W2 of two exact samples {wasserstein(reference, other):.3f}; exact mean {exact.mean.round(3)}"
    )
    seconds = f"{'first, s':>9} {'CPU, s':>7} {'again, s':>9}"
    print(f"{'method':8} {'simulations':>12} {seconds} {'W2':>6} {'mean error':>11} {'ESS':>5}")
    for name, method in methods(model, given.small).items():
        if name not in given.methods:
            continue
        began, spent = time.perf_counter(), time.process_time()
        post = sf.sample(jax.random.key(4), method, observed[0])
        first, processor = time.perf_counter() - began, time.process_time() - spent
        again = np.nan
        if given.again:
            began = time.perf_counter()
            sf.sample(jax.random.key(5), method, observed[1])
            again = time.perf_counter() - began
        error = np.linalg.norm((post.mean - exact.mean) / exact.sd)
        distance = wasserstein(post.resample(jax.random.key(0), 1000).flat, reference)
        size = post.convergence.ess_bulk.min()
        seconds = f"{first:9.1f} {processor:7.1f} {again:9.1f}"
        print(
            f"{name:8} {post.info['simulations']:12,} {seconds} {distance:6.3f} {error:11.3f} {size:5.0f}", flush=True
        )
        for used, theta, weights in zip(
            post.info.get("history_simulations", ()),
            post.info.get("history_theta", ()),
            post.info.get("history_weights", ()),
            strict=True,
        ):
            rows = sf.Posterior(theta[None], model.names, weights[None]).resample(jax.random.key(0), 1000).flat
            print(f"         after {used:11,} simulations: W2 {wasserstein(rows, reference):.3f}")


if __name__ == "__main__":
    main()
