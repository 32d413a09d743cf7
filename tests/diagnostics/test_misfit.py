"""Misfit: observations from the model pass, others do not, and the verdict names what is off."""

from collections.abc import Callable

import jax
import numpy as np
import pytest
from scipy.stats import kstest
from tests.exact_families import exact_fit

import suffice as sf
from suffice.diagnostics import outside_training, predictive_check, prior_predictive_check

MODEL = sf.zoo.gaussian()
NUM = 300


@pytest.fixture(scope="module")
def posterior() -> sf.Posterior:
    """Around a mean of 0 and a standard deviation of 2, whatever was observed."""
    theta = np.random.default_rng(0).normal([0.0, 2.0], 0.05, size=(1, 600, 2))
    return sf.Posterior(theta.astype(np.float32), MODEL.names)


def test_p_values_are_shares_of_predictions(posterior: sf.Posterior, key: jax.Array) -> None:
    observed = np.linspace(-3.0, 4.0, 10)
    statistics: dict[str, Callable[[np.ndarray], object]] = {"mean": np.mean, "ends": lambda x: x[[0, -1]]}
    check = predictive_check(key, MODEL, posterior, observed, statistics=statistics, num=NUM)
    assert check.names == ("mean", "ends 1", "ends 2")
    np.testing.assert_allclose(check.observed, [0.5, -3.0, 4.0])
    x = posterior.predictive(key, MODEL, NUM)
    below = np.sum(x.mean(axis=1) <= 0.5)
    np.testing.assert_allclose(check.p_values[0], 2 * (min(below, NUM - below) + 1) / (NUM + 1))
    np.testing.assert_allclose(check.predicted[:, 2], x[:, -1])


def test_an_observation_of_the_model_fits(posterior: sf.Posterior, key: jax.Array) -> None:
    observed = 2.0 * np.random.default_rng(1).normal(size=10)
    check = predictive_check(key, MODEL, posterior, observed, num=NUM)
    assert check.misfits == ()
    assert check.verdict.startswith("The observation is like the 300 predictions")


def test_what_does_not_fit_is_named(posterior: sf.Posterior, key: jax.Array) -> None:
    generator = np.random.default_rng(2)
    far = predictive_check(key, MODEL, posterior, 6.0 + generator.normal(size=10), num=NUM)
    assert far.misfits[0].startswith("its mean (")
    assert "the data as a whole" in far.verdict
    flat = predictive_check(key, MODEL, posterior, np.full(10, 0.1) + 0.01 * generator.normal(size=10), num=NUM)
    assert flat.misfits[0].startswith("its standard deviation (0.00583")
    assert not any(words.startswith("its mean") for words in flat.misfits)


def test_joint_misfit_of_statistics(posterior: sf.Posterior, key: jax.Array) -> None:
    """Two statistics that always agree, and an observation in which they do not."""
    statistics = {"first": lambda x: x[0], "nearly the first": lambda x: x[0] + 0.01 * x[1] + 1.5 * (x[2] > 50)}
    observed = np.array([0.5, 0.1, 60.0] + 7 * [0.0])
    check = predictive_check(key, MODEL, posterior, observed, statistics=statistics, num=NUM)
    assert np.all(check.p_values > 0.2)
    assert check.statistics_p_value < 0.005
    assert "its statistics taken together" in check.misfits


def test_replicates_are_predicted_as_replicates(posterior: sf.Posterior, key: jax.Array) -> None:
    observed = 2.0 * np.random.default_rng(3).normal(size=(5, 10))
    check = predictive_check(key, MODEL, posterior, observed, num=NUM)
    assert check.misfits == ()
    assert abs(check.predicted[:, 0].std() / (2.0 / np.sqrt(50)) - 1) < 0.15
    sampled = sf.Posterior(posterior.draws, posterior.names, info={"observed": observed + 2.0})
    assert predictive_check(key, MODEL, sampled, num=NUM).misfits[0].startswith("its mean")


def test_prior_predictive_p_values_are_uniform(key: jax.Array) -> None:
    sims = sf.simulate(key, MODEL, 40)
    checks = [prior_predictive_check(jax.random.key(7), MODEL, x, num=NUM) for x in sims.x]
    for values in ([check.data_p_value for check in checks], [check.p_values[0] for check in checks]):
        assert kstest(values, "uniform").pvalue > 0.01
    assert prior_predictive_check(key, MODEL, np.full(10, 500.0), num=NUM).misfits[0].startswith("its mean")


def test_successive_values_of_a_series(key: jax.Array) -> None:
    model = sf.zoo.ar2()
    theta = np.tile([0.5, 0.0], (1, 300, 1)).astype(np.float32)
    observed = np.random.default_rng(4).normal(size=100)
    check = predictive_check(key, model, sf.Posterior(theta, model.names), observed, num=NUM)
    assert any("correlation of successive values" in words for words in check.misfits)


def test_learned_statistics_and_training_data(posterior: sf.Posterior, key: jax.Array) -> None:
    fit = exact_fit("gaussian")
    observed = 2.0 * np.random.default_rng(1).normal(size=10)
    check = predictive_check(key, MODEL, posterior, observed, statistics=fit, num=NUM)
    np.testing.assert_allclose(check.observed, fit.statistics(observed), rtol=1e-5)
    assert check.misfits == ()
    assert predictive_check(key, MODEL, posterior, observed + 8.0, statistics=fit, num=NUM).misfits
    assert outside_training(fit, observed) > 0.01
    assert outside_training(fit, observed + 1000.0) == 0.0


def test_too_few_predictions_are_refused(posterior: sf.Posterior, key: jax.Array) -> None:
    with pytest.raises(ValueError, match="give num=240"):
        predictive_check(key, MODEL, posterior, np.zeros(10), num=100)
    with pytest.raises(ValueError, match="give observed"):
        predictive_check(key, MODEL, posterior)
