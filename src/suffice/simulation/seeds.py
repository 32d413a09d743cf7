"""What decides simulation i of a run, from the key and i alone: its θ and the seed of its simulator."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, UInt, UInt64

from suffice.model import Model
from suffice.simulation.blocks import LANES


class Draws(NamedTuple):
    """θ from the prior and the simulator's seed, one row a simulation."""

    theta: Float[np.ndarray, "n p"]
    seed: UInt64[np.ndarray, " n"]


def draws(key: PRNGKeyArray, model: Model, rows: range) -> Draws:
    """θ and seeds of these simulations of a run; the same bits whatever else is drawn with them."""
    groups = range(rows.start // LANES, -(-rows.stop // LANES))
    parts = [_group(key, model, jnp.uint32(number)) for number in groups]
    kept = slice(rows.start - groups.start * LANES, rows.stop - groups.start * LANES)
    theta, words = (np.concatenate([np.asarray(part) for part in side])[kept] for side in zip(*parts, strict=True))
    return Draws(theta, seeds(words))


def seeds_at(key: PRNGKeyArray, number: int) -> UInt64[np.ndarray, " n"]:
    """The seeds of simulations at given parameters: row i uses the key `fold_in(key, i)`."""
    parts = [_words(key, jnp.uint32(first)) for first in range(0, number, LANES)]
    return seeds(np.concatenate([np.asarray(part) for part in parts])[:number])


def seeds(words: UInt[np.ndarray, "n k"]) -> UInt64[np.ndarray, " n"]:
    """The first two words of a key's data as one number of 64 bits."""
    high, low = words[:, 0].astype(np.uint64), words[:, 1].astype(np.uint64)
    return (high << np.uint64(32)) | low


@partial(jax.jit, static_argnames="model")
def _group(key: PRNGKeyArray, model: Model, number: Array) -> tuple[Array, Array]:
    def one(index: Array) -> tuple[Array, Array]:
        key_prior, key_simulator = jax.random.split(jax.random.fold_in(key, index))
        return model.prior.sample(key_prior), jax.random.key_data(key_simulator)

    return jax.vmap(one)(number * LANES + jnp.arange(LANES, dtype=jnp.uint32))


@jax.jit
def _words(key: PRNGKeyArray, first: Array) -> Array:
    indices = first + jnp.arange(LANES, dtype=jnp.uint32)
    return jax.vmap(lambda index: jax.random.key_data(jax.random.fold_in(key, index)))(indices)
