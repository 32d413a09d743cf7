"""Where the training data lie, seen through the fitted network, so that one can ask whether some y is like them."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from suffice.family.exponential import ExponentialFamily
from suffice.family.regression import Regression

LEVELS = 2000  # quantiles of the training distances that are kept


class Envelope(eqx.Module):
    """Training data as a cloud of features, f(y) and c(y): its centre, its shape and how far out its points lie.

    The distance of y is Mahalanobis', r² = ‖W (features − centre)‖² / m; `radii` are quantiles of it in training.
    """

    centre: Float[Array, " m"]
    whitener: Float[Array, "m m"]
    radii: Float[Array, " levels"]

    def tail(self, features: Float[Array, " m"]) -> Float[Array, ""]:
        """The share of training data that lie farther out; 0 where none does."""
        beyond = self.radii.size - jnp.searchsorted(self.radii, self.distance(features), side="right")
        return beyond / self.radii.size

    def distance(self, features: Float[Array, " m"]) -> Float[Array, ""]:
        """r, about 1 for typical data; infinite where a feature is not finite."""
        squares = jnp.mean((self.whitener @ (features - self.centre)) ** 2)
        return jnp.where(jnp.isfinite(squares), jnp.sqrt(squares), jnp.inf)


def features(module: ExponentialFamily | Regression, y: Float[Array, "..."]) -> Float[Array, " m"]:
    """What an envelope sees of y: (f(y), c(y)), or the predictions of a regression."""
    if isinstance(module, Regression):
        return module.statistics_of(y)
    return jnp.concatenate([module.statistics_of(y), module.base_of(y)[None]])


def envelope_of(module: ExponentialFamily | Regression, y: Float[Array, "n ..."]) -> Envelope:
    """The envelope of these rows."""
    values = np.asarray(_features(module, y), np.float64)
    centre = values.mean(0)
    variances, axes = np.linalg.eigh(np.atleast_2d(np.cov(values, rowvar=False, bias=True)))
    kept = variances > 1e-10 * variances.max()
    whitener = np.where(kept, 1.0 / np.sqrt(np.where(kept, variances, 1.0)), 0.0)[:, None] * axes.T
    distances = np.sqrt(np.mean(((values - centre) @ whitener.T) ** 2, axis=1))
    levels = np.quantile(distances, np.linspace(0, 1, min(LEVELS, len(distances))))
    return Envelope(*(jnp.asarray(part, jnp.float32) for part in (centre, whitener, levels)))


@eqx.filter_jit
def _features(module: ExponentialFamily | Regression, y: Array) -> Array:
    return jax.lax.map(lambda y: features(module, y), y, batch_size=min(500, len(y)))
