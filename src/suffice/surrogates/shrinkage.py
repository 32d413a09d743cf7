"""The covariance of few rows: the estimate of Ledoit and Wolf (2004), for rows some of which do not count."""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float


def moments(
    rows: Float[Array, "n s"], good: Bool[Array, " n"]
) -> tuple[Float[Array, " s"], Float[Array, "n s"], Float[Array, ""]]:
    """The mean of the good rows, the rows less that mean (0 where they are not good), and the number of good ones."""
    number = jnp.sum(good).astype(rows.dtype)
    mean = jnp.sum(jnp.where(good[:, None], rows, 0.0), axis=0) / jnp.maximum(number, 1.0)
    return mean, jnp.where(good[:, None], rows - mean, 0.0), number


def ledoit_wolf(centred: Float[Array, "n s"], number: Float[Array, ""]) -> Float[Array, "s s"]:
    """The empirical covariance S of `number` centred rows, shrunk towards a multiple of the identity.

        Σ = (1 − ρ) S + ρ μ I,   μ = tr S / s,   ρ = min(b, d) / d,
        d = |S − μ I|² / s,   b = (Σᵢ |xᵢ xᵢᵀ|² / n − |S|²) / (s n)

    Rows of zeros add nothing and are not counted. Ledoit and Wolf (2004), "A well-conditioned estimator for
    large-dimensional covariance matrices".
    """
    size = centred.shape[1]
    empirical = centred.T @ centred / number
    if size == 1:
        return empirical
    level = jnp.trace(empirical) / size
    squared = jnp.sum(empirical**2)
    spread = squared / size - level**2
    noise = (jnp.sum(jnp.sum(centred**2, axis=1) ** 2) / number - squared) / (size * number)
    weight = jnp.clip(jnp.where(spread > 0.0, noise / jnp.where(spread > 0.0, spread, 1.0), 1.0), 0.0, 1.0)
    return (1.0 - weight) * empirical + weight * level * jnp.eye(size, dtype=centred.dtype)
