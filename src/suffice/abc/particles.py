"""Particles: where they are, and the simulation that came with each."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int


class Particles(NamedTuple):
    """Rows of coordinates with the statistics of what was simulated there: once, or several times along an axis."""

    position: Float[Array, "n q"]
    log_prior: Float[Array, " n"]
    statistics: Float[Array, "n *m s"]
    distance: Float[Array, "n *m"]

    def rows(self, index: Int[Array, " k"]) -> "Particles":
        """These rows."""
        return jax.tree.map(lambda part: part[index], self)

    def where(self, chosen: Bool[Array, " n"], other: "Particles") -> "Particles":
        """These particles where they are chosen, the other ones elsewhere."""

        def either(one: Array, two: Array) -> Array:
            return jnp.where(chosen.reshape(-1, *(1,) * (one.ndim - 1)), one, two)

        return jax.tree.map(either, self, other)
