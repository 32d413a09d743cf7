"""The coordinates of θ in which proposals are made and densities compared."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro.distributions import Distribution

from suffice.charts import Chart, is_product


class Space(eqx.Module):
    """θ itself where the prior's support is a box; its chart elsewhere (on a simplex a step in θ would leave it).

    The density of the prior is that of the coordinates, −∞ outside its support: no proposal is redrawn.
    """

    prior: Distribution
    chart: Chart
    plain: bool = eqx.field(static=True)

    @classmethod
    def of(cls, prior: Distribution) -> "Space":
        """The coordinates for this prior."""
        return cls(prior, Chart.unscaled(prior.support, prior.event_shape), is_product(prior.support))

    def position(self, theta: Float[Array, "n p"]) -> Float[Array, "n q"]:
        """The coordinates of each θ."""
        return theta if self.plain else jax.vmap(self.chart.finite)(theta)

    def theta(self, position: Float[Array, "n q"]) -> Float[Array, "n p"]:
        """θ at each row of coordinates."""
        return position if self.plain else jax.vmap(self.chart.inverse)(position)

    def log_prior(self, position: Float[Array, "n q"]) -> Float[Array, " n"]:
        """The log-density of the prior in these coordinates."""
        if not self.plain:
            return jax.vmap(lambda one: self.chart.log_prob(self.prior, one))(position)
        inside = jax.vmap(lambda one: jnp.all(self.chart.inside(one)))(position)
        density = self.prior.log_prob(jnp.where(inside[:, None], position, self._somewhere(position)))
        return jnp.where(inside, density, -jnp.inf)

    def _somewhere(self, position: Float[Array, "n q"]) -> Float[Array, " q"]:
        """A θ inside the support."""
        return self.chart.inverse(jnp.zeros(position.shape[1:], position.dtype))
