"""`Innovations`: against plain loops and numpy's least squares."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import suffice as sf
from suffice.family import Regression
from suffice.family.statistics import Innovations


def patch(y: np.ndarray, t: int, k: int) -> list[float]:
    """The values around (t, k) of order 1 and neighbours (1, 0) on a ring, the newest of the site last."""
    sites = y.shape[1]
    return [y[t - 1, (k - 1) % sites], y[t - 1, k], y[t, (k - 1) % sites], y[t, k]]


def loops(rows: np.ndarray) -> np.ndarray:
    """The moments of each row, its innovations by least squares on all products up to degree 2."""
    n, steps, sites = rows.shape
    patches = np.array([[patch(y, t, k) for t in range(1, steps) for k in range(sites)] for y in rows])
    rest, newest = patches[..., :-1].reshape(-1, 3), patches[..., -1].reshape(-1)
    products = [rest[:, i] * rest[:, j] for i, j in itertools.combinations_with_replacement(range(3), 2)]
    design = np.column_stack([np.ones(len(rest)), rest, *products])
    residuals = newest - design @ np.linalg.lstsq(design, newest, rcond=None)[0]
    r = residuals.reshape(n, steps - 1, sites)
    v = rows[:, :-1] - patches[..., 1].mean()
    h = np.stack([v, r], axis=-1)
    moments = []
    for each in h:
        zero, one = (
            np.mean(
                [np.outer(each[t, k], each[t + lag, k]) for t in range(steps - 1 - lag) for k in range(sites)], axis=0
            )
            for lag in (0, 1)
        )
        moments.append([*each.mean((0, 1)), zero[0, 0], zero[0, 1], zero[1, 1], *one.reshape(-1)])
    return np.array(moments)


@pytest.mark.usefixtures("float64")
def test_moments_are_those_of_plain_loops() -> None:
    rows = np.random.default_rng(0).normal(size=(6, 7, 4)).cumsum(axis=1)
    network = Innovations(jax.random.key(0), (7, 4), 2, order=1, neighbours=(1, 0)).prepared(rows)
    found, exact = np.asarray(network.summarised(jnp.asarray(rows))), loops(rows)
    scaled = (exact - exact.mean(0)) / exact.std(0)  # an innovation's unit is its own
    np.testing.assert_allclose(found, scaled, atol=1e-5)


def test_a_ring_has_no_first_site() -> None:
    rows = np.asarray(jax.random.normal(jax.random.key(1), (5, 6, 5)))
    network = Innovations(jax.random.key(0), (6, 5), 3, neighbours=(1, 1)).prepared(rows)
    turned = jnp.roll(jnp.asarray(rows[0]), 2, axis=1)
    np.testing.assert_allclose(network(turned), network(jnp.asarray(rows[0])), atol=1e-4)
    chain = Innovations(jax.random.key(0), (6, 5), 3, neighbours=(1, 1), cyclic=False).prepared(rows)
    assert not np.allclose(chain(turned), chain(jnp.asarray(rows[0])), atol=1e-4)


@pytest.mark.usefixtures("unchecked_types")
def test_bad_settings_are_refused() -> None:
    key = jax.random.key(0)
    with pytest.raises(ValueError, match=r"shape \(T,\) or \(T, K\)"):
        Innovations(key, (3, 4, 5), 2)
    with pytest.raises(ValueError, match="order is 9 and lags is 1"):
        Innovations(key, (10,), 2, order=9)
    with pytest.raises(ValueError, match=r"neighbours are \(1, 0\)"):
        Innovations(key, (10,), 2, neighbours=(1, 0))


def test_a_regression_on_innovations_learns_and_is_saved(tmp_path: object) -> None:
    """AR(2): the outer network alone is trained, and the file gives the same statistics."""
    model = sf.zoo.ar2()
    sims = sf.simulate(jax.random.key(0), model, 1000, progress=False)
    family = Regression.assemble(model, Innovations(jax.random.key(3), model.data_shape, 2, order=2, lags=2))
    training = sf.Training(epochs=20, batch_size=100, learning_rate=1e-2, validation_fraction=0.2)
    fit = sf.fit(jax.random.key(1), model, sims, sf.PosteriorMean(), family=family, training=training, progress=False)
    fresh = sf.simulate(jax.random.key(7), model, 200, progress=False)
    statistics = fit.statistics(fresh.x)
    errors = np.sqrt(np.mean((statistics - fresh.theta) ** 2, axis=0))
    assert np.all(errors < 2 * 0.078)  # twice the median standard deviation of exact posteriors
    loaded = sf.load(fit.save(f"{tmp_path}/fit.npz"))
    np.testing.assert_array_equal(loaded.statistics(fresh.x), statistics)
