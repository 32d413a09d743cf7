"""Regression adjustment: least squares by scikit-learn, exact where the model is linear, inside the prior always."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from sklearn.linear_model import LinearRegression

import suffice as sf
from suffice.abc import Rejection
from suffice.abc.adjustment import Draws, adjust, epanechnikov
from tests.abc.cases import abc_posterior, conjugate, data_with_mean, mean_of

RNG = np.random.default_rng(1)
REAL = dist.Normal(jnp.zeros(2), 1.0).to_event(1)


def draws_of(theta: np.ndarray, statistics: np.ndarray, observed: np.ndarray) -> Draws:
    distance = np.linalg.norm(statistics - observed, axis=1)
    return Draws(theta, RNG.uniform(0.5, 1.5, len(theta)), statistics, distance)


def test_the_linear_adjustment_is_weighted_least_squares(float64: None) -> None:
    statistics, observed = RNG.normal(size=(300, 3)), np.array([0.2, -0.1, 0.4])
    theta = statistics[:, :2] * 2 + RNG.normal(size=(300, 2))
    draws = draws_of(theta, statistics, observed)
    adjusted = adjust(draws, observed, REAL, "linear")
    kernel = 1 - (draws.distance / draws.distance.max()) ** 2
    assert np.allclose(adjusted.kernel, kernel)
    line = LinearRegression().fit(statistics, theta, sample_weight=kernel * draws.weights)
    expected = theta + line.predict(observed[None]) - line.predict(statistics)
    rows = kernel > 0
    assert np.allclose(adjusted.theta[rows], expected[rows])
    assert adjusted.done


def test_the_heteroscedastic_adjustment_rescales_the_residuals(float64: None) -> None:
    observed = np.array([0.5])
    statistics = RNG.uniform(0.0, 2.0, size=(4000, 1))
    scale = np.exp(-1.0 + statistics)
    theta = np.tile(3 * statistics, 2) + scale * RNG.normal(size=(4000, 2))
    draws = draws_of(theta, statistics, observed)

    def spread(kind: str) -> np.ndarray:
        adjusted = adjust(draws, observed, REAL, kind)  # type: ignore[arg-type]
        weights = adjusted.kernel * draws.weights
        return np.sqrt(np.average((adjusted.theta - 1.5) ** 2, axis=0, weights=weights))

    truth = np.exp(-0.5)
    assert np.all(np.abs(spread("heteroscedastic") / truth - 1) < 0.05)
    assert np.all(spread("linear") / truth > 1.15)


def test_a_linear_gaussian_model_is_all_but_exact_after_adjustment(key: jax.Array) -> None:
    sims = sf.simulate(key, conjugate(), 20_000, progress=False)
    mean, sd = abc_posterior(conjugate(), 1.0, 0.0)
    found = {
        kind: sf.sample(key, Rejection(conjugate(), mean_of, sims, quantile=0.3, adjust=kind), data_with_mean(1.0))
        for kind in (False, True, "heteroscedastic")
    }
    for kind in (True, "heteroscedastic"):
        posterior = found[kind]
        assert posterior.weights is not None
        assert posterior.info["adjusted"]
        error = 4 * sd / np.sqrt(posterior.info["ess"])
        assert abs(posterior.mean[0] - mean) < error
        assert abs(posterior.sd[0] - sd) < error
    assert found[False].sd[0] > 1.2 * sd


def test_adjusted_draws_stay_inside_the_prior(key: jax.Array) -> None:
    prior = dist.Uniform(jnp.zeros(1), jnp.ones(1)).to_event(1)
    model = sf.Model(prior, lambda key, theta: theta[0] + 0.3 * jax.random.normal(key, (4,)))
    sims = sf.simulate(key, model, 5000, progress=False)
    observed = np.full(4, 1.2, np.float32)
    posterior = sf.sample(key, Rejection(model, mean_of, sims, quantile=0.2, adjust=True), observed)
    plain = sf.sample(key, Rejection(model, mean_of, sims, quantile=0.2), observed)
    assert posterior.draws.min() > 0
    assert posterior.draws.max() <= 1
    assert posterior.mean[0] > plain.mean[0] + 0.02


def test_too_few_draws_are_left_as_they_are(float64: None) -> None:
    statistics, observed = RNG.normal(size=(5, 3)), np.zeros(3)
    draws = draws_of(RNG.normal(size=(5, 2)), statistics, observed)
    with pytest.warns(
        sf.SamplingWarning, match="Only 4 draws can be used for a regression on 3 statistics, which takes 8"
    ):
        adjusted = adjust(draws, observed, REAL, "linear")
    assert np.array_equal(adjusted.theta, draws.theta)
    assert not adjusted.done


def test_the_kernel() -> None:
    assert epanechnikov(np.array([0.0, 1.0, 2.0, np.inf])).tolist() == [1.0, 0.75, 0.0, 0.0]
    assert epanechnikov(np.zeros(2)).tolist() == [1.0, 1.0]
