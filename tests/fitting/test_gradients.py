"""Gradients of a batch, taken a few pairs at a time, are those of the whole batch by automatic differentiation."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import suffice as sf
from suffice.family import ExponentialFamily
from suffice.fitting.gradients import PIECE_BYTES, batch_gradient, in_pieces, piece_size
from suffice.matching.objectives import Batch


@pytest.fixture
def rows(float64: None) -> Batch:
    y, theta, weight = (
        jax.random.normal(jax.random.key(i), shape) for i, shape in enumerate([(20, 10), (20, 2), (20,)])
    )
    return Batch(y, theta, jnp.abs(weight))


@pytest.mark.parametrize("size", [7, 10, 20, 50])
def test_pieces_add_up(size: int, rows: Batch) -> None:
    family = jax.tree.map(
        lambda leaf: leaf.astype(float) if eqx.is_inexact_array(leaf) else leaf,
        ExponentialFamily.default(jax.random.key(5), sf.zoo.gamma()),
    )
    objective, others = sf.ScoreMatching(), rows.theta[:12]
    parameters, fixed = eqx.partition(family, family.trainable())

    def mean_loss(parameters: ExponentialFamily) -> jax.Array:
        frozen = eqx.combine(parameters, fixed).frozen_on(others)
        return jnp.mean(objective.losses(jax.random.key(0), frozen, rows))

    loss, gradient = jax.jit(jax.value_and_grad(mean_loss))(parameters)
    found = eqx.filter_jit(batch_gradient)(jax.random.key(0), objective, parameters, fixed, others, rows, size)
    assert found[0] == pytest.approx(float(loss), rel=1e-12)
    for a, b in zip(jax.tree.leaves(found[1]), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_pieces_hold_every_row_once(rows: Batch) -> None:
    pieces = in_pieces(rows, 7)
    assert pieces.y.shape == (3, 7, 10)
    flat = jax.tree.map(lambda part: part.reshape(21, *part.shape[2:]), pieces)
    np.testing.assert_array_equal(flat.y[:20], rows.y)
    np.testing.assert_array_equal(flat.weight, np.append(rows.weight, 0.0))


def test_pieces_are_small_where_a_pair_needs_much() -> None:
    """Windows of eleven values with all their derivatives, against ten single values."""

    def size(model: sf.Model, family: ExponentialFamily) -> int:
        pairs = Batch(jnp.zeros((1, *model.data_shape)), jnp.zeros((1, 2)), jnp.ones(1))
        return piece_size(sf.ScoreMatching(), family, pairs, 1000)

    few = size(sf.zoo.ma2(), ExponentialFamily.paper(jax.random.key(0), "ma2"))
    many = size(sf.zoo.gamma(), ExponentialFamily.paper(jax.random.key(0), "gamma"))
    jacobians = 90 * 11 * (50 + 50 + 30) * 4  # bytes of the derivatives after each hidden layer, for one pair
    assert few < PIECE_BYTES / jacobians < many <= 1000
