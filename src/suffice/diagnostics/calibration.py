"""Calibration: whether posteriors of data simulated from the model itself are as uncertain as they should be.

Truths θᵢ are drawn from the prior and xᵢ from the model; a right posterior of xᵢ treats θᵢ as one more of its draws.
That it does is necessary, not sufficient: the prior itself passes, which is why `Calibration.contraction` is there.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from numpy.typing import ArrayLike
from scipy import stats

from suffice import convergence
from suffice.diagnostics.ranks import Ranks
from suffice.posterior import Posterior
from suffice.randomness import require_key
from suffice.simulation import Simulations

INDEPENDENT = 99  # draws that a truth is ranked among, at most: one hundred ranks
FEWEST = 9  # the same, at least
FEWEST_POSTERIORS = 20
STRAGGLERS = 0.05  # share of posteriors that may be worth fewer draws than they are thinned to

LEVELS = tuple(float(level) for level in np.round(np.arange(0.05, 1.0, 0.05), 2))


@dataclass(frozen=True, eq=False)
class Coverage:
    """How often credible regions hold the truth.

    Attributes:
        levels: the credible levels.
        marginal: the share of equal-tailed intervals that hold the truth, by level and parameter.
        joint: the share of ellipsoids around the mean, of the posterior's own shape, that hold the whole θ.
        band: what both stay within at one level, but for `error` of the time, if posteriors are right (binomial).
        names: the parameters' names.
        error: the error rate of the band.
    """

    levels: Float[np.ndarray, " levels"]
    marginal: Float[np.ndarray, "levels p"]
    joint: Float[np.ndarray, " levels"]
    band: Float[np.ndarray, "2 levels"]
    names: tuple[str, ...]
    error: float


def sbc(
    posteriors: Sequence[Posterior], theta: ArrayLike, *, num_draws: int | None = None, level: float = 0.05
) -> Ranks:
    """Simulation-based calibration: the rank of each truth among draws of its posterior (Talts et al., 2018).

    Ranks are uniform only among *independent* draws, so each posterior is thinned to the same number of them, evenly
    along its chains.

    Args:
        posteriors: one for each simulation.
        theta: the parameters that were simulated at, one row each.
        num_draws: of each posterior; if not given 99, or fewer if 5% of the posteriors have a smaller effective size
            in some parameter.
        level: the error rate of the test and the band of each parameter.
    """
    truth = _checked(posteriors, theta)
    number = independent_draws(posteriors) if num_draws is None else num_draws
    ranks = [
        np.sum(posterior.thinned(number).flat < row, axis=0) for posterior, row in zip(posteriors, truth, strict=True)
    ]
    return Ranks(np.stack(ranks), number, posteriors[0].names, level)


def distance_ranks(
    posteriors: Sequence[Posterior], theta: ArrayLike, *, num_draws: int | None = None, level: float = 0.05
) -> Ranks:
    """The rank of each truth's distance from the posterior's mean, in the posterior's own shape (Mahalanobis').

    A test of all parameters together: truths too far out show posteriors that are too narrow. Mean and shape come
    from other draws than those that are ranked among.
    """
    truth = _checked(posteriors, theta)
    number = independent_draws(posteriors) if num_draws is None else num_draws
    ranks = []
    for posterior, row in zip(posteriors, truth, strict=True):
        draws = posterior.thinned(2 * number).flat
        ranked, others = draws[::2], draws[1::2]
        distances = _distances(np.concatenate([ranked, row[None]]), others)
        ranks.append(np.sum(distances[:-1] < distances[-1]))
    return Ranks(np.array(ranks)[:, None], number, ("distance from the mean",), level)


def tarp(
    key: PRNGKeyArray,
    posteriors: Sequence[Posterior],
    theta: ArrayLike,
    *,
    num_draws: int | None = None,
    level: float = 0.05,
) -> Ranks:
    """Tests of accuracy with random points (Lemos et al., 2023): a test of all parameters together.

    For each simulation a reference point is drawn uniformly from the box of all truths. The truth is ranked among the
    draws by the distance from it, parameters scaled by the box. `ecdf` is the expected coverage probability. A bias
    shows less here than in `sbc`, as the points lie on all sides of it.

    Args:
        key: decides the reference points.
        posteriors: one for each simulation.
        theta: the parameters that were simulated at, one row each.
        num_draws: as for `sbc`.
        level: the error rate of the test and the band.
    """
    truth = _checked(posteriors, theta)
    number = independent_draws(posteriors) if num_draws is None else num_draws
    low, width = truth.min(axis=0), np.maximum(np.ptp(truth, axis=0), 1e-300)
    references = low + width * np.asarray(jax.random.uniform(require_key(key), truth.shape), np.float64)
    ranks = []
    for posterior, row, reference in zip(posteriors, truth, references, strict=True):
        rows = np.concatenate([posterior.thinned(number).flat, row[None]])
        distances = np.sum(((rows - reference) / width) ** 2, axis=1)
        ranks.append(np.sum(distances[:-1] < distances[-1]))
    return Ranks(np.array(ranks)[:, None], number, ("distance from random points",), level)


def coverage(
    posteriors: Sequence[Posterior], theta: ArrayLike, *, levels: Sequence[float] = LEVELS, error: float = 0.05
) -> Coverage:
    """Expected coverage: how often credible regions of each level hold the truth.

    Args:
        posteriors: one for each simulation.
        theta: the parameters that were simulated at, one row each.
        levels: the credible levels.
        error: the error rate of the band, at each level by itself.
    """
    truth, credible = _checked(posteriors, theta), np.asarray(levels, np.float64)
    below = np.stack(
        [posterior.flat_weights @ (posterior.flat < row) for posterior, row in zip(posteriors, truth, strict=True)]
    )
    within = []
    for posterior, row in zip(posteriors, truth, strict=True):
        draws = posterior.thinned(len(posterior.flat)).flat
        distances = _distances(np.concatenate([draws[::2], row[None]]), draws[1::2])
        within.append(np.mean(distances[:-1] < distances[-1]))
    number = len(truth)
    band = np.stack([stats.binom.ppf(error / 2, number, credible), stats.binom.ppf(1 - error / 2, number, credible)])
    return Coverage(
        credible,
        np.mean(2 * np.abs(below - 0.5)[None] <= credible[:, None, None], axis=1),
        np.mean(np.array(within)[None] <= credible[:, None], axis=1),
        band / number,
        posteriors[0].names,
        error,
    )


def independent_draws(posteriors: Sequence[Posterior], sizes: Float[np.ndarray, " n"] | None = None) -> int:
    """How many nearly independent draws all but a few of these posteriors have, at most 99; one less than a ten.

    Half of the draws at most, so that as many are left to judge the posterior's shape by.
    """
    sizes = effective_sizes(posteriors) if sizes is None else sizes
    least = int(np.nanquantile(sizes, STRAGGLERS)) if np.any(np.isfinite(sizes)) else FEWEST
    most = min(len(posterior.flat) for posterior in posteriors) // 2
    return max(FEWEST, min(INDEPENDENT, 10 * ((min(least, most) + 1) // 10) - 1))


def effective_sizes(posteriors: Sequence[Posterior]) -> Float[np.ndarray, " n"]:
    """The effective number of draws of each posterior in its worst parameter."""
    shapes = {posterior.draws.shape for posterior in posteriors}
    if len(shapes) > 1 or any(posterior.weights is not None for posterior in posteriors):
        return np.array([np.min(posterior.convergence.ess_bulk) for posterior in posteriors])
    together = np.concatenate([posterior.draws for posterior in posteriors], axis=-1)
    return convergence.ess(together).reshape(len(posteriors), -1).min(axis=1)


def _distances(rows: Float[np.ndarray, "m p"], others: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " m"]:
    """Mahalanobis distances of rows, squared, in the mean and covariance of others."""
    precision = np.linalg.pinv(np.atleast_2d(np.cov(others, rowvar=False)), hermitian=True)
    centred = rows - others.mean(axis=0)
    return np.einsum("mi,ij,mj->m", centred, precision, centred)


def _checked(posteriors: Sequence[Posterior], theta: ArrayLike) -> Float[np.ndarray, "n p"]:
    if isinstance(theta, Simulations):
        raise TypeError("theta is of type Simulations, but must be an array of the parameters alone: give sims.theta.")
    truth = np.asarray(theta, np.float64)
    if len(posteriors) < FEWEST_POSTERIORS or truth.shape != (len(posteriors), posteriors[0].draws.shape[-1]):
        raise ValueError(
            f"There are {len(posteriors)} posteriors and truths of shape {truth.shape}, but there must be one row of "
            f"theta for each posterior, one column a parameter, and at least {FEWEST_POSTERIORS} of them."
        )
    return truth
