"""Regression adjustment: draws corrected for how far their statistics were from the observed ones.

In the prior's chart y of θ, y = m(s) + σ(s) e is fitted by local-linear regression with Epanechnikov weights
1 − (d/δ)², δ the largest distance. Linear (Beaumont, Zhang and Balding, 2002): y* = y + m(s°) − m(s), σ constant.
Heteroscedastic (Blum and François, 2010): y* = m(s°) + (y − m(s)) σ(s°)/σ(s), with log σ² linear in s too.
Adjusted draws stay inside the prior's support, whose chart they were corrected in.
"""

import warnings
from typing import Literal, NamedTuple

import jax
import numpy as np
from jaxtyping import Float
from numpyro.distributions import Distribution

from suffice.charts import Chart
from suffice.errors import SamplingWarning


class Draws(NamedTuple):
    """Weighted draws with the statistics they were accepted with."""

    theta: Float[np.ndarray, "n p"]
    weights: Float[np.ndarray, " n"]
    statistics: Float[np.ndarray, "n s"]
    distance: Float[np.ndarray, " n"]


class Adjusted(NamedTuple):
    """The corrected draws, and the kernel by which they are to be weighted besides; whether there were enough."""

    theta: Float[np.ndarray, "n p"]
    kernel: Float[np.ndarray, " n"]
    done: bool


def adjust(
    draws: Draws,
    observed: Float[np.ndarray, " s"],
    prior: Distribution,
    kind: Literal["linear", "heteroscedastic"],
) -> Adjusted:
    """The draws corrected; left as they are, with a warning, if they are too few for the regression."""
    chart = Chart.unscaled(prior.support, prior.event_shape)
    y = np.asarray(jax.vmap(chart.forward)(draws.theta), np.float64)
    usable = (draws.weights > 0) & np.all(np.isfinite(y), axis=1) & np.isfinite(draws.distance)
    kernel = epanechnikov(np.where(usable, draws.distance, np.inf))
    weights = kernel * draws.weights
    count, needed = int(np.sum(weights > 0)), 2 * (draws.statistics.shape[1] + 1)
    if count < needed:
        warnings.warn(
            f"Only {count} draws can be used for a regression on {draws.statistics.shape[1]} statistics, which takes "
            f"{needed}: they are left as they are. Take more draws.",
            SamplingWarning,
            stacklevel=2,
        )
        return Adjusted(draws.theta, np.ones(len(y)), done=False)
    rows = weights > 0
    moved = y.copy()
    moved[rows] = _corrected(y[rows], draws.statistics[rows], observed, weights[rows], kind)
    theta = np.asarray(jax.vmap(chart.inverse)(moved.astype(draws.theta.dtype)))
    return Adjusted(np.where(rows[:, None], theta, draws.theta), kernel, done=True)


def epanechnikov(distance: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """1 − (d/δ)² with δ the largest finite distance; 0 where the distance is infinite, 1 where all are 0."""
    finite = np.isfinite(distance)
    bandwidth = np.max(distance, where=finite, initial=0.0)
    shrunk = np.where(finite, distance, bandwidth) / (bandwidth if bandwidth > 0 else 1.0)
    return np.where(finite, 1.0 - shrunk.astype(np.float64) ** 2, 0.0)


def _corrected(
    y: Float[np.ndarray, "n q"],
    statistics: Float[np.ndarray, "n s"],
    observed: Float[np.ndarray, " s"],
    weights: Float[np.ndarray, " n"],
    kind: str,
) -> Float[np.ndarray, "n q"]:
    away = np.asarray(statistics, np.float64) - np.asarray(observed, np.float64)
    spread = away.std(axis=0)
    design = np.column_stack([np.ones(len(y)), away / np.where(spread > 0, spread, 1.0)])
    mean = design @ _regression(design, y, weights)
    at_observed = _regression(design, y, weights)[0]
    residual = y - mean
    if kind == "linear":
        return at_observed + residual
    least = 1e-12 * np.maximum(np.average(residual**2, axis=0, weights=weights), 1e-30)
    log_variance = np.log(np.maximum(residual**2, least))
    coefficients = _regression(design, log_variance, weights)
    ratio = np.exp(0.5 * (coefficients[0] - design @ coefficients))
    return at_observed + residual * ratio


def _regression(
    design: Float[np.ndarray, "n k"], y: Float[np.ndarray, "n q"], weights: Float[np.ndarray, " n"]
) -> Float[np.ndarray, "k q"]:
    """The coefficients of weighted least squares."""
    scale = np.sqrt(weights / weights.max())[:, None]
    return np.linalg.lstsq(scale * design, scale * y, rcond=None)[0]
