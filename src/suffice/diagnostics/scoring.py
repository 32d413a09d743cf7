"""Proper scoring rules of a predictive sample, multivariate at each time step (Gneiting and Raftery, 2007).

    energy:  S_E(P, y) = 2 E‖X − y‖^β − E‖X − X′‖^β
    kernel:  S_k(P, y) = E k(X, X′) − 2 E k(X, y),    k(x, y) = exp(−‖x − y‖² / (2γ²))

with X, X′ independent from the prediction P: the smaller the better. Expectations are estimated without bias from the
sample (Appendix on scoring rules of the paper, whose factor 2 is not in the forecasting literature's convention). At
every time step the observation is one vector of all K variables: where the prediction is certain and right, such as at
a fixed initial state, the energy score is 0 and the kernel score −1.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike

from suffice.diagnostics.pairs import OfSquare, distance, energy, gaussian, pair_mean
from suffice.model import Model
from suffice.simulation import Simulations, Where, simulate


@dataclass(frozen=True, eq=False)
class Score:
    """A score for each time step; the smaller, the better the prediction."""

    per_step: Float[np.ndarray, " steps"]

    @property
    def cumulative(self) -> Float[np.ndarray, " steps"]:
        """The sum of the scores up to each time step."""
        return np.cumsum(self.per_step)

    @property
    def total(self) -> float:
        """The sum over all time steps."""
        return float(np.sum(self.per_step))


def energy_score(predictive: ArrayLike, observed: ArrayLike, *, power: float = 1.0) -> Score:
    """The energy score of predictions, without bias, at each time step.

    Args:
        predictive: m ≥ 2 equally weighted draws of x, as `Posterior.predictive` gives them: (m, T, K), or (m, T) for
            a series of one variable. For a vector that is no series, give (m, 1, K) and (1, K).
        observed: x, (T, K) or (T,).
        power: β, between 0 and 2.
    """
    if not 0 < power < 2:
        raise ValueError(f"power is {power}, but the energy score is proper for a power between 0 and 2: give 1.0.")
    function = distance if power == 1 else energy  # with power 1, both are ‖x − y‖
    between, within = _terms(function, np.float32(power), _deviations(predictive, observed))
    return Score(np.asarray(2 * between - within, np.float64))


def kernel_score(predictive: ArrayLike, observed: ArrayLike, bandwidth: float) -> Score:
    """The kernel score of predictions with a Gaussian kernel, without bias, at each time step.

    Args:
        predictive: draws of x, as for `energy_score`.
        observed: x.
        bandwidth: γ; the same for all that is compared, and so found from neither: see `kernel_bandwidth`.
    """
    if not bandwidth > 0:
        raise ValueError(f"bandwidth is {bandwidth}, but must be positive: see kernel_bandwidth.")
    between, within = _terms(gaussian, np.float32(bandwidth), _deviations(predictive, observed))
    return Score(np.asarray(within - 2 * between, np.float64))


def kernel_bandwidth(
    key: PRNGKeyArray, source: Model | Simulations | ArrayLike, num: int = 1000, *, executor: Where = None
) -> float:
    """The paper's γ: the median distance of pairs of *prior* simulations at each time step, then the median over time.

    Args:
        key: decides the simulations; not used if they are given.
        source: a model, or simulations from its prior: `Simulations`, or rows of x.
        num: simulations; of given ones, the first that many.
        executor: where a model is simulated, as for `simulate`.
    """
    sims = simulate(key, source, num, executor=executor) if isinstance(source, Model) else source
    x = np.asarray(sims.good.x[:num] if isinstance(sims, Simulations) else np.asarray(sims)[:num])
    if x.ndim not in (2, 3) or len(x) < 2:
        raise ValueError(f"The simulations have shape {x.shape}, but must be at least two rows of x, (T, K) or (T,).")
    return float(np.median([_median_distance(step) for step in _series(x)]))


def _median_distance(rows: Float[np.ndarray, "m k"]) -> float:
    from scipy.spatial.distance import pdist

    return float(np.median(pdist(rows)))


def _series(x: np.ndarray) -> Float[np.ndarray, "steps m k"]:
    """Rows of x with the time step first and an axis for the variables."""
    return np.moveaxis(x[..., None] if x.ndim == 2 else x, 1, 0)


def _deviations(predictive: ArrayLike, observed: ArrayLike) -> Float[np.ndarray, "steps m k"]:
    """Predictions minus observation, taken in double precision: what is exact stays so in single."""
    draws, target = (np.asarray(values, np.float64) for values in (predictive, observed))
    if draws.ndim not in (2, 3) or draws.shape[1:] != target.shape or len(draws) < 2:
        raise ValueError(
            f"The predictions have shape {draws.shape} and the observation {target.shape}, but must be at least two "
            "draws (m, T, K) of an observation (T, K), or (m, T) of (T,)."
        )
    for name, values in (("predictions", draws), ("observation", target)):
        if not np.all(np.isfinite(values)):
            raise ValueError(f"Some of the {name} are not finite. Leave failed simulations out before scoring.")
    return _series(draws - target).astype(np.float32)


@partial(jax.jit, static_argnames="function")
def _terms(
    function: OfSquare, number: Float[Array | np.floating, ""], deviations: Float[Array | np.ndarray, "steps m k"]
) -> tuple[Float[Array, " steps"], Float[Array, " steps"]]:
    """The mean of the function between draws and observation, and between draws, at each step."""
    weights = jnp.ones(deviations.shape[1], deviations.dtype)

    def step(rows: Array) -> tuple[Array, Array]:
        between = jnp.mean(function(jnp.sum(rows**2, axis=1), number))
        return between, pair_mean(function, number, rows, weights, rows, weights, same=True)

    return jax.lax.map(step, deviations)
