"""Measures at full size: seconds, processor seconds and peak memory, each in a process of its own.

    python benchmarks/bench_diagnostics.py [case …]

`wasserstein-lean` and `wasserstein-dense`: exact W₂ of 10⁴ against 10⁴ draws of two correlated Gaussians (p = 2), with
costs computed as needed and held in memory. `wasserstein-paper`: 10⁴ against 10³. `c2st`: 10⁴ against 10⁴ draws.
`mmd`: the same. `kernel`, `energy`: scores of 1000 draws × 120 steps × 40 variables, compilation included; `loop`: the
energy score by scipy's pairwise distances, step by step, for comparison. `bandwidth`: of Lorenz96 "large", 1000
simulations. Memory is what a case adds to that of the process that imported everything.
"""

import argparse
import resource
import subprocess
import sys
import time

import jax
import numpy as np
from scipy.spatial.distance import cdist, pdist

import suffice as sf
from suffice.diagnostics import c2st, energy_score, kernel_bandwidth, kernel_score, mmd, wasserstein

DRAWS, SHAPE = 10_000, (1000, 120, 40)


def two_samples(number: int = DRAWS) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(DRAWS, 2)), generator.normal(size=(number, 2))
    return x, y @ np.array([[1.0, 0.3], [0.0, 0.8]]) + 0.2


def prediction() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    return generator.normal(size=SHAPE).astype(np.float32), generator.normal(size=SHAPE[1:])


def loop() -> float:
    draws, observed = prediction()
    steps = range(SHAPE[1])
    return sum(2 * cdist(draws[:, t], observed[t : t + 1]).mean() - pdist(draws[:, t]).mean() for t in steps)


CASES = {
    "wasserstein-paper": lambda: wasserstein(*two_samples(1000)),
    "wasserstein-lean": lambda: wasserstein(*two_samples()),
    "wasserstein-dense": lambda: wasserstein(*two_samples(), max_gigabytes=5.0),
    "c2st": lambda: c2st(jax.random.key(0), *two_samples()),
    "mmd": lambda: mmd(*two_samples()),
    "kernel": lambda: kernel_score(*prediction(), 6.0).total,
    "energy": lambda: energy_score(*prediction()).total,
    "loop": loop,
    "bandwidth": lambda: kernel_bandwidth(jax.random.key(0), sf.zoo.lorenz96("large")),
}


def peak() -> float:
    """The most memory this process ever held, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def run(name: str) -> None:
    if name.startswith("wasserstein"):
        import ot  # noqa: F401
    if name == "c2st":
        import sklearn.model_selection
        import sklearn.neural_network  # noqa: F401
    before, wall, processor = peak(), time.perf_counter(), time.process_time()
    value = CASES[name]()
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    print(f"{name:20} {value:12.5f} {wall:8.1f} s {processor:8.1f} s cpu {peak() - before:7.2f} GB", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), choices=[*CASES, []], metavar="case")
    parser.add_argument("--here", action="store_true", help="run in this process")
    options = parser.parse_args()
    for case in options.cases:
        if options.here:
            run(case)
        else:
            subprocess.run([sys.executable, __file__, case, "--here"], check=True)
