"""Ratio estimation: the ratio itself, and the posterior it gives, where both are known."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import suffice as sf
from suffice.surrogates import RatioEstimation
from suffice.surrogates.ratio import RatioEstimator, num_features
from suffice.surrogates.summaries import Summaries

from .gaussian_models import DESIGN, NOISE, PRIOR_MEAN, PRIOR_SD, exact_posterior, identity, linear_model

OBSERVED = np.array([1.0, 0.2, 1.5])
MODEL = linear_model()
MARGINAL = multivariate_normal(DESIGN @ PRIOR_MEAN, DESIGN @ np.diag(PRIOR_SD**2) @ DESIGN.T + NOISE @ NOISE.T)


@pytest.fixture(scope="module")
def estimator() -> RatioEstimator:
    method = RatioEstimation(MODEL, identity, simulations=2000)
    return method.estimator(jax.random.key(0), Summaries.of(MODEL, identity))[0]


@eqx.filter_jit
def ratio(estimator: RatioEstimator, rows: jax.Array, good: jax.Array, evidence: jax.Array) -> jax.Array:
    return estimator.log_likelihood(rows, good, evidence)


def test_features_are_standardised_statistics_squares_and_products(estimator: RatioEstimator) -> None:
    features = np.asarray(estimator.features(jnp.asarray(OBSERVED[None], jnp.float32)))[0]
    z = (OBSERVED - np.asarray(estimator.mean)) / np.asarray(estimator.scale)
    expected = [*z, z[0] ** 2, z[0] * z[1], z[0] * z[2], z[1] ** 2, z[1] * z[2], z[2] ** 2]
    np.testing.assert_allclose(features, expected, rtol=1e-5)
    assert len(features) == num_features(3) == 9


def test_the_reference_is_the_marginal_not_one_theta(estimator: RatioEstimator) -> None:
    rows = np.asarray(estimator.reference)
    sd = np.sqrt(np.diag(MARGINAL.cov))
    np.testing.assert_allclose(rows.mean(axis=0), MARGINAL.mean, atol=4 * sd.max() / 2000**0.5)
    np.testing.assert_allclose(rows.std(axis=0), sd, rtol=0.1)


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_the_ratio_is_that_of_the_densities(estimator: RatioEstimator, share: float) -> None:
    """Also where only some simulations are good: how many there are is no part of the ratio."""
    generator, theta = np.random.default_rng(1), np.array([0.9, -0.8])
    rows = theta @ DESIGN.T + generator.normal(size=(2000, 3)) @ NOISE.T
    good = np.arange(2000) < share * 2000
    points = theta @ DESIGN.T + generator.normal(size=(20, 3)) @ NOISE.T
    expected = multivariate_normal(DESIGN @ theta, NOISE @ NOISE.T).logpdf(points) - MARGINAL.logpdf(points)
    spoiled = jnp.asarray(np.where(good[:, None], rows, 0.0), jnp.float32)
    data = jnp.asarray(points, jnp.float32)
    found = np.array([ratio(estimator, spoiled, jnp.asarray(good), point[None]) for point in data])
    assert np.abs(found - expected).mean() < 0.25
    assert abs(np.mean(found - expected)) < 0.2
    assert np.corrcoef(found, expected)[0, 1] > 0.8
    if share == 1.0:
        together = ratio(estimator, spoiled, jnp.asarray(good), data[:3])
        assert float(together) == pytest.approx(found[:3].sum(), rel=1e-4)


def test_population_recovers_the_posterior() -> None:
    method = RatioEstimation(MODEL, identity, simulations=400, particles=200, iterations=2, folds=5, penalties=10)
    post = sf.sample(jax.random.key(0), method, OBSERVED, progress=False)
    mean, covariance = exact_posterior(OBSERVED[None])
    sd = np.sqrt(np.diag(covariance))
    assert (np.abs(post.mean - mean) < 0.35 * sd).all()
    np.testing.assert_allclose(post.sd, sd, rtol=0.3)
    assert post.info["method"] == "RatioEstimation"
    assert post.info["simulations"] == 200 * 2 * 400
    assert post.info["reference_simulations"] == 400
