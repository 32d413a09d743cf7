"""Exact posteriors of models whose likelihood is known: the reference that approximations are held against."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.typing import ArrayLike as Values

from suffice.charts import bounds, describe, is_product
from suffice.errors import ModelError
from suffice.grid import GridPosterior
from suffice.model import Model


def exact_posterior(model: Model, observed: Values, *, iid: bool = False, tolerance: float = 1e-3) -> GridPosterior:
    """The posterior π(θ|x) ∝ π(θ) p(x|θ) on a grid, within `tolerance` in total variation.

    Args:
        model: a model of one or two parameters that has a `log_likelihood`.
        observed: one x; with `iid`, several replicates along a leading axis.
        iid: whether `observed` holds replicates.
        tolerance: the error in probability at which the grid is fine enough.

    >>> import suffice as sf
    >>> posterior = sf.zoo.exact_posterior(sf.zoo.gamma(), np.full(10, 3.0))
    >>> posterior.resample(jax.random.key(0), 1000)
    Posterior(1 × 1000 draws of k, theta)
    """
    log_likelihood = model.log_likelihood
    if log_likelihood is None:
        raise ModelError("This model has no log_likelihood, so its exact posterior is out of reach.")
    if model.num_parameters > 2:
        raise ModelError(
            f"An exact posterior on a grid needs at most 2 parameters, but this model has {model.num_parameters}."
        )
    if not is_product(model.prior.support):
        raise ModelError(
            f"An exact posterior on a grid needs a prior whose parameters vary freely of each other, but this prior's "
            f"support is {describe(model.prior.support)}."
        )
    x = jnp.asarray(model.observation(observed, iid=iid))
    rows = x if iid else x[None]

    def log_density(theta: Float[Array, " p"]) -> Float[Array, ""]:
        def add(total: Array, row: Array) -> tuple[Array, None]:
            return total + log_likelihood(row, theta), None

        return jax.lax.scan(add, model.prior.log_prob(theta), rows)[0]

    box, limits = _prior_box(model)
    return GridPosterior.tabulate(log_density, model.names, box, limits, tolerance=tolerance)


def _prior_box(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The box that holds nearly all of the prior, and the bounds of its support."""
    draws = np.asarray(model.prior.sample(jax.random.key(0), (10_000,)), np.float64)
    limits = np.stack(bounds(model.prior.support, (model.num_parameters,)))
    reach = np.ptp(draws, axis=0)
    return np.clip(np.stack([draws.min(0) - reach, draws.max(0) + reach]), *limits), limits
