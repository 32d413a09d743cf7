"""Sums over all pairs of two samples in bounded memory: what scores and kernel discrepancies are made of."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

BLOCK = 512  # rows of one sample that meet all of the other at once

OfSquare = Callable[[Any, Any], Array]  # a function of the squared distance, and of one number more


def distance(square: Float[Array, "..."], scale: Float[Array, ""]) -> Float[Array, "..."]:
    """scale ‖x − y‖."""
    return scale * jnp.sqrt(square)


def energy(square: Float[Array, "..."], power: Float[Array, ""]) -> Float[Array, "..."]:
    """‖x − y‖^power."""
    return square ** (power / 2)


def gaussian(square: Float[Array, "..."], bandwidth: Float[Array, ""]) -> Float[Array, "..."]:
    """exp(−‖x − y‖² / (2 bandwidth²))."""
    return jnp.exp(-square / (2 * bandwidth**2))


@partial(jax.jit, static_argnames=("function", "same"))
def pair_mean(
    function: OfSquare,
    number: Float[Array | np.ndarray, ""],
    one: Float[Array | np.ndarray, "n p"],
    one_weights: Float[Array | np.ndarray, " n"],
    other: Float[Array | np.ndarray, "m p"],
    other_weights: Float[Array | np.ndarray, " m"],
    *,
    same: bool = False,
) -> Float[Array, ""]:
    """Σ wᵢ vⱼ function(‖xᵢ − yⱼ‖²) / Σ wᵢ vⱼ; with `same`, over i ≠ j only: unbiased where both are one sample.

    Squared distances come from products of centred rows, a block of rows at a time: their error is of the order of
    the number format's precision times the spread of the samples.
    """
    centre = other_weights @ other / other_weights.sum()
    one, other = one - centre, other - centre
    squares = jnp.sum(other**2, axis=1)

    def row(x: Array, index: Array) -> Array:
        square = jnp.sum(x**2) + squares - 2 * jnp.matmul(other, x, precision="highest")
        weights = jnp.where(jnp.arange(len(other)) == index, 0.0, other_weights) if same else other_weights
        return jnp.stack([weights @ function(jnp.maximum(square, 0.0), number), weights.sum()])

    def weighted(item: tuple[Array, Array, Array]) -> Array:
        x, weight, index = item
        return weight * row(x, index)

    sums = jax.lax.map(weighted, (one, one_weights, jnp.arange(len(one))), batch_size=min(BLOCK, len(one)))
    total = sums.sum(axis=0)
    return total[0] / total[1]
