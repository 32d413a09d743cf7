"""Ledoit and Wolf's covariance against scikit-learn's."""

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf as oracle

from suffice.surrogates.shrinkage import ledoit_wolf, moments


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("shape", [(100, 2), (12, 5), (6, 9), (50, 1)])
def test_equals_scikit_learn(shape: tuple[int, int]) -> None:
    generator = np.random.default_rng(shape[0])
    rows = generator.normal(size=shape) @ generator.normal(size=(shape[1], shape[1])) + 3.0
    expected, shrinkage = oracle(rows)
    mean, centred, number = moments(jnp.asarray(rows), jnp.ones(len(rows), bool))
    np.testing.assert_allclose(mean, rows.mean(axis=0))
    np.testing.assert_allclose(ledoit_wolf(centred, number), expected, rtol=1e-6, atol=1e-9)
    assert shape[1] == 1 or 0.001 < shrinkage < 0.999, "the case must be one where shrinkage matters"


@pytest.mark.usefixtures("float64")
def test_rows_that_do_not_count_change_nothing() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3)) * [1.0, 2.0, 5.0]
    good = np.arange(40) % 4 != 0
    spoiled = np.where(good[:, None], rows, 1e6)
    mean, centred, number = moments(jnp.asarray(spoiled), jnp.asarray(good))
    assert number == 30
    np.testing.assert_allclose(mean, rows[good].mean(axis=0))
    np.testing.assert_allclose(ledoit_wolf(centred, number), oracle(rows[good])[0], rtol=1e-6)
