"""How well score matching recovers what is known: MCC of the exponential families, Fisher divergence to the true score.

    python benchmarks/accuracy_fits.py mcc [--seeds 3] [--models beta gamma gaussian]
    python benchmarks/accuracy_fits.py fisher [--models gaussian gamma beta ar2 ma2]

`mcc`: weak and strong mean correlation coefficients, in and out of sample, of networks with d_s = p fitted to 10,000
simulations by the default training, against the paper's weak values out of sample. 1,000 fresh simulations.

`fisher`: E‖∇ log p_w − ∇ log p₀‖² / E‖∇ log p₀‖² over 2,000 fresh simulations, in the chart of each fit. Default
networks and training on 10,000 simulations, of which a tenth is held out (the fits of `accuracy_direct.py`, seed 0);
the paper's networks, training and unweighted objective on 10,000 and 10,000 held out, which takes up to an hour for
the series: a killed run goes on from its checkpoint in `.cache/experiments`. Seconds of each fit are shown with either.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import suffice as sf
from accuracy_direct import cached_fit
from suffice.diagnostics import mcc
from suffice.experiments import SCALES
from suffice.experiments.cache import Cache
from suffice.experiments.lab import Lab
from suffice.family import ExponentialFamily

PAPER_WEAK_OUT = {  # statistics, natural parameters
    ("beta", "SM"): (0.958, 0.991),
    ("gamma", "SM"): (0.924, 0.967),
    ("gaussian", "SM"): (0.937, 0.974),
    ("beta", "SSM"): (0.986, 0.989),
    ("gamma", "SSM"): (0.928, 0.977),
    ("gaussian", "SSM"): (0.844, 0.862),
}
OBJECTIVES: dict[str, Callable[[], sf.ScoreMatching | sf.SlicedScoreMatching]] = {
    "SM": sf.ScoreMatching,
    "SSM": sf.SlicedScoreMatching,
}


def mcc_table(models: list[str], seeds: int, kinds: list[str]) -> None:
    """Print one row a model, objective and seed."""
    print(f"{'model':9} {'by':4} seed {'stat. weak (paper)':>24} {'nat. weak (paper)':>24} {'strong':>13} {'s':>6}")
    for name in models:
        model = getattr(sf.zoo, name)()
        fresh = sf.simulate(jax.random.key(10_000), model, 1000)
        exact_statistics = np.asarray(jax.vmap(model.sufficient_statistics)(fresh.x))
        exact_natural = np.asarray(jax.vmap(model.natural_parameters)(fresh.theta))
        for kind in kinds:
            for seed in range(seeds):
                keys = jax.random.split(jax.random.key(seed), 3)
                sims = sf.simulate(keys[0], model, 10_000)
                family = ExponentialFamily.default(keys[1], model, num_statistics=model.num_parameters)
                fit = sf.fit(keys[2], model, sims, OBJECTIVES[kind](), family=family)
                statistics = mcc(fit.statistics(fresh.x), exact_statistics)
                natural = mcc(np.asarray(jax.vmap(fit.family.natural)(jnp.asarray(fresh.theta))), exact_natural)
                paper = PAPER_WEAK_OUT[name, kind]
                print(
                    f"{name:9} {kind:4} {seed:4} {statistics.weak_out:15.4f} ({paper[0]:.3f}) "
                    f"{natural.weak_out:16.4f} ({paper[1]:.3f}) {statistics.strong_out:6.3f} {natural.strong_out:6.3f} "
                    f"{fit.history.seconds:6.0f}",
                    flush=True,
                )


@eqx.filter_jit
def _errors(family: ExponentialFamily, model: sf.Model, x: jax.Array, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
    chart = family.data_chart

    def one(x: jax.Array, theta: jax.Array) -> tuple[jax.Array, jax.Array]:
        def true_density(y: jax.Array) -> jax.Array:
            assert model.log_likelihood is not None
            return model.log_likelihood(chart.inverse(y), theta) + chart.log_det(y)

        y = chart.forward(x)
        truth = jax.grad(true_density)(y)
        found = jax.grad(family.log_density)(y, theta)
        return jnp.sum((found - truth) ** 2), jnp.sum(truth**2)

    return jax.vmap(one)(x, theta)


def fisher_fraction(fit: sf.Fit, model: sf.Model) -> float:
    """E‖score − true score‖² / E‖true score‖² over fresh simulations."""
    fresh = sf.simulate(jax.random.key(20_000), model, 2000)
    errors, squares = _errors(fit.family, model, jnp.asarray(fresh.x), jnp.asarray(fresh.theta))
    return float(jnp.mean(errors) / jnp.mean(squares))


def paper_fit(name: str, kind: str) -> sf.Fit:
    """The paper's networks, scaling, training and unweighted objective, on as many simulations as the paper used.

    It is the one that `suffice reproduce --scale paper` makes and keeps.
    """
    return Lab(SCALES["paper"], Cache(Path(".cache") / "experiments")).fit(name, kind)


def fisher_table(models: list[str], paper: str | None) -> None:
    """Print one row a model; `paper`: by which of the paper's objectives its own training is done, if at all."""
    print(
        f"{'model':9} {'default':>9} {'s':>5} {'epochs':>6}"
        + (f" {'paper':>9} {'s':>5} {'epochs':>6}" if paper else "")
    )
    for name in models:
        model = getattr(sf.zoo, name)()
        fits = [cached_fit(name, seed=0)]
        fits += [paper_fit(name, paper)] if paper else []
        cells = [
            f"{fisher_fraction(fit, model):9.5f} {fit.history.seconds:5.0f} {fit.history.epochs:6}" for fit in fits
        ]
        print(f"{name:9} " + " ".join(cells), flush=True)


def main() -> None:
    """Print the table asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=["mcc", "fisher"])
    parser.add_argument("--models", nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--objectives", nargs="+", choices=list(OBJECTIVES), default=list(OBJECTIVES), help="mcc only")
    parser.add_argument("--paper", choices=[*OBJECTIVES, "none"], default="SM", help="fisher: the paper's training by")
    given = parser.parse_args()
    if given.table == "mcc":
        mcc_table(given.models or ["beta", "gamma", "gaussian"], given.seeds, given.objectives)
    else:
        models = given.models or ["gaussian", "gamma", "beta", "ar2", "ma2"]
        fisher_table(models, None if given.paper == "none" else given.paper)


if __name__ == "__main__":
    main()
