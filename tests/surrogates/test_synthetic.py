"""Synthetic likelihood where it is exact, both samplers, and what is refused."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import multivariate_normal
from sklearn.covariance import ledoit_wolf
from sklearn.preprocessing import StandardScaler

import suffice as sf
from suffice.surrogates import RatioEstimation, SyntheticLikelihood
from suffice.surrogates.synthetic import GaussianEstimator

from .gaussian_models import DESIGN, NOISE, exact_posterior, identity, linear_model

OBSERVED = np.array([1.0, 0.2, 1.5])
MODEL = linear_model()


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("standardise", [True, False])
def test_log_likelihood_is_the_gaussian_one(standardise: bool) -> None:
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(60, 3)) @ generator.normal(size=(3, 3)) * [1.0, 10.0, 0.1] + [0.0, 5.0, 1.0]
    evidence = rows[:2] + 0.1
    good = np.arange(60) % 5 != 0
    scaler = StandardScaler(with_std=standardise).fit(rows[good])
    covariance, shrinkage = ledoit_wolf(scaler.transform(rows[good]))
    scale = scaler.scale_ if standardise else np.ones(3)
    covariance = covariance * np.outer(scale, scale)
    expected = multivariate_normal(rows[good].mean(axis=0), covariance).logpdf(evidence).sum()
    spoiled = jnp.asarray(np.where(good[:, None], rows, 0.0))
    found = GaussianEstimator(standardise).log_likelihood(spoiled, jnp.asarray(good), jnp.asarray(evidence))
    assert shrinkage > 0.001
    assert float(found) == pytest.approx(expected, rel=1e-9)


def test_too_few_good_rows_have_no_likelihood() -> None:
    rows, good = jnp.ones((10, 3)), jnp.arange(10) < 4
    assert np.isneginf(GaussianEstimator(True).log_likelihood(rows, good, jnp.ones((1, 3))))


ROWS = OBSERVED + np.array([[0.0, 0.0, 0.0], [0.4, -0.3, 0.2], [-0.2, 0.5, 0.1]])


@pytest.fixture(scope="module")
def by_population() -> sf.Posterior:
    """Given three iid replicates."""
    method = SyntheticLikelihood(MODEL, identity, simulations=200, iterations=4)
    return sf.sample(jax.random.key(0), method, ROWS, iid=True, progress=False)


def test_population_recovers_the_exact_posterior_of_iid_replicates(by_population: sf.Posterior) -> None:
    mean, covariance = exact_posterior(ROWS)
    sd, measures = np.sqrt(np.diag(covariance)), by_population.convergence
    assert by_population.draws.shape == (1, 1000, 2)
    assert (measures.ess_bulk > 300).all()
    # Estimated moments widen a Gaussian by about (s + 1) / simulations: 2 per cent at most.
    assert (np.abs(by_population.mean - mean) < 3.5 * measures.mcse_mean + 0.02 * sd).all()
    np.testing.assert_allclose(by_population.covariance / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.15)


def test_metropolis_recovers_the_exact_posterior() -> None:
    method = SyntheticLikelihood(MODEL, identity, 100, sampler="metropolis", particles=200, warmup=300, thin=6)
    post = sf.sample(jax.random.key(1), method, OBSERVED, num_draws=500, progress=False)
    mean, covariance = exact_posterior(OBSERVED[None])
    sd, measures = np.sqrt(np.diag(covariance)), post.convergence
    assert post.draws.shape == (4, 500, 2)
    assert post.weights is None
    assert (np.abs(post.mean - mean) < 3.5 * measures.mcse_mean + 0.02 * sd).all()
    np.testing.assert_allclose(post.covariance / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.2)
    assert {"simulations", "seconds", "method", "failed", "acceptance"} <= set(post.info)


def test_info_and_history(by_population: sf.Posterior, tmp_path: Path) -> None:
    info = by_population.info
    assert (info["method"], info["simulations"], info["failed"]) == ("SyntheticLikelihood", 800_000, 0)
    assert info["history_theta"].shape == (4, 1000, 2)
    np.testing.assert_allclose(info["history_weights"].sum(axis=1), 1.0)
    np.testing.assert_array_equal(info["history_weights"][-1], by_population.flat_weights)
    np.testing.assert_allclose(info["history_ess"], 1 / np.sum(info["history_weights"] ** 2, axis=1))
    np.testing.assert_array_equal(info["history_simulations"], 200_000 * np.arange(1, 5))
    again = sf.load(by_population.save(tmp_path / "post.npz"))
    np.testing.assert_array_equal(again.info["history_theta"], info["history_theta"])


def test_same_key_same_draws_new_observation_no_new_program_failures_counted() -> None:
    traces = []

    def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
        traces.append(1)
        failed = jax.random.uniform(jax.random.fold_in(key, 1)) < 0.2
        return jnp.where(failed, jnp.nan, theta + jax.random.normal(key, (2,)))

    model = sf.Model(dist.Normal(0.0, 1.0).expand([2]).to_event(1), simulator)
    settings: list[dict[str, Any]] = [{}, {"sampler": "metropolis"}]
    for setting in settings:
        method = SyntheticLikelihood(model, identity, 10, particles=100, iterations=2, warmup=20, thin=2, **setting)

        def draws(seed: int, x: np.ndarray, method: SyntheticLikelihood = method) -> np.ndarray:
            with pytest.warns(sf.SamplingWarning):
                post = sf.sample(jax.random.key(seed), method, x, num_draws=20, num_chains=2, progress=False)
            assert post.info["failed"] / post.info["simulations"] == pytest.approx(0.2, abs=0.05)
            assert np.isfinite(post.mean).all()
            return post.draws

        first = draws(0, np.zeros(2))
        count = len(traces)
        np.testing.assert_array_equal(first, draws(0, np.zeros(2)))
        assert not np.array_equal(first, draws(0, np.ones(2)))
        assert not np.array_equal(first, draws(1, np.zeros(2)))
        assert len(traces) == count


@pytest.mark.parametrize("sampler", ["population", "metropolis"])
def test_statistics_in_numpy_and_a_killed_run(sampler: Any, tmp_path: Path) -> None:
    """Statistics that are no JAX code give the same posterior; a killed run goes on with the same draws."""
    rest: dict[str, Any] = {"particles": 60, "iterations": 4, "warmup": 60, "thin": 2, "sampler": sampler}

    def draw(statistics: Callable[[Any], Any], checkpoint: Path | None = None) -> sf.Posterior:
        method = SyntheticLikelihood(MODEL, statistics, 30, **rest)
        with pytest.warns(sf.SamplingWarning):
            return sf.sample(
                jax.random.key(3), method, OBSERVED, num_draws=60, num_chains=2, checkpoint=checkpoint, progress=False
            )

    calls = []

    def plain(x: np.ndarray) -> np.ndarray:
        assert isinstance(x, np.ndarray | np.generic) or not isinstance(x, jax.core.Tracer), "for the host only"
        calls.append(1)
        return np.array(x, copy=True)

    mean, covariance = exact_posterior(OBSERVED[None])
    on_host = draw(lambda x: plain(np.asarray(x)))
    assert (np.abs(on_host.mean - mean) < 1.5 * np.sqrt(np.diag(covariance))).all()
    made = len(calls)

    def dying(x: np.ndarray) -> np.ndarray:
        if len(calls) > 1.7 * made:
            raise KeyboardInterrupt
        return plain(np.asarray(x))

    def wrapped(x: np.ndarray) -> np.ndarray:
        return alive[0](np.asarray(x))

    alive: list[Callable[[np.ndarray], np.ndarray]] = [dying]
    with pytest.raises(KeyboardInterrupt):
        sf.sample(
            jax.random.key(3),
            SyntheticLikelihood(MODEL, wrapped, 30, **rest),
            OBSERVED,
            num_draws=60,
            num_chains=2,
            checkpoint=tmp_path / "run.npz",
            progress=False,
        )
    assert (tmp_path / "run.npz").exists()
    alive[0], before = plain, len(calls)
    resumed = draw(wrapped, tmp_path / "run.npz")
    np.testing.assert_array_equal(resumed.draws, on_host.draws)
    assert len(calls) - before < made


def outside(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    return DESIGN @ [theta["theta1"], theta["theta2"]] + NOISE @ rng.normal(size=3)


def test_a_simulator_in_processes_of_its_own() -> None:
    model = sf.Model.external(MODEL.prior, outside, data_shape=(3,))
    method = SyntheticLikelihood(model, identity, 10, particles=100, iterations=1, executor=1)
    with pytest.warns(sf.SamplingWarning, match="too few effective draws"):
        post = sf.sample(jax.random.key(5), method, OBSERVED, progress=False)
    mean, covariance = exact_posterior(OBSERVED[None])
    assert (np.abs(post.mean - mean) < 1.5 * np.sqrt(np.diag(covariance))).all()
    assert (post.info["simulations"], post.info["failed"]) == (1000, 0)


def constant(x: jax.Array) -> jax.Array:
    return jnp.stack([x[0], jnp.ones(())])


def sometimes_nan(x: jax.Array) -> jax.Array:
    return jnp.stack([x[0], x[1], jnp.log(x[2])])


@pytest.mark.parametrize("kind", [SyntheticLikelihood, RatioEstimation])
def test_bad_statistics_are_named(kind: Any) -> None:
    with pytest.raises(ValueError, match=r"component 1 \(counted from 0\) is the same in all"):
        sf.sample(jax.random.key(0), kind(MODEL, constant), OBSERVED)
    with pytest.raises(ValueError, match=r"component 2 \(counted from 0\) is not finite"):
        sf.sample(jax.random.key(0), kind(MODEL, sometimes_nan), OBSERVED)
    with pytest.raises(ValueError, match=r"Components \[2\] .* of the observation's statistics are not finite"):
        sf.sample(jax.random.key(0), kind(MODEL, sometimes_nan), -OBSERVED)
    with pytest.raises(ValueError, match=r"have shape \(\), but must be a vector"):
        kind(MODEL, jnp.sum)
    with pytest.raises(ValueError, match="The statistics failed for an x of shape"):
        kind(MODEL, lambda x: x @ jnp.ones(4))
    with pytest.raises(sf.ModelError, match="observation has shape"):
        sf.sample(jax.random.key(0), kind(MODEL, identity), np.ones(4))


@pytest.mark.parametrize(
    ("kind", "settings", "match"),
    [
        (SyntheticLikelihood, {"simulations": 4}, "simulations is 4, but must be at least 5: there are 3 statistics"),
        (RatioEstimation, {"simulations": 40}, "simulations is 40, but must be at least 50: there are 9 features"),
        (SyntheticLikelihood, {"sampler": "nuts"}, "must be 'population' or 'metropolis'"),
        (SyntheticLikelihood, {"particles": 1.5}, "particles is 1.5, but must be a whole number"),
        (SyntheticLikelihood, {"iterations": 0}, "iterations is 0"),
        (RatioEstimation, {"rule": "max"}, "rule is 'max'"),
        (RatioEstimation, {"folds": 1}, "folds is 1"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_bad_settings_are_refused(kind: Any, settings: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        kind(MODEL, identity, **settings)
