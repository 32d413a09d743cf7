"""Tuning in warm-up: step sizes by their acceptance in a window, the shape of the proposal by past draws."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

# Acceptance below which (or above which) a size is multiplied by a factor, the most extreme first.
_SHRINK = ((0.001, 0.1), (0.05, 0.5), (0.1, 0.7), (jnp.inf, 0.9))
_GROW = ((0.95, 4.0), (0.75, 2.0), (0.6, 1.4), (-jnp.inf, 1.1))


class Tuned(NamedTuple):
    """A step size, and what was accepted since it was last changed."""

    size: Float[Array, ""]
    accepted: Float[Array, ""]
    steps: Float[Array, ""]

    @classmethod
    def begin(cls, size: float) -> "Tuned":
        """A size to begin with."""
        return cls(jnp.asarray(size, jnp.float32), jnp.zeros((), jnp.float32), jnp.zeros((), jnp.float32))

    def seen(self, acceptance: Float[Array, ""]) -> "Tuned":
        """After one more acceptance rate."""
        return self._replace(accepted=self.accepted + acceptance, steps=self.steps + 1.0)

    def adjusted(self, interval: tuple[float, float]) -> "Tuned":
        """A size that brings the rate of the window nearer to `interval`, and a new window."""
        rate = self.accepted / jnp.maximum(self.steps, 1.0)
        low, high = interval
        shrink = jnp.select([rate < bound for bound, _ in _SHRINK], [factor for _, factor in _SHRINK])
        grow = jnp.select([rate > bound for bound, _ in _GROW], [factor for _, factor in _GROW])
        factor = jnp.where(rate < low, shrink, jnp.where(rate > high, grow, 1.0))
        return Tuned.begin(0.0)._replace(size=jnp.where(self.steps > 0, self.size * factor, self.size))


class Shape(NamedTuple):
    """The shape of a proposal, a triangular factor of volume 1, and the moments of draws from which it is learned."""

    factor: Float[Array, "p p"]
    number: Float[Array, ""]
    mean: Float[Array, " p"]
    scatter: Float[Array, "p p"]

    @classmethod
    def begin(cls, num: int) -> "Shape":
        """A ball."""
        return cls(jnp.eye(num), jnp.zeros(()), jnp.zeros(num), jnp.zeros((num, num)))

    def seen(self, draw: Float[Array, " p"]) -> "Shape":
        """After one more draw (Welford's update)."""
        number = self.number + 1.0
        before = draw - self.mean
        mean = self.mean + before / number
        return self._replace(number=number, mean=mean, scatter=self.scatter + jnp.outer(before, draw - mean))

    def forgotten(self) -> "Shape":
        """The same shape, with no draws seen."""
        return Shape.begin(len(self.mean))._replace(factor=self.factor)

    def adjusted(self) -> "Shape":
        """The shape of the draws seen; as it is while there are too few of them, or they hardly moved."""
        num = len(self.mean)
        covariance = self.scatter / jnp.maximum(self.number - 1.0, 1.0)
        spread = jnp.trace(covariance) / num
        factor = jnp.linalg.cholesky(covariance + 1e-3 * spread * jnp.eye(num))
        volume = jnp.prod(jnp.diag(factor)) ** (1.0 / num)
        good = (self.number >= 50 * num) & jnp.isfinite(volume) & (volume > 0)
        return self._replace(factor=jnp.where(good, factor / jnp.where(good, volume, 1.0), self.factor))
