"""`Direct` on a regression: against posteriors in closed form."""

import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import gamma

import suffice as sf
from suffice.family import Regression
from suffice.family.statistics import Mlp

NOISE = 0.5
MODEL = sf.Model(
    dist.Normal(jnp.zeros(2), 1.0).to_event(1),
    lambda key, theta: theta + NOISE * jax.random.normal(key, (2,)),
    names=("a", "b"),
)
OBSERVED = np.array([[0.6, -0.9], [0.2, -0.4], [1.1, -0.3]], np.float32)


@pytest.fixture(scope="module")
def fit() -> sf.Fit:
    """x ~ N(θ, I/4), θ ~ N(0, I): statistics that are linear in x are exactly Gaussian given θ."""
    sims = sf.simulate(jax.random.key(0), MODEL, 6000, progress=False)
    family = Regression.assemble(MODEL, Mlp(jax.random.key(1), (2,), 2, widths=()))
    training = sf.Training(epochs=30, batch_size=200, validation_fraction=0.5)
    return sf.fit(jax.random.key(2), MODEL, sims, sf.PosteriorMean(), family=family, training=training, progress=False)


@pytest.mark.parametrize("number", [1, 3])
def test_posteriors_are_those_of_conjugacy(fit: sf.Fit, number: int) -> None:
    """n replicates: N(n x̄ / (n + σ²), σ²/(n + σ²)), for the grid, and for its density at a point."""
    rows, method = OBSERVED[:number], sf.Direct(fit)
    variance = NOISE**2 / (number + NOISE**2)
    mean = rows.sum(0) / (number + NOISE**2)
    grid = method.grid(rows if number > 1 else rows[0], iid=number > 1)
    assert np.all(np.abs(grid.mean - mean) < 0.1 * np.sqrt(variance))
    np.testing.assert_allclose(grid.sd, np.sqrt(variance), rtol=0.06)


def test_nuts_draws_from_the_same_density(fit: sf.Fit) -> None:
    method = sf.Direct(fit)
    grid = method.grid(OBSERVED[0])
    posterior = sf.sample(jax.random.key(3), method, OBSERVED[0], num_draws=500, progress=False)
    assert posterior.info["doubts"] == []
    assert np.all(np.abs(posterior.mean - grid.mean) < 4.0 * grid.sd / np.sqrt(posterior.convergence.ess_bulk))
    np.testing.assert_allclose(posterior.sd, grid.sd, rtol=0.1)


def test_likelihood_residual_and_file(fit: sf.Fit, tmp_path: Path) -> None:
    """The estimate of the highest likelihood is x itself, and its standard error σ."""
    found = sf.sampling.likelihood.maximum_likelihood(sf.Direct(fit), OBSERVED[0])
    np.testing.assert_allclose(found.theta, OBSERVED[0], atol=0.1)
    np.testing.assert_allclose(found.standard_error, NOISE, rtol=0.1)
    fresh = sf.simulate(jax.random.key(8), MODEL, 1000, progress=False)
    assert fit.residual(fresh.theta, fresh.x).excess < 2.5
    loaded, theta = sf.load(fit.save(tmp_path / "fit.npz")), np.array([0.3, -0.2])
    assert sf.Direct(loaded).log_prob(theta, OBSERVED[0]) == sf.Direct(fit).log_prob(theta, OBSERVED[0])
    assert fit.outside_training(np.array([30.0, 30.0])) == 0.0


def test_exchange_says_that_it_needs_a_family(fit: sf.Fit) -> None:
    with pytest.raises(TypeError, match="without the density of x that Exchange needs"):
        sf.Exchange(fit)


def test_a_linear_regression_has_no_density() -> None:
    sims = sf.simulate(jax.random.key(0), MODEL, 200, progress=False)
    linear = sf.fit(jax.random.key(1), MODEL, sims, sf.PosteriorMean(linear=True), progress=False)
    with pytest.raises(ValueError, match="has no normaliser"):
        sf.Direct(linear)


def test_counts() -> None:
    """x₁, …, x₁₀ ~ Poisson(λ), λ ~ Gamma(4, 1): the posterior is Gamma(4 + Σx, 11), though x is discrete."""
    prior = dist.Gamma(jnp.array([4.0]), 1.0).to_event(1)
    model = sf.Model(prior, lambda key, theta: jax.random.poisson(key, theta[0], (10,)).astype(float), names=("rate",))
    sims = sf.simulate(jax.random.key(0), model, 4000, progress=False)
    family = Regression.assemble(model, Mlp(jax.random.key(1), (10,), 1, widths=()))
    training = sf.Training(epochs=20, batch_size=100, validation_fraction=0.5)
    fit = sf.fit(jax.random.key(2), model, sims, sf.PosteriorMean(), family=family, training=training, progress=False)
    for total in (20, 40, 60):
        exact = gamma(4 + total, scale=1.0 / 11.0)
        grid = sf.Direct(fit).grid(np.full(10, total / 10))
        assert abs(grid.mean[0] - exact.mean()) < 0.2 * exact.std()
        assert abs(grid.sd[0] / exact.std() - 1.0) < 0.12


def test_too_few_pairs_for_a_density_leave_statistics_for_abc() -> None:
    model = sf.zoo.gamma()
    sims = sf.simulate(jax.random.key(0), model, 20)
    training = sf.Training(epochs=2, batch_size=5, validation_fraction=0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sf.TrainingWarning)
        fit = sf.fit(jax.random.key(1), model, sims, sf.PosteriorMean(), training=training, progress=False)
    assert fit.statistics(sims.x).shape == (20, 2)
    assert fit.statistics(sims.x[:0]).shape == (0, 2)
    with pytest.raises(ValueError, match="hundreds of pairs are held out"):
        sf.Direct(fit)


def test_innovations_are_no_statistics_of_a_family() -> None:
    model = sf.zoo.ar2()
    network = sf.statistics.Innovations(jax.random.key(0), model.data_shape, 3, order=2)
    family = sf.ExponentialFamily.assemble(model, network, sf.statistics.Mlp(jax.random.key(1), (2,), 2))
    with pytest.raises(ValueError, match=r"Regression\.assemble"):
        sf.fit(jax.random.key(1), model, sf.simulate(jax.random.key(0), model, 100), family=family)
