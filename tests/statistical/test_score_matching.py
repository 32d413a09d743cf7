"""Score matching finds the true score: its error on fresh simulations, where the likelihood is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import suffice as sf
from suffice.diagnostics import mcc

pytestmark = pytest.mark.usefixtures("optimised")


@pytest.fixture(scope="module")
def beta_fit() -> sf.Fit:
    model = sf.zoo.beta()
    sims = sf.simulate(jax.random.key(0), model, 4000)
    return sf.fit(jax.random.key(1), model, sims, training=sf.Training(epochs=40, batch_size=200))


def test_the_score_is_the_true_one(beta_fit: sf.Fit) -> None:
    model, family = sf.zoo.beta(), beta_fit.family
    fresh = sf.simulate(jax.random.key(2), model, 500)

    def true_density(y: jax.Array, theta: jax.Array) -> jax.Array:
        assert model.log_likelihood is not None
        return model.log_likelihood(family.data_chart.inverse(y), theta) + family.data_chart.log_det(y)

    y = jax.vmap(family.data_chart.forward)(jnp.asarray(fresh.x))
    theta = jnp.asarray(fresh.theta)
    truth = np.asarray(jax.vmap(jax.grad(true_density))(y, theta))
    found = np.asarray(jax.vmap(jax.grad(family.log_density))(y, theta))
    assert np.mean((found - truth) ** 2) < 0.02 * np.mean(truth**2)


def test_statistics_and_natural_parameters_are_recovered(beta_fit: sf.Fit) -> None:
    """Five learned statistics hold the two exact ones up to a linear map."""
    model = sf.zoo.beta()
    fresh = sf.simulate(jax.random.key(3), model, 1000)
    assert model.sufficient_statistics is not None
    exact = np.asarray(jax.vmap(model.sufficient_statistics)(jnp.asarray(fresh.x)))
    assert mcc(beta_fit.statistics(fresh.x), exact).weak_out > 0.99


def test_ratios_of_the_density_over_x_are_those_of_the_likelihood(beta_fit: sf.Fit) -> None:
    """log p(x|θ) − log p(x'|θ) needs no Z(θ): the learned one follows the exact one."""
    model = sf.zoo.beta()
    assert model.log_likelihood is not None
    theta = np.array([1.5, 2.5], np.float32)
    likely = jax.vmap(model.simulator, (0, None))(jax.random.split(jax.random.key(5), 400), jnp.asarray(theta))
    learned = beta_fit.log_density(np.asarray(likely), theta)
    exact = np.asarray(jax.vmap(model.log_likelihood, (0, None))(likely, jnp.asarray(theta)))
    difference = (learned - learned.mean()) - (exact - exact.mean())
    assert np.std(difference) < 0.15 * np.std(exact)
