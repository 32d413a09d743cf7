"""A check of the normaliser: the score of a right density has mean zero at every θ."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from suffice.family.exponential import ExponentialFamily
from suffice.family.gaussian import ConditionalGaussian
from suffice.family.normaliser import Normaliser, statistics_of_rows
from suffice.family.regression import Regression


@dataclass(frozen=True)
class Residual:
    """The mean score E[∇ log p(y|θ) | θ] of a density, 0 if the density is right, in bins along each parameter.

    Attributes:
        theta: the mean of each parameter in its bins.
        mean: the mean score in each bin, one value for each coordinate of θ (those of the normaliser).
        standard_error: of that mean.
        shift: the mean divided by the standard deviation of the score. That is about how far posteriors are off, in
            their own standard deviations.
    """

    theta: Float[np.ndarray, "p bins"]
    mean: Float[np.ndarray, "p bins q"]
    standard_error: Float[np.ndarray, "p bins q"]
    shift: Float[np.ndarray, "p bins q"]

    @property
    def largest(self) -> float:
        """The largest mean score in standard errors; about 3 for a right density, as the largest of many."""
        return float(np.max(np.abs(self.mean) / self.standard_error))

    @property
    def excess(self) -> float:
        """The mean square of the mean scores in standard errors; about 1 for a right density."""
        return float(np.mean((self.mean / self.standard_error) ** 2))


def residual(
    normaliser: Normaliser | ConditionalGaussian,
    family: ExponentialFamily | Regression,
    theta: Float[ArrayLike, "n p"],
    y: Float[ArrayLike, "n ..."],
    *,
    bins: int = 10,
) -> Residual:
    """The mean score of η(θ)·f(y) − A(θ) against θ, from pairs that nothing was fitted to.

    For a regression it is that of the density of its statistics.

    Args:
        normaliser: A.
        family: gives f.
        theta: parameters, one row a pair.
        y: data, in the coordinates of the family's chart.
        bins: their number along each parameter, if that leaves 20 pairs in each.
    """
    rows = np.asarray(theta)
    statistics = jnp.asarray(statistics_of_rows(family, np.asarray(y)), normaliser.centre.dtype)
    values = np.asarray(_scores(normaliser, statistics, jnp.asarray(rows)), np.float64)
    bins = max(1, min(bins, len(rows) // 20))
    members = [np.array_split(np.argsort(column, kind="stable"), bins) for column in rows.T]
    centres = np.array([[column[part].mean() for part in parts] for column, parts in zip(rows.T, members, strict=True)])
    mean = np.array([[values[part].mean(0) for part in parts] for parts in members])
    sd = np.array([[values[part].std(0, ddof=1) for part in parts] for parts in members])
    root = np.sqrt([[[len(part)] for part in parts] for parts in members])
    return Residual(centres, mean, sd / root, mean / sd)


@eqx.filter_jit
def _scores(normaliser: Normaliser | ConditionalGaussian, statistics: Array, theta: Array) -> Array:
    """The gradient of η·f − A in the normaliser's coordinates, of every row."""

    def one(f: Array, row: Array) -> Array:
        chart = normaliser.coordinates
        return jax.grad(lambda u: normaliser.log_density(normaliser.gather(f[None]), chart.inverse(u)))(
            chart.forward(row)
        )

    return jax.vmap(one)(statistics, theta)
