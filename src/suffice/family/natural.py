"""Natural parameters η(θ): a network of θ, standardised over the prior so that only its shape is left to learn."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.distributions import constraints

from suffice.charts import Chart, bounds

Network = Callable[[Float[Array, " p"]], Float[Array, " s"]]


class Natural(eqx.Module):
    """η(θ) = (g(u) − mean) / scale, with u the chart's coordinates of θ and g the network.

    The dot product η·f leaves the scale of η free, and its mean belongs to the base. Both are fixed by standardising
    over the prior (`standardised_on`): over a batch of training parameters at every step of the training, over all of
    them, for good, afterwards.
    """

    network: Network
    chart: Chart
    mean: Float[Array, " s"]
    scale: Float[Array, " s"]

    def raw(self, theta: Float[Array, " p"]) -> Float[Array, " s"]:
        """g(u), before standardisation."""
        return self.network(self.chart.forward(theta))

    def __call__(self, theta: Float[Array, " p"]) -> Float[Array, " s"]:
        """η(θ)."""
        return (self.raw(theta) - self.mean) / self.scale

    def standardised_on(self, theta: Float[Array, "n p"]) -> "Natural":
        """The same network with mean and scale those over the rows of `theta`; differentiable."""
        mean, scale = moments(jax.vmap(self.raw)(theta))
        return eqx.tree_at(lambda natural: (natural.mean, natural.scale), self, (mean, scale))


def moments(values: Float[Array, "n s"]) -> tuple[Float[Array, " s"], Float[Array, " s"]]:
    """Mean and standard deviation over the rows."""
    return jnp.mean(values, axis=0), jnp.sqrt(jnp.var(values, axis=0) + 1e-10)


def natural_support(support: constraints.Constraint, p: int) -> constraints.Constraint:
    """Of coordinates of θ: θ itself, finite at the prior's edges; its logarithm where it is bounded on one side."""
    lower, upper = bounds(support, (p,))
    one_sided = np.isfinite(lower) != np.isfinite(upper)
    if not one_sided.any():
        return constraints.real
    return constraints.cat(
        [
            constraints.real
            if not one_sided[i]
            else (constraints.greater_than(lower[i]) if np.isfinite(lower[i]) else constraints.less_than(upper[i]))
            for i in range(p)
        ],
        dim=-1,
    )
