"""Compiled blocks of simulations: how every simulation of a JAX model is made.

Simulation i of a run uses the key `fold_in(key, i)` and is always computed as lane i mod 128 of a full group of 128
simulations, so neither the number asked for, nor how groups are gathered into blocks, nor the number of workers
changes a single bit.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from suffice.charts import Chart
from suffice.model import Model
from suffice.simulation.simulations import Status

LANES = 128  # simulations in one group: few enough to stay in the processor's cache
BLOCK_NUMBERS = 2**20  # numbers in the x of one block, at most: what bounds memory
BLOCK_GROUPS = 64  # groups in one block, at most


class Pairs(NamedTuple):
    """Pairs (θ, x) and their status: one, or one row each."""

    theta: Float[Array | np.ndarray, "*n p"]
    x: Float[Array | np.ndarray, "..."]
    status: Int[Array | np.ndarray, "*n"]


def max_groups(model: Model) -> int:
    """How many groups one block of this model may hold."""
    return max(1, min(BLOCK_GROUPS, BLOCK_NUMBERS // (LANES * model.data_size)))


def simulate_one(model: Model, key: PRNGKeyArray, theta: Float[Array, " p"]) -> Pairs:
    """One simulation at θ and what became of it; JAX code."""
    x = model.simulator(key, theta)
    finite = jnp.all(jnp.isfinite(x)) & jnp.all(jnp.isfinite(theta))
    inside = jnp.all(Chart.unscaled(model.support, model.data_shape).inside(x))
    status = jnp.where(finite, jnp.where(inside, Status.GOOD, Status.OUTSIDE_SUPPORT), Status.NOT_FINITE)
    return Pairs(theta, x, status.astype(jnp.int8))


@partial(jax.jit, static_argnames="model")
def simulate_block(model: Model, key: PRNGKeyArray, first: Int[Array, ""], groups: Int[Array, ""]) -> Pairs:
    """The simulations of `groups` groups from group `first` on; only the first 128·`groups` rows are filled."""

    def one(index: Array) -> Pairs:
        key_prior, key_simulator = jax.random.split(jax.random.fold_in(key, index))
        return simulate_one(model, key_simulator, model.prior.sample(key_prior))

    def group(number: Array) -> Pairs:
        return jax.vmap(one)(number * LANES + jnp.arange(LANES, dtype=jnp.uint32))

    def fill(step: Array, block: Pairs) -> Pairs:
        made = group(first.astype(jnp.uint32) + step.astype(jnp.uint32))
        start = step * LANES
        return jax.tree.map(partial(jax.lax.dynamic_update_slice_in_dim, start_index=start, axis=0), block, made)

    rows = max_groups(model) * LANES
    shapes = jax.eval_shape(group, first)
    empty = jax.tree.map(lambda part: jnp.zeros((rows, *part.shape[1:]), part.dtype), shapes)
    return jax.lax.fori_loop(0, groups, fill, empty)
