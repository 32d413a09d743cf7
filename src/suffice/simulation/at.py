"""Simulations at given parameters: what ABC populations, surrogates and predictive checks are made of."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.model import Model
from suffice.randomness import require_key
from suffice.simulation.blocks import Pairs, simulate_one
from suffice.simulation.dispatch import dispatch
from suffice.simulation.executors import Where, workers_of
from suffice.simulation.makers import Outside
from suffice.simulation.seeds import Draws, seeds_at


def traced_at(key: PRNGKeyArray, model: Model, theta: Float[Array, "n p"]) -> Pairs:
    """One simulation at each row of θ, as JAX code: row i uses the key `fold_in(key, i)`."""
    keys = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(len(theta), dtype=jnp.uint32))
    return jax.vmap(partial(simulate_one, model))(keys, theta)


def simulate_at(
    key: PRNGKeyArray, model: Model, theta: Float[Array | np.ndarray, "n p"], *, executor: Where = None
) -> Pairs:
    """One simulation at each row of θ; failed ones are marked in the status.

    `executor` says where simulators that are no JAX code run, as for `simulate`; JAX code is compiled and runs here.
    """
    key = require_key(key)
    if model.traceable:
        return Pairs(*(np.asarray(part) for part in _compiled_at(key, model, jnp.asarray(theta))))
    rows = np.asarray(theta, jax.dtypes.canonicalize_dtype(float))
    seeds = seeds_at(key, len(rows))
    maker = Outside(model, lambda taken: Draws(rows[taken.start : taken.stop], seeds[taken.start : taken.stop]))
    x = np.empty((len(rows), *model.data_shape), maker.job.dtype)
    status = np.empty(len(rows), np.int8)
    with workers_of(executor) as workers:
        for taken, made in dispatch(maker, [range(len(rows))], workers):
            x[taken.start : taken.stop], status[taken.start : taken.stop] = made.x, made.status
    return Pairs(rows, x, status)


_compiled_at = jax.jit(traced_at, static_argnames="model")
