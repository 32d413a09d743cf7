"""Where simulations run and where they go: workers, overhead, the store; and a fit to a store larger than memory.

    python benchmarks/bench_executors.py                 workers, overhead, store
    python benchmarks/bench_executors.py stream 4        4 GB of simulations in a store, one epoch of a regression over
                                                         them, and how much memory that took
    python benchmarks/bench_executors.py stream 1 score  the same by score matching, which takes longer

All figures of one table come from one run; ratios differ less between machines than seconds.
"""

import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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
    """Populations of 200, as ABC makes them: one after the other, with the same child processes."""
    model, theta = model_of(50.0), np.tile([[0.5, 1.5]], (200, 1))
    taken = {}
    for count in (1, 2):
        simulate_at(KEY, model, theta[:4], executor=count)
        taken[count] = seconds(lambda count=count: simulate_at(KEY, model, theta, executor=count))  # type: ignore[misc]
    print(f"50 ms a simulation, a population of 200: 1 worker {taken[1]:.2f} s, 2 workers {taken[2]:.2f} s, ", end="")
    print(f"{taken[1] / taken[2]:.2f} times as fast")


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
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            memory = seconds(lambda: sf.simulate(KEY, model, num, progress=False), 1)
            path = Path(folder) / "sims"
            stored = seconds(lambda path=path: sf.simulate(KEY, model, num, store=path, progress=False), 1)  # type: ignore[misc]
            ratios.append(stored / memory)
    told = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    print(f"1 ms a simulation, {num}: with a store {told} times the seconds without (median {np.median(ratios):.3f})")


def wide(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta[0] + theta[1] * jax.random.normal(key, (1000,))


def stream(gigabytes: float, *, score: bool) -> None:
    """Simulations in a store, and one epoch over them."""
    model = sf.zoo.ar2() if score else sf.Model(PRIOR, wide)
    num = int(gigabytes * 2**30 / (4 * model.data_size))
    place = Path(tempfile.mkdtemp())
    began = time.perf_counter()
    sims = sf.simulate(KEY, model, num, store=place / "sims")
    print(f"{num} simulations, {sims.x.nbytes / 2**30:.2f} GB of x, in {time.perf_counter() - began:.0f} s; ", end="")
    print(f"{_peak():.2f} GB resident at most so far")
    began = time.perf_counter()
    objective = sf.ScoreMatching() if score else sf.PosteriorMean()
    fit = sf.fit(KEY, model, sims, objective, training=sf.Training(epochs=1, batch_size=2000))
    print(f"one epoch in {time.perf_counter() - began:.0f} s, validation loss {fit.history.best_loss:.4g}; ", end="")
    print(f"{_peak():.2f} GB resident at most")
    shutil.rmtree(place)


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    if sys.argv[1:2] == ["stream"]:
        stream(float(sys.argv[2]), score=sys.argv[3:] == ["score"])
        return
    workers()
    overhead()
    store()


if __name__ == "__main__":
    main()
