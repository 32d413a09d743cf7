"""Corrected score matching, CorrSM: score matching on bounded x itself, with a factor that vanishes at the bounds.

It is equivalent to score matching in the chart's coordinates (TranSM; Appendix on the equivalence of both), which is
what `fit` does; it is here to show that.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from suffice.charts import Chart


def corrected_loss(
    log_density: Callable[[Float[Array, "..."]], Float[Array, ""]], chart: Chart, x: Float[Array, "..."]
) -> Float[Array, ""]:
    """Σ_i [½ h_i (∂_i log p)² + h_i ∂_i² log p + h_i' ∂_i log p], √h_i = ∂x_i/∂y_i (Eq. generalized_Fish-div…).

    `log_density` is that of x, up to a constant; each coordinate must have a chart of its own.
    """

    def factors(x: Array) -> Array:
        """h(x)."""
        flat_inverse = jax.jacfwd(chart.inverse)(chart.forward(x)).reshape(x.size, x.size)
        return jnp.diag(flat_inverse).reshape(x.shape) ** 2

    gradient = jax.grad(log_density)(x)
    seconds = jnp.diag(jax.hessian(log_density)(x).reshape(x.size, x.size)).reshape(x.shape)
    slopes = jnp.diag(jax.jacfwd(factors)(x).reshape(x.size, x.size)).reshape(x.shape)
    h = factors(x)
    return jnp.sum(0.5 * h * gradient**2 + h * seconds + slopes * gradient)
