"""How close `Direct` posteriors are to the exact ones.

    python benchmarks/accuracy_direct.py [--models gaussian gamma beta ar2 ma2] [--seeds 3]

For each model and seed: 10,000 simulations in all, the default fit, 100 fresh observations. Median total variation to
the exact posterior, root mean squared error of the posterior mean, median ratio of standard deviations, both for each
parameter, and seconds of the fit. Fits are kept in `.cache/accuracy_direct` and used again.
"""

import argparse
from pathlib import Path

import jax
import numpy as np

import suffice as sf
from suffice.grid import GridPosterior

CACHE = Path(".cache") / "accuracy_direct"
NODES = 241  # along each parameter, in the box of either posterior


def cached_fit(name: str, seed: int) -> sf.Fit:
    """The default fit of that model."""
    path = CACHE / f"{name}-{seed}.npz"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        model = getattr(sf.zoo, name)()
        keys = jax.random.split(jax.random.key(1000 + seed))
        sf.fit(keys[1], model, sf.simulate(keys[0], model, 10_000)).save(path)
    return sf.load(path)


def total_variation(one: GridPosterior, other: GridPosterior) -> float:
    """½ ∫ |p − q|, on a grid over the boxes of both."""
    axes = [np.linspace(min(a[0], b[0]), max(a[-1], b[-1]), NODES) for a, b in zip(one.axes, other.axes, strict=True)]
    nodes = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    densities = [np.exp(post.log_prob(nodes)) for post in (one, other)]
    p, q = (density / density.sum() for density in densities)
    return 0.5 * float(np.abs(p - q).sum())


def measure(name: str, seed: int, num: int) -> None:
    """Print one line."""
    model, fit = getattr(sf.zoo, name)(), cached_fit(name, seed)
    observed = sf.simulate(jax.random.key(5000 + seed), model, num).x
    exact = [sf.zoo.exact_posterior(model, row) for row in observed]
    method = sf.Direct(fit)
    found = [method.grid(row) for row in observed]
    pairs = list(zip(found, exact, strict=True))
    distance = np.median([total_variation(one, other) for one, other in pairs])
    errors = np.sqrt(np.mean([(one.mean - other.mean) ** 2 for one, other in pairs], axis=0))
    ratios = np.median([one.sd / other.sd for one, other in pairs], axis=0)
    print(
        f"{name:9} {seed:4} {distance:7.4f}  {np.round(errors, 4)!s:18} {np.round(ratios, 3)!s:15} "
        f"{fit.history.seconds:5.0f}",
        flush=True,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["gaussian", "gamma", "beta", "ar2", "ma2"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--observations", type=int, default=100)
    given = parser.parse_args()
    print(f"{'model':9} seed {'TV':>7}  {'RMSE of mean':18} {'sd ratio':15} {'fit s':>5}")
    for name in given.models:
        for seed in range(given.seeds):
            measure(name, seed, given.observations)


if __name__ == "__main__":
    main()
