"""`Posterior`: moments, intervals, resampling, predictions and ways out, weighted and not."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.stats import norm

import suffice as sf
from suffice.grid import GridPosterior


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


def test_intervals_hold_their_level_between_equal_tails(weighted: sf.Posterior) -> None:
    values = norm.ppf((np.arange(4000) + 0.5) / 4000).reshape(2, 2000, 1)
    post = sf.Posterior(values, ("a",))
    np.testing.assert_allclose(post.interval(0.8)[:, 0], norm.ppf([0.1, 0.9]), atol=2e-3)
    np.testing.assert_allclose(post.interval(), post.quantile((0.05, 0.95)))
    low, high = weighted.interval(0.6)
    inside = (weighted.flat >= low) & (weighted.flat <= high)
    np.testing.assert_allclose(weighted.flat_weights @ inside, 0.6, atol=0.02)
    with pytest.raises(ValueError, match="between 0 and 1"):
        post.interval(90.0)


def test_thinning_is_even_and_follows_the_weights(weighted: sf.Posterior) -> None:
    post = sf.Posterior(np.arange(24.0).reshape(2, 12, 1), ("a",))
    np.testing.assert_array_equal(post.thinned(24).flat, post.flat)
    np.testing.assert_array_equal(post.thinned(4).flat[:, 0], [3.0, 9.0, 15.0, 21.0])
    equal = weighted.thinned(10_000)
    counts = np.array([np.sum(np.all(equal.flat == row, axis=1)) for row in weighted.flat])
    assert np.all(np.abs(counts - 10_000 * weighted.flat_weights) <= 1)
    assert equal.weights is None
    with pytest.raises(ValueError, match="at least 1"):
        post.thinned(0)


@pytest.mark.usefixtures("unchecked_types")
def test_draws_are_resampled_in_whole_numbers(weighted: sf.Posterior, key: jax.Array) -> None:
    grid = GridPosterior(("a",), (np.arange(3.0),), np.full(3, 0.5), 0.0)
    for posterior in (weighted, grid):
        for num in (-1, 0, 2.5, "many"):
            with pytest.raises(ValueError, match=f"num is {num!r}, but must be a whole number of at least 1"):
                posterior.resample(key, num)  # type: ignore[arg-type]
        assert len(posterior.resample(key, np.int64(7)).flat) == 7  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def model() -> sf.Model:
    prior = dist.Uniform(jnp.zeros(2), jnp.ones(2)).to_event(1)
    return sf.Model(prior, lambda key, theta: theta[:1] + 0.01 * jax.random.normal(key, (3,)), names=("a", "b"))


def test_predictions_are_made_at_the_draws(model: sf.Model, key: jax.Array) -> None:
    draws = np.arange(40.0, dtype=np.float32).reshape(2, 10, 2)
    post = sf.Posterior(draws, ("a", "b"))
    x = post.predictive(key, model)
    assert x.shape == (20, 3)
    assert np.all(np.abs(x - post.flat[:, :1]) < 0.1)
    assert len(np.unique(x - post.flat[:, :1])) > 50
    np.testing.assert_array_equal(x, post.predictive(key, model))
    some = post.predictive(key, model, 5)
    np.testing.assert_allclose(some[:, 0], post.thinned(5).flat[:, 0], atol=0.1)
    replicates = post.predictive(key, model, 5, replicates=4)
    assert replicates.shape == (5, 4, 3)
    assert np.all(np.abs(replicates - post.thinned(5).flat[:, :1, None]) < 0.1)
    weights = np.zeros((2, 10))
    weights[1, 3] = 1.0
    heavy = sf.Posterior(draws, ("a", "b"), weights).predictive(key, model)
    assert np.all(np.abs(heavy - draws[1, 3, 0]) < 0.1)


def test_predictions_that_fail_are_told(key: jax.Array) -> None:
    prior = dist.Uniform(jnp.zeros(1), jnp.ones(1)).to_event(1)
    root = sf.Model(prior, lambda key, theta: jnp.sqrt(theta) + jnp.zeros(2))
    post = sf.Posterior(np.array([[[-1.0], [4.0]]], np.float32), ("theta1",))
    with pytest.warns(sf.SimulationWarning, match="Of 2 predictive simulations 1 are"):
        x = post.predictive(key, root)
    np.testing.assert_allclose(x[1], 2.0)
    with pytest.raises(ValueError, match="but this posterior is of"):
        sf.Posterior(np.zeros((1, 4, 1)), ("other",)).predictive(key, root)


def test_table_of_draws(weighted: sf.Posterior) -> None:
    post = sf.Posterior(np.arange(12.0).reshape(2, 3, 2), ("a", "b"))
    table = post.to_pandas()
    assert list(table.columns) == ["chain", "draw", "a", "b"]
    assert table.loc[4].tolist() == [1, 1, 8.0, 9.0]
    np.testing.assert_array_equal(weighted.to_pandas()["weight"], weighted.flat_weights)


def test_groups_for_arviz(weighted: sf.Posterior) -> None:
    generator = np.random.default_rng(0)
    info = {"acceptance": generator.uniform(size=(2, 50)), "observed": np.arange(3.0), "step_size": np.ones(2)}
    post = sf.Posterior(generator.normal(size=(2, 50, 2)), ("a", "b"), info=info)
    predictive = generator.normal(size=(100, 3))
    data = post.to_arviz(predictive)
    np.testing.assert_array_equal(data["posterior"]["b"].values, post.draws[..., 1])
    assert data["posterior"]["b"].dims == ("chain", "draw")
    assert list(data["sample_stats"].data_vars) == ["acceptance"]
    np.testing.assert_array_equal(data["sample_stats"]["acceptance"].values, info["acceptance"])
    np.testing.assert_array_equal(data["observed_data"]["x"].values, info["observed"])
    np.testing.assert_array_equal(data["posterior_predictive"]["x"].values[1, 2], predictive[52])
    plain = sf.Posterior(post.draws, post.names).to_arviz()
    groups = plain.children if hasattr(plain, "children") else plain.groups()  # arviz 1.x and 0.x
    assert list(groups) == ["posterior"]
    with pytest.raises(ValueError, match="7 predictions for 100 draws"):
        post.to_arviz(predictive[:7])
    equal = weighted.to_arviz()["posterior"]["a"].values
    np.testing.assert_array_equal(equal[0], weighted.thinned(400).flat[:, 0])
    with pytest.raises(ValueError, match="arviz knows no weights"):
        weighted.to_arviz(np.zeros((400, 3)))


def test_saved_and_loaded(weighted: sf.Posterior, tmp_path: Path) -> None:
    post = sf.Posterior(weighted.draws, weighted.names, weighted.weights, {"observed": np.arange(3.0), "iid": False})
    again = sf.load(post.save(tmp_path / "post.npz"))
    np.testing.assert_array_equal(again.draws, post.draws)
    np.testing.assert_array_equal(again.weights, post.weights)
    np.testing.assert_array_equal(again.info["observed"], post.info["observed"])
    assert again.names == post.names
    assert again.info["iid"] is False
