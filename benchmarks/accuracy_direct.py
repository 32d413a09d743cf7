"""How close `Direct` posteriors are to the exact ones.

    python benchmarks/accuracy_direct.py accuracy [--models gaussian gamma beta ar2 ma2] [--seeds 3]
    python benchmarks/accuracy_direct.py refinement [--models gaussian gamma beta ar2 ma2] [--seeds 3]
    python benchmarks/accuracy_direct.py calibration [--models gamma ar2]
    python benchmarks/accuracy_direct.py speed

`accuracy`, for each model and seed: 10,000 simulations in all, the default fit, 100 fresh observations. Median total
variation to the exact posterior, root mean squared error of the posterior mean, median ratio of standard deviations,
both for each parameter, and seconds of the fit. Fits are kept in `.cache/accuracy_direct` and used again.

`refinement`: the same without the refinement of η and A, on the same fits.

`calibration`: ranks of 200 prior draws among 99 draws of their posteriors each; χ² of ten bins, its p-value.

`speed`: seconds for one new observation and for 100 of them, after the first call has compiled.

For Lorenz96 large see `accuracy_lorenz.py`.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from scipy.stats import chisquare

import suffice as sf
from suffice.family.normaliser import fit_normaliser
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


def unrefined(name: str, seed: int) -> sf.Fit:
    """The same fit with the normaliser of its own η, found again from its training pairs."""
    model, fit = getattr(sf.zoo, name)(), cached_fit(name, seed)
    sims = sf.simulate(jax.random.split(jax.random.key(1000 + seed))[0], model, 10_000)
    y = np.asarray(jax.vmap(fit.family.data_chart.forward)(sims.x))
    cut = round(len(sims) * (1.0 - fit.settings["training"]["validation_fraction"]))
    assert fit.parameter_chart is not None
    rows = (sims.theta[:cut], y[:cut], sims.theta[cut:], y[cut:])
    return replace(fit, normaliser=fit_normaliser(fit.family, fit.parameter_chart, *rows))


def measure(name: str, seed: int, num: int, fit: sf.Fit) -> None:
    """Print one line."""
    model = getattr(sf.zoo, name)()
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


def calibration(models: list[str], num: int = 200) -> None:
    """Print the uniformity of ranks."""
    for name in models:
        model, method = getattr(sf.zoo, name)(), sf.Direct(cached_fit(name, seed=0))
        sims = sf.simulate(jax.random.key(9000), model, num)
        found = sf.sample_each(jax.random.key(1), method, sims.x, num_draws=495, num_chains=2)
        ranks = np.array(
            [np.sum(post.flat[::10] < theta, axis=0) for post, theta in zip(found, sims.theta, strict=True)]
        )
        counts = [np.histogram(column, bins=10, range=(0, 100))[0] for column in ranks.T]
        print(
            name,
            [f"{parameter}: p = {chisquare(c).pvalue:.2f}" for parameter, c in zip(model.names, counts, strict=True)],
        )


def speed() -> None:
    """Print seconds of posteriors of the Gamma model."""
    model, method = sf.zoo.gamma(), sf.Direct(cached_fit("gamma", seed=0))
    observed = sf.simulate(jax.random.key(777), model, 203).x
    for rows in (observed[:1], observed[1:2], observed[2:3], observed[3:103], observed[103:]):
        start = time.perf_counter()
        found = sf.sample_each(jax.random.key(0), method, rows)
        seconds, worst = time.perf_counter() - start, max(post.convergence.rhat.max() for post in found)
        print(
            f"{len(rows):4} observations, 4 × 1000 draws each: {seconds:6.2f} s, largest R-hat {worst:.4f}", flush=True
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["accuracy", "refinement", "calibration", "speed"])
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--observations", type=int, default=100)
    given = parser.parse_args()
    if given.table == "calibration":
        return calibration(given.models or ["gamma", "ar2"])
    if given.table == "speed":
        return speed()
    fit_of = cached_fit if given.table == "accuracy" else unrefined
    print(f"{'model':9} seed {'TV':>7}  {'RMSE of mean':18} {'sd ratio':15} {'fit s':>5}")
    for name in given.models or ["gaussian", "gamma", "beta", "ar2", "ma2"]:
        for seed in range(given.seeds):
            measure(name, seed, given.observations, fit_of(name, seed))


if __name__ == "__main__":
    main()
