"""Measures at full size: seconds, processor seconds and peak memory, each in a process of its own.

    python benchmarks/bench_diagnostics.py [case …]

`wasserstein`: exact W₂ of 10⁴ against 10⁴ draws of two correlated Gaussians, p = 2 or 5; `-lean` and `-dense`: the same
by all pairs at once, as other samples have it, with costs computed as needed and held in memory. `wasserstein-paper`:
10⁴ against 10³. `c2st`: 10⁴ against 10⁴ draws.
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
from suffice.diagnostics.discrepancy import rows_of, wasserstein_of_all_pairs

DRAWS, SHAPE = 10_000, (1000, 120, 40)


def two_samples(number: int = DRAWS, p: int = 2) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(DRAWS, p)), generator.normal(size=(number, p))
    mixing = np.triu(np.full((p, p), 0.3), 1) + np.diag([1.0] + [0.8] * (p - 1))
    return x, y @ mixing + 0.2


def all_pairs(p: int, gigabytes: float) -> float:
    (x, a), (y, b) = (rows_of(rows) for rows in two_samples(p=p))
    return wasserstein_of_all_pairs(x, a, y, b, gigabytes, 10_000_000)


def prediction() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    return generator.normal(size=SHAPE).astype(np.float32), generator.normal(size=SHAPE[1:])


def loop() -> float:
    draws, observed = prediction()
    steps = range(SHAPE[1])
    return sum(2 * cdist(draws[:, t], observed[t : t + 1]).mean() - pdist(draws[:, t]).mean() for t in steps)


CASES = {
    "wasserstein-paper": lambda: wasserstein(*two_samples(1000)),
    "wasserstein-2": lambda: wasserstein(*two_samples()),
    "wasserstein-2-lean": lambda: all_pairs(2, 0.0),
    "wasserstein-2-dense": lambda: all_pairs(2, 5.0),
    "wasserstein-5": lambda: wasserstein(*two_samples(p=5)),
    "wasserstein-5-lean": lambda: all_pairs(5, 0.0),
    "wasserstein-5-dense": lambda: all_pairs(5, 5.0),
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
