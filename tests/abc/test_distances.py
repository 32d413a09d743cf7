"""Distances: the paper's scaling, Mahalanobis' and its invariance, functions of one's own."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial.distance import mahalanobis

import suffice as sf
from suffice.abc import Euclidean, Mahalanobis, Rejection, autocovariances
from suffice.abc.distances import ruler_of

RNG = np.random.default_rng(0)
PILOT = (RNG.normal(size=(500, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 5.0, 1.0], [0.0, 0.0, 0.1]])).astype(np.float32)


def test_the_euclidean_distance_is_scaled_by_the_spread() -> None:
    expected = np.linalg.norm((PILOT[:9] - PILOT[9]) / PILOT.std(axis=0), axis=1)
    rows = jnp.asarray(np.broadcast_to(PILOT[9], (9, 3)))
    assert np.allclose(Euclidean().ruler(PILOT)(jnp.asarray(PILOT[:9]), rows), expected, rtol=1e-4)
    plain = np.linalg.norm(PILOT[:9] - PILOT[9], axis=1)
    assert np.allclose(Euclidean(scaled=False).ruler(PILOT).on_host(PILOT[:9], np.asarray(rows)), plain, rtol=1e-4)


def test_mahalanobis_distances_are_those_of_scipy() -> None:
    inverse = np.linalg.inv(np.cov(PILOT, rowvar=False, bias=True))
    expected = [mahalanobis(row, PILOT[9], inverse) for row in PILOT[:9]]
    rows = jnp.asarray(np.broadcast_to(PILOT[9], (9, 3)))
    assert np.allclose(Mahalanobis().ruler(PILOT)(jnp.asarray(PILOT[:9]), rows), expected, rtol=1e-4)


def test_only_mahalanobis_distances_are_the_same_after_a_linear_map(key: jax.Array) -> None:
    model = sf.zoo.gaussian()
    sims = sf.simulate(key, model, 3000, progress=False)
    statistics: Any = model.sufficient_statistics
    matrix = jnp.array([[1.0, 0.9], [-3.0, 0.2]])

    def draws(statistics: Any, distance: Any) -> np.ndarray:
        method = Rejection(model, statistics, sims, quantile=0.1, distance=distance)
        return sf.sample(key, method, sims.x[0]).draws

    mapped = lambda x: statistics(x) @ matrix  # noqa: E731
    same = draws(statistics, Mahalanobis()), draws(mapped, Mahalanobis())
    common = np.isin(same[0][0, :, 0], same[1][0, :, 0])
    assert common.mean() > 0.99  # but for rounding
    other = draws(statistics, Euclidean()), draws(mapped, Euclidean())
    assert np.isin(other[0][0, :, 0], other[1][0, :, 0]).mean() < 0.9


@pytest.mark.parametrize("numpy_only", [False, True])
def test_a_function_of_ones_own(numpy_only: bool) -> None:
    def cityblock(one: Any, other: Any) -> Any:
        return float(np.abs(np.asarray(one) - np.asarray(other)).sum()) if numpy_only else jnp.abs(one - other).sum()

    ruler = ruler_of(cityblock, PILOT)
    assert ruler.traceable is not numpy_only
    rows = np.broadcast_to(PILOT[9], (9, 3))
    assert np.allclose(ruler.on_host(PILOT[:9], rows), np.abs(PILOT[:9] - PILOT[9]).sum(axis=1), rtol=1e-5)


def test_bad_distances_are_refused() -> None:
    with pytest.raises(ValueError, match=r"statistics \[0, 1\] are linearly dependent"):
        Mahalanobis().ruler(PILOT[:, [0, 0, 2]] * np.array([1, 2, 1], np.float32))
    with pytest.raises(ValueError, match=r"array of shape \(3,\), but must return one number"):
        ruler_of(lambda one, other: one - other, PILOT)
    with pytest.raises(ValueError, match="The distance failed for two vectors of 3 statistics: TypeError"):
        ruler_of(lambda one: one, PILOT)


def test_autocovariances_are_not_centred() -> None:
    series = RNG.normal(size=(20, 2)) + 1.0
    expected = [
        sum(series[t, k] * series[t + lag, k] for t in range(20 - lag)) / (20 - lag) for lag in (1, 3) for k in (0, 1)
    ]
    assert np.allclose(autocovariances((1, 3))(jnp.asarray(series)), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="reach beyond a series of 3 steps"):
        autocovariances((3,))(jnp.zeros(3))
    with pytest.raises(ValueError, match=r"lags is \(-1,\)"):
        autocovariances((-1,))
