"""Where simulations run and where they go: workers, overhead, the store; and a fit to a store larger than memory.

    python benchmarks/bench_executors.py                  workers, overhead, store
    python benchmarks/bench_executors.py stream 4         4 GB of simulations in a store, one epoch of a regression over
                                                          them, and how much memory that took
    python benchmarks/bench_executors.py stream 4 sliced  the same by sliced score matching
    python benchmarks/bench_executors.py stream 1 score   the same by exact score matching, whose cost grows with the
                                                          number of coordinates once more: a thousand here

All figures of one table come from one run; ratios differ less between machines than seconds.
"""

import resource
import shutil
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import suffice as sf
from suffice.simulation import simulate_at

PRIOR = dist.Uniform(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])).to_event(1)
KEY = jax.random.key(0)


def trivial(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    return rng.normal(theta["mean"], theta["sd"], 10)


def model_of(milliseconds: float) -> sf.Model:
    """A simulator that takes so long; it sleeps, as one that waits for a program does."""

    def wait(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
        time.sleep(milliseconds / 1000)
        return rng.normal(theta["mean"], theta["sd"], 10)

    return sf.Model.external(PRIOR, wait if milliseconds else trivial, names=["mean", "sd"], data_shape=(10,))


def seconds(run: Callable[[], object], repetitions: int = 3) -> float:
    times = []
    for _ in range(repetitions):
        began = time.perf_counter()
        run()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def workers() -> None:
    """A whole run of annealing ABC, 50 ms a simulation, on one worker and on two."""
    model, observed, taken = model_of(50.0), np.full(10, 0.5), {}
    for count in (1, 2):
        method = sf.Annealing(model, summary, particles=40, iterations=5, scale_simulations=20, executor=count)
        simulate_at(KEY, model, np.tile([[0.5, 1.5]], (4, 1)), executor=count)  # child processes are there
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sf.SamplingWarning)  # so few draws are none to believe
            run = partial(sf.sample, KEY, method, observed, progress=False)
            if count == 1:
                simulations = run().info["simulations"]  # and programs are compiled
            taken[count] = seconds(run)
    print(f"annealing ABC, 40 particles, 5 iterations, {simulations} simulations of 50 ms: ", end="")
    print(f"1 worker {taken[1]:.2f} s, 2 workers {taken[2]:.2f} s, {taken[1] / taken[2]:.2f} times as fast")


def summary(x: np.ndarray) -> np.ndarray:
    return np.array([np.mean(x), np.std(x)])


def overhead() -> None:
    """Everything but the simulator, for each simulation, on one worker."""
    model, num = model_of(0.0), 20_000
    sf.simulate(KEY, model, 500, executor=1, progress=False)
    whole = seconds(lambda: sf.simulate(KEY, model, num, executor=1, progress=False))
    rng = np.random.default_rng(0)
    alone = seconds(lambda: [trivial({"mean": 0.5, "sd": 1.5}, rng) for _ in range(num)])
    print(f"a trivial simulator: {1000 * (whole - alone) / num:.3f} ms of overhead a simulation")


def store() -> None:
    """The same run in memory and in a store."""
    model, num = model_of(1.0), 10_000
    sf.simulate(KEY, model, 500, progress=False)
    ratios = []
    for _ in range(7):
        with tempfile.TemporaryDirectory() as folder:
            run = partial(sf.simulate, KEY, model, num, progress=False)
            memory, stored = seconds(run, 1), seconds(partial(run, store=Path(folder) / "sims"), 1)
            ratios.append(stored / memory)
    told = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    print(f"1 ms a simulation, {num}: with a store {told} times the seconds without (median {np.median(ratios):.3f})")


def wide(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta[0] + theta[1] * jax.random.normal(key, (1000,))


OBJECTIVES: dict[str, Any] = {
    "mean": sf.PosteriorMean(),
    "score": sf.ScoreMatching(),
    "sliced": sf.SlicedScoreMatching(),
}


def stream(gigabytes: float, objective: str) -> None:
    """Simulations in a store, and one epoch over them with the network of a model without structure, an `Mlp`."""
    model = sf.Model(PRIOR, wide)
    num = int(gigabytes * 2**30 / (4 * model.data_size))
    place = Path(tempfile.mkdtemp())
    began = time.perf_counter()
    sims = sf.simulate(KEY, model, num, store=place / "sims")
    print(f"{num} simulations, {sims.x.nbytes / 2**30:.2f} GB of x, in {time.perf_counter() - began:.0f} s; ", end="")
    print(f"{_peak():.2f} GB resident at most so far", flush=True)
    began = time.perf_counter()
    training = sf.Training(epochs=1, batch_size=2000)
    fit = sf.fit(KEY, model, sims, OBJECTIVES[objective], training=training)
    print(f"one epoch in {time.perf_counter() - began:.0f} s, validation loss {fit.history.best_loss:.4g}; ", end="")
    print(f"{_peak():.2f} GB resident at most")
    shutil.rmtree(place)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    if sys.argv[1:2] == ["stream"]:
        stream(float(sys.argv[2]), *(sys.argv[3:] or ["mean"]))
        return
    workers()
    overhead()
    store()


if __name__ == "__main__":
    main()
