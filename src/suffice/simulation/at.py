"""Simulations at given parameters: what ABC populations, surrogates and predictive checks are made of."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.model import Model
from suffice.randomness import require_key
from suffice.simulation.blocks import Pairs, simulate_one


def traced_at(key: PRNGKeyArray, model: Model, theta: Float[Array, "n p"]) -> Pairs:
    """One simulation at each row of θ, as JAX code: row i uses the key `fold_in(key, i)`."""
    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(len(theta), dtype=jnp.uint32))
    return jax.vmap(partial(simulate_one, model))(keys, theta)


def simulate_at(key: PRNGKeyArray, model: Model, theta: Float[Array | np.ndarray, "n p"]) -> Pairs:
    """One simulation at each row of θ; failed ones are marked in the status."""
    return Pairs(*(np.asarray(part) for part in _compiled_at(require_key(key), model, jnp.asarray(theta))))


_compiled_at = jax.jit(traced_at, static_argnames="model")
