"""Where training parameters lie: beyond them a fit knows nothing, and its polynomials go anywhere."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from suffice.charts import Chart, bounds, is_product
from suffice.family.natural import natural_support

SOFTNESS = 0.02  # of the radius, by which parameters may lie beyond it before a log-density falls by a half


class Region(eqx.Module):
    """An ellipsoid around the training parameters, in the coordinates in which they may be arbitrarily large.

    Parameters between two bounds cannot leave their training values by much and do not count.

    Attributes:
        coordinates: the chart of θ in which it is an ellipsoid.
        whitener: from those coordinates to some in which it is a ball; without rows where nothing is unbounded.
    """

    coordinates: Chart
    whitener: Float[Array, "k q"]

    def distance(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """How far out θ lies: 1 for the farthest of the training parameters."""
        return jnp.sqrt(self._squared(theta))

    def log_weight(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """What a log-density loses at θ: nothing inside, soon everything outside."""
        excess = jnp.sqrt(jnp.maximum(self._squared(theta), 1.0)) - 1.0
        return -0.5 * (excess / SOFTNESS) ** 2

    def _squared(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        return jnp.sum((self.whitener @ self.coordinates.forward(theta)) ** 2)


def region_of(chart: Chart, theta: Float[ArrayLike, "n p"]) -> Region:
    """The region of these training parameters; `chart`: theirs, on the prior's support."""
    rows, coordinates = np.asarray(theta), chart
    bounded = np.zeros(chart.shift.size, bool)
    if is_product(chart.support):
        coordinates = Chart.fit(natural_support(chart.support, rows.shape[1]), rows, what="theta")
        bounded = np.all(np.isfinite(np.stack(bounds(chart.support, (rows.shape[1],)))), axis=0)
    u = np.asarray(jax.vmap(coordinates.forward)(jnp.asarray(rows, coordinates.shift.dtype)), np.float64)[:, ~bounded]
    whitener = np.zeros((u.shape[1], len(bounded)))
    if u.shape[1]:
        covariance = np.atleast_2d(np.cov(u, rowvar=False)) + 1e-8 * np.eye(u.shape[1])
        inner = np.linalg.inv(np.linalg.cholesky(covariance))
        whitener[:, ~bounded] = inner / np.sqrt(np.max(np.sum((u @ inner.T) ** 2, axis=1)))
    return Region(coordinates, jnp.asarray(whitener, coordinates.shift.dtype))
