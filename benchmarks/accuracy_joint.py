"""Whether score matching in θ, or in x and θ at once, gives better posteriors than what `fit` does.

    python benchmarks/accuracy_joint.py [--models gamma gaussian ar2] [--seeds 1] [--shares 1] [--epochs 200]

Simulations, first networks, training settings and observations are those of `accuracy_direct.py`. The fits:

- `x`: score matching in y, the default's f and η.
- `theta`: score matching in the chart u of θ, min E[½ ‖∇_u s‖² + Δ_u s] with s = η(θ)·f(y) − A(θ) + log π_u(u). The
  coefficients of P and Q in A = η·(f̄ + P) + Q are trained along, from 0, in units of the quartiles of f.
- `joint`: the sum of both, each divided by the size of the lowest validation loss that it reaches alone, so that either
  is −1 at its best; the θ side times each of `--shares`.

Each with the A that was trained along; with that of `fit_normaliser` after; and with that refined, which is the
default for `x`, where the refinement is kept. Median total variation to the exact posterior, root mean squared error
of the posterior mean, median ratio of standard deviations, the epoch that was kept, seconds of the training. Fits are
kept in `.cache/accuracy_joint` and used again.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpyro.distributions import Distribution

import suffice as sf
from accuracy_direct import cached_fit, total_variation
from suffice.charts import Chart
from suffice.family import ExponentialFamily
from suffice.family.normaliser import Normaliser, fit_normaliser, monomials
from suffice.fitting.loop import train
from suffice.fitting.refining import refine
from suffice.fitting.run import default_training
from suffice.matching.objectives import Batch

CACHE = Path(".cache") / "accuracy_joint"
DEGREES = (6, 3)  # of Q and P
UNITS = 500  # training data that the quartiles of f are taken over


class NormalisedFamily(eqx.Module):
    """A family with a normaliser that is trained along; `y` are the data that give quartiles of f."""

    family: ExponentialFamily
    normaliser: Normaliser
    prior: Distribution
    chart: Chart
    y: Float[Array, "m ..."]

    def trainable(self) -> PyTree[bool]:
        """Which leaves are fitted: the family's networks, and the coefficients of P and Q."""

        def parts(module: "NormalisedFamily") -> tuple[PyTree, ...]:
            return (module.family, module.normaliser.polynomial, module.normaliser.multipliers)

        return eqx.tree_at(parts, jax.tree.map(lambda _: False, self), (self.family.trainable(), True, True))

    def frozen_on(self, theta: Float[Array, "n p"]) -> "NormalisedFamily":
        """The same with η standardised over the rows of `theta`, and P and Q in units of the data."""
        family, found = self.family.frozen_on(theta), self.normaliser
        low, centre, high = jnp.quantile(jax.vmap(family.statistics_of)(self.y), jnp.array([0.25, 0.5, 0.75]), axis=0)
        spread = high - low
        coefficients = (found.polynomial * jnp.linalg.norm(spread), found.multipliers * spread)
        parts = (family.natural, found.coordinates, found.middle, found.reach, centre)
        normaliser = Normaliser(*parts, *coefficients, degrees=found.degrees)
        return eqx.tree_at(lambda module: (module.family, module.normaliser), self, (family, normaliser))


@dataclass(frozen=True)
class JointScoreMatching:
    """`data` × score matching in y + `parameters` × score matching in u."""

    data: float
    parameters: float

    def weights(self, y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """See `Objective`: those of the side of y."""
        return sf.ScoreMatching().weights(y, theta)

    def losses(self, key: PRNGKeyArray, module: Any, batch: Batch) -> Float[Array, " n"]:
        """See `Objective`."""
        sides = jax.vmap(_parameter_loss, (None, 0, 0))(module, batch.y, batch.theta)
        total = self.parameters * jnp.where(batch.weight > 0, sides, 0.0)  # rows of weight 0 fill up a batch
        return total + self.data * sf.ScoreMatching().losses(key, module.family, batch) if self.data else total


def _parameter_loss(module: NormalisedFamily, y: Array, theta: Array) -> Array:
    """½ ‖∇_u s‖² + Δ_u s for one pair, less the same of log π_u, which no weight changes."""
    u, statistics = module.chart.forward(theta), module.family.statistics_of(y)

    def ratio(u: Array) -> Array:
        return module.normaliser.log_density(statistics, module.chart.inverse(u))

    slope, prior = jax.grad(ratio)(u), jax.grad(lambda u: module.chart.log_prob(module.prior, u))(u)
    return slope @ (0.5 * slope + prior) + jnp.trace(jax.hessian(ratio)(u))


class Problem:
    """What every fit of a model and a seed shares: the simulations and the default fit."""

    def __init__(self, name: str, seed: int, num: int) -> None:
        self.name, self.seed, self.model = name, seed, getattr(sf.zoo, name)()
        self.default = cached_fit(name, seed)
        key, self.key = jax.random.split(jax.random.key(1000 + seed))
        self.training = default_training(self.model, sf.ScoreMatching())
        sims = sf.simulate(key, self.model, 10_000)
        cut = round(len(sims) * (1.0 - self.training.validation_fraction))
        y = np.asarray(jax.vmap(self.default.family.data_chart.forward)(sims.x))
        rows = (y, sims.theta, sf.ScoreMatching().weights(y, sims.theta))
        self.x = sims.x[:cut]
        self.pairs, self.held_out = (
            Batch(*(jnp.asarray(part[side]) for part in rows)) for side in (slice(cut), slice(cut, None))
        )
        self.observed = sf.simulate(jax.random.key(5000 + seed), self.model, num).x
        self.exact = [sf.zoo.exact_posterior(self.model, row) for row in self.observed]

    def fit(self, objective: JointScoreMatching, epochs: int | None) -> sf.Fit:
        """The default's first networks, trained by this objective."""
        training = replace(self.training, epochs=epochs or self.training.epochs)
        weights = f"{objective.data:.4g}-{objective.parameters:.4g}"
        path = CACHE / f"{self.name}-{self.seed}-{weights}-{training.epochs}.npz"
        if not path.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            key_networks, key = jax.random.split(self.key)
            module = self.first(key_networks)
            found, history = train(key, objective, module, self.pairs, self.held_out, training, progress=False)
            replace(self.default, module=found.family, normaliser=found.normaliser, history=history).save(path)
        return sf.load(path)

    def first(self, key: PRNGKeyArray) -> NormalisedFamily:
        """What training begins with."""
        family = ExponentialFamily.default(key, self.model).with_charts(self.model, self.pairs.theta, self.x)
        coordinates, p, zeros = family.natural.chart, self.model.num_parameters, jnp.zeros(family.num_statistics)
        v = jax.vmap(coordinates.forward)(self.pairs.theta)
        low, high = v.min(axis=0), v.max(axis=0)
        own, others = (len(monomials(p, degree)) for degree in DEGREES)
        parts = (family.natural, coordinates, (low + high) / 2, (high - low) / 2, zeros)
        normaliser = Normaliser(*parts, jnp.zeros(own - 1), jnp.zeros((others, len(zeros))), degrees=DEGREES)
        chart = self.model.parameter_chart(self.pairs.theta)
        return NormalisedFamily(family, normaliser, self.model.prior, chart, self.pairs.y[:UNITS])

    def variants(self, label: str, fit: sf.Fit) -> Iterator[tuple[str, sf.Fit]]:
        """The fit with the library's normaliser in place of its own, and with that refined."""
        rows = [part for batch in (self.pairs, self.held_out) for part in (batch.theta, batch.y)]
        assert fit.parameter_chart is not None
        normaliser = fit_normaliser(fit.family, fit.parameter_chart, *rows)
        yield f"{label}, normaliser after", replace(fit, normaliser=normaliser)
        key, steps = jax.random.fold_in(self.key, 2), self.training.refinement
        given = {"prior": self.model.prior, "chart": fit.parameter_chart, "steps": steps}
        refined = refine(key, fit.family, normaliser, *rows, **given)
        if not eqx.tree_equal(refined, normaliser):
            yield f"{label}, and refined", replace(fit, normaliser=refined)

    def measure(self, label: str, fit: sf.Fit) -> None:
        """Print one line."""
        method = sf.Direct(fit)
        pairs = [(method.grid(row), exact) for row, exact in zip(self.observed, self.exact, strict=True)]
        distance = np.median([total_variation(one, other) for one, other in pairs])
        errors = np.sqrt(np.mean([(one.mean - other.mean) ** 2 for one, other in pairs], axis=0))
        ratios = np.median([one.sd / other.sd for one, other in pairs], axis=0)
        print(
            f"{self.name:9} {self.seed:4} {label:28} {distance:7.4f}  {np.round(errors, 4)!s:18} "
            f"{np.round(ratios, 3)!s:15} {fit.history.best_epoch:5} {fit.history.seconds:5.0f}",
            flush=True,
        )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["gamma", "gaussian", "ar2"])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--shares", type=float, nargs="*", default=[1.0], help="of the θ side in the sum")
    parser.add_argument("--epochs", type=int, help="of `theta` and `joint`; the default's if not given")
    parser.add_argument("--observations", type=int, default=100)
    given = parser.parse_args()
    print(f"{'model':9} seed {'fit':28} {'TV':>7}  {'RMSE of mean':18} {'sd ratio':15} epoch {'fit s':>5}")
    for name in given.models:
        for seed in range(given.seeds):
            problem = Problem(name, seed, given.observations)
            for variant in problem.variants("x", problem.default):
                problem.measure(*variant)
            alone = problem.fit(JointScoreMatching(0.0, 1.0), given.epochs)
            data = 1.0 / abs(problem.default.history.best_loss)
            parameters = 1.0 / abs(alone.history.best_loss)
            fits = {"theta": alone}
            for share in given.shares:
                fits[f"joint {share:g}"] = problem.fit(JointScoreMatching(data, share * parameters), given.epochs)
            for label, fit in fits.items():
                for variant in ((label, fit), *problem.variants(label, fit)):
                    problem.measure(*variant)


if __name__ == "__main__":
    main()
