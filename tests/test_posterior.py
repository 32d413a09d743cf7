"""`Posterior`: moments and resampling, weighted and not."""

import jax
import numpy as np
import pytest

import suffice as sf


@pytest.fixture
def weighted() -> sf.Posterior:
    generator = np.random.default_rng(3)
    weights = generator.dirichlet(np.ones(400))
    return sf.Posterior(generator.normal(size=(1, 400, 2)), ("a", "b"), weights[None])


def test_weighted_moments(weighted: sf.Posterior) -> None:
    assert weighted.weights is not None
    rows, weights = weighted.draws[0], weighted.weights[0]
    mean = sum(w * row for w, row in zip(weights, rows, strict=True))
    second = sum(w * np.outer(row, row) for w, row in zip(weights, rows, strict=True))
    np.testing.assert_allclose(weighted.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(weighted.covariance, second - np.outer(mean, mean), rtol=1e-10)
    np.testing.assert_allclose(weighted.sd**2, np.diag(weighted.covariance))


def test_resampling_follows_the_weights(weighted: sf.Posterior, key: jax.Array) -> None:
    equal = weighted.resample(key, 40_000)
    assert equal.weights is None
    assert equal.draws.shape == (1, 40_000, 2)
    standard_error = weighted.sd / np.sqrt(40_000)
    assert np.all(np.abs(equal.mean - weighted.mean) < 4.5 * standard_error)


def test_equal_weights(key: jax.Array) -> None:
    post = sf.Posterior(np.arange(24.0).reshape(2, 4, 3), ("a", "b", "c"))
    np.testing.assert_allclose(post.mean, post.flat.mean(0))
    assert repr(post) == "Posterior(2 × 4 draws of a, b, c)"
