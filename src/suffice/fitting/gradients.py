"""The gradient of a batch's mean loss, taken a few pairs at a time so that what a pair needs stays in the cache.

Derivatives of window networks make arrays of hundreds of kilobytes a pair. A whole batch of them streams through
memory, which is several times slower than the arithmetic; pieces of a few megabytes do not.
"""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr, jaxprs_in_params
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from suffice.matching.objectives import Batch, Objective

PIECE_BYTES = 2e7  # of all that is computed for the loss of one piece
FEWEST = 6  # pieces: fewer are slower than the whole batch at once


def piece_size(objective: Objective, module: Any, pairs: Batch, batch: int) -> int:
    """How many pairs of a batch to take at a time: all of them, or pieces of the same size, of about `PIECE_BYTES`."""
    one = jax.tree.map(lambda rows: jax.ShapeDtypeStruct((1, *rows.shape[1:]), rows.dtype), pairs)
    arrays, rest = eqx.partition(module, eqx.is_array)
    traced = jax.make_jaxpr(lambda arrays, pair: objective.losses(jax.random.key(0), eqx.combine(arrays, rest), pair))
    pieces = min(batch, round(batch * _bytes(traced(arrays, one).jaxpr) / PIECE_BYTES))
    return batch if pieces < FEWEST else -(-batch // pieces)


def batch_gradient(
    key: PRNGKeyArray,
    objective: Objective,
    parameters: PyTree,
    fixed: PyTree,
    theta: Float[Array, "m p"],
    rows: Batch,
    size: int,
) -> tuple[Float[Array, ""], PyTree]:
    """The mean loss over the rows and its gradient in the parameters, `size` rows at a time.

    `theta` are the parameters that η is standardised over; that is done, and differentiated, once for all pieces.
    """
    rest = eqx.filter(eqx.combine(parameters, fixed), eqx.is_inexact_array, inverse=True)

    def frozen(parameters: PyTree) -> PyTree:
        return eqx.filter(eqx.combine(parameters, fixed).frozen_on(theta), eqx.is_inexact_array)

    def loss(arrays: PyTree, key: PRNGKeyArray, rows: Batch) -> Float[Array, ""]:
        return jnp.sum(objective.losses(key, eqx.combine(arrays, rest), rows))

    def piece(total: PyTree, inputs: tuple[PRNGKeyArray, Batch]) -> tuple[PyTree, None]:
        return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(arrays, *inputs)), None

    arrays, back = jax.vjp(frozen, parameters)
    number = len(rows.y)
    if size >= number:
        total, gradient = jax.value_and_grad(loss)(arrays, key, rows)
    else:
        pieces = in_pieces(rows, size)
        keys = jax.random.split(key, len(pieces.y))
        nothing = (jnp.zeros((), rows.weight.dtype), jax.tree.map(jnp.zeros_like, arrays))
        (total, gradient), _ = jax.lax.scan(piece, nothing, (keys, pieces))
    (gradient,) = back(gradient)
    return total / number, jax.tree.map(lambda part: part / number, gradient)


def in_pieces(rows: Batch, size: int) -> Batch:
    """The rows as pieces of `size` along a new first axis; the last is filled up with a row of weight 0."""
    number = len(rows.y)
    places = np.arange(-(-number // size) * size).reshape(-1, size)
    pieces = jax.tree.map(lambda part: part[np.minimum(places, number - 1)], rows)
    return pieces._replace(weight=jnp.where(places < number, pieces.weight, 0.0))


def _bytes(jaxpr: Jaxpr) -> int:
    """The size of all that is computed along the way, loops counted once."""
    total = 0
    for equation in jaxpr.eqns:
        inner = [_bytes(part) for part in jaxprs_in_params(equation.params)]
        avals: list[Any] = [variable.aval for variable in equation.outvars]
        total += sum(inner) if inner else sum(math.prod(aval.shape) * aval.dtype.itemsize for aval in avals)
    return total
