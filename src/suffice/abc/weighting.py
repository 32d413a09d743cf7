"""Weighted populations: covariance and its root, resampling, effective size."""

import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from suffice.errors import SamplingError

FEWEST = 2.0  # effective draws below which there is no posterior


def covariance(position: Float[Array, "n q"], weights: Float[Array, " n"] | None = None) -> Float[Array, "q q"]:
    """The covariance of weighted rows, unbiased where the weights are equal."""
    return jnp.atleast_2d(jnp.cov(position, rowvar=False, aweights=weights))


def root(matrix: Float[Array, "q q"]) -> Float[Array, "q q"]:
    """The symmetric root of a covariance, of a singular one too: a population may have collapsed to a point."""
    eigenvalues, vectors = jnp.linalg.eigh(matrix)
    return (vectors * jnp.sqrt(jnp.clip(eigenvalues, 0.0))) @ vectors.T


def pick(weights: Float[Array, " n"], uniforms: Float[Array, " m"]) -> Int[Array, " m"]:
    """A row for each uniform number, drawn by weight: the inverse of the cumulated weights."""
    cumulated = jnp.cumsum(weights)
    return jnp.clip(jnp.searchsorted(cumulated, uniforms * cumulated[-1], side="right"), 0, len(weights) - 1)


def systematic(weights: Float[Array, " n"], uniform: Float[Array, ""]) -> Int[Array, " n"]:
    """As many rows as there are weights, by one uniform number: the least noisy way to resample."""
    count = len(weights)
    return pick(weights, (jnp.arange(count) + uniform) / count)


def effective(weights: Float[Array, " n"]) -> Float[Array, ""]:
    """(Σw)²/Σw²: how many equal weights these are worth; 0 if all are 0."""
    total, squares = jnp.sum(weights), jnp.sum(weights**2)
    return jnp.where(squares > 0, total**2 / jnp.where(squares > 0, squares, 1.0), 0.0)


def require_effective(effective: float) -> None:
    """Refuse weights that have collapsed."""
    if effective < FEWEST:
        raise SamplingError(
            f"The weights have collapsed: all draws together are worth {effective:.2f}. Use more particles, lower the "
            "tolerance more slowly (a larger quantile), or stop earlier (a larger tolerance or acceptance_floor)."
        )
