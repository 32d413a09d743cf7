"""`PosteriorMean`: the regression of θ on x, against closed forms and scikit-learn."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from sklearn.linear_model import LinearRegression

import suffice as sf

PRIOR = dist.Normal(jnp.zeros(2), jnp.array([1.0, 2.0])).to_event(1)
LOADINGS = np.array([[1.0, 0.5], [0.0, 1.0], [1.0, -1.0]], np.float32)
MODEL = sf.Model(PRIOR, lambda key, theta: jnp.asarray(LOADINGS) @ theta + jax.random.normal(key, (3,)))


@pytest.fixture(scope="module")
def sims() -> sf.Simulations:
    return sf.simulate(jax.random.key(0), MODEL, 6000)


def exact_mean(x: np.ndarray) -> np.ndarray:
    """E[θ|x] of the linear-Gaussian model."""
    precision = LOADINGS.T @ LOADINGS + np.diag([1.0, 0.25])
    return np.linalg.solve(precision, LOADINGS.T @ x.T).T


def test_the_linear_one_is_least_squares(sims: sf.Simulations) -> None:
    fit = sf.fit(jax.random.key(1), MODEL, sims, sf.PosteriorMean(linear=True))
    oracle = LinearRegression().fit(sims.x, sims.theta).predict(sims.x)
    np.testing.assert_allclose(fit.statistics(sims.x), oracle, atol=2e-3)


def test_the_network_finds_the_posterior_mean(sims: sf.Simulations) -> None:
    settings = sf.Training(epochs=30, batch_size=200, learning_rate=3e-3)
    fit = sf.fit(jax.random.key(1), MODEL, sims, sf.PosteriorMean(), training=settings)
    fresh = sf.simulate(jax.random.key(5), MODEL, 2000)
    error = fit.statistics(fresh.x) - exact_mean(fresh.x)
    spread = exact_mean(fresh.x).std(0)
    assert np.all(np.sqrt((error**2).mean(0)) < 0.08 * spread)
    with pytest.raises(TypeError, match="it has statistics, but no density"):
        fit.log_density(fresh.x[0], fresh.theta[0])
