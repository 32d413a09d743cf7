"""Lorenz96 against a plain loop in which every index is written out, and its noise recovered from the states."""

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import suffice as sf
from suffice.zoo import lorenz

Size = Literal["small", "large"]
# Built here, outside of any change of precision, for the zoo keeps its models.
MODELS = {"small": sf.zoo.lorenz96("small"), "large": sf.zoo.lorenz96("large")}
# One compiled program a size and precision: simulations along the leading axis of keys and θ.
SIMULATORS = {size: jax.jit(jax.vmap(model.simulator)) for size, model in MODELS.items()}
SHAPES = {"small": (45, 8), "large": (120, 40)}
STEP = 1.0 / 30.0
THETA = np.array([1.7, 0.4, 2.1, 0.6])
THETAS = (THETA, np.array([1.4, 0.0, 1.5, 0.0]), np.array([2.2, 1.0, 2.5, 0.95]))
# The initial state of the reference code, typed anew from its listing.
FIRST_EIGHT = (6.4558, 1.1054, -1.4502, -0.1985, 1.1905, 2.3887, 5.6689, 6.7284)
LAST_FOUR = (3.0754, 3.4831, 3.5744, 6.5790)


def drift(y: np.ndarray, noise: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """dy/dt, for every k by itself; variables along the last axis."""
    K = y.shape[-1]
    result = np.empty_like(y)
    for k in range(K):
        before, two_before, after = (k - 1) % K, (k - 2) % K, (k + 1) % K
        g = theta[0] + theta[1] * y[..., k] + noise[..., k]
        result[..., k] = -y[..., before] * (y[..., two_before] - y[..., after]) - y[..., k] + 10.0 - g
    return result


def runge_kutta(y: np.ndarray, noise: np.ndarray, theta: np.ndarray) -> np.ndarray:
    a = STEP * drift(y, noise, theta)
    b = STEP * drift(y + a / 2.0, noise, theta)
    c = STEP * drift(y + b / 2.0, noise, theta)
    d = STEP * drift(y + c, noise, theta)
    return y + a / 6.0 + b / 3.0 + c / 3.0 + d / 6.0


def trajectory(start: np.ndarray, shocks: np.ndarray, theta: np.ndarray) -> np.ndarray:
    y, noise, states = start, np.zeros_like(start), []
    for shock in shocks:
        noise = theta[3] * noise + theta[2] * (1.0 - theta[3] ** 2) ** 0.5 * shock
        y = runge_kutta(y, noise, theta)
        states.append(y)
    return np.stack(states)


def recovered_noise(before: np.ndarray, after: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The noise that takes one state to the next, by fixed-point iteration."""
    noise = np.zeros_like(before)
    for _ in range(50):
        noise = noise + (runge_kutta(before, noise, theta) - after) / STEP
    np.testing.assert_allclose(runge_kutta(before, noise, theta), after, atol=1e-10)
    return noise


def simulate(size: Size, keys: jax.Array, *thetas: np.ndarray) -> np.ndarray:
    """One x for each θ, with the same number of keys."""
    return np.asarray(SIMULATORS[size](keys, jnp.asarray(np.stack(thetas))))


def start_of(size: Size) -> np.ndarray:
    return np.array(lorenz.INITIAL_STATE[: SHAPES[size][1]])


def with_start(x: np.ndarray, size: Size) -> np.ndarray:
    """States along axis −2, from the initial one on."""
    start = np.broadcast_to(start_of(size), (*x.shape[:-2], 1, x.shape[-1]))
    return np.concatenate([start, x], axis=-2)


def test_the_initial_state_is_the_references() -> None:
    assert len(lorenz.INITIAL_STATE) == 40
    assert lorenz.INITIAL_STATE[:8] == FIRST_EIGHT
    assert lorenz.INITIAL_STATE[-4:] == LAST_FOUR


@pytest.mark.parametrize("size", ["small", "large"])
def test_shapes_and_structure(size: Size, key: jax.Array) -> None:
    model = MODELS[size]
    assert model.data_shape == SHAPES[size]
    assert model.num_parameters == 4
    assert model.names == ("b0", "b1", "sigma_e", "phi")
    assert model.log_likelihood is None
    assert simulate(size, jax.random.split(key, 3), *THETAS).shape == (3, *SHAPES[size])


@pytest.mark.parametrize("size", ["small", "large"])
def test_simulator_is_the_plain_loop(size: Size, key: jax.Array, float64: None) -> None:
    keys = jax.random.split(key, len(THETAS))
    x = simulate(size, keys, *THETAS)
    assert x.dtype == np.float64
    for row, one_key, theta in zip(x, keys, THETAS, strict=True):
        shocks = np.asarray(jax.random.normal(one_key, SHAPES[size]))
        # Errors of rounding grow in chaos, by some thousands over T = 4.
        np.testing.assert_allclose(row, trajectory(start_of(size), shocks, theta), rtol=0, atol=1e-9)


@pytest.mark.parametrize("size", ["small", "large"])
def test_simulator_in_single_precision(size: Size, key: jax.Array) -> None:
    """As users run it; over the first 15 steps, before chaos has made much of the rounding."""
    keys = jax.random.split(key, len(THETAS))
    x = simulate(size, keys, *THETAS)
    assert x.dtype == np.float32
    for row, one_key, theta in zip(x, keys, THETAS, strict=True):
        shocks = np.asarray(jax.random.normal(one_key, SHAPES[size]), np.float64)
        expected = trajectory(start_of(size), shocks, theta)
        np.testing.assert_allclose(row[:15], expected[:15], rtol=0, atol=2e-4)


def test_other_indices_would_be_noticed(key: jax.Array, float64: None) -> None:
    """The reference code leaves variable K − 2 where it began and ties variable K − 1 to x[1]; here both are right."""
    x = with_start(simulate("small", jax.random.split(key, 3), *THETAS)[0], "small")
    assert (np.abs(np.diff(x, axis=0)).max(0) > 0.1).all()
    assert len(np.unique(x.round(9))) == x.size


@pytest.mark.parametrize("size", ["small", "large"])
def test_every_variable_couples_to_its_neighbours(
    size: Size, key: jax.Array, float64: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The derivative of the drift, read off a very short step: ∂/∂y of four neighbours and no other."""
    step = 1e-6
    monkeypatch.setattr(lorenz, "TIME_STEP", step)

    def first_state(start: jax.Array) -> jax.Array:
        with monkeypatch.context() as patch:
            patch.setattr(lorenz, "INITIAL_STATE", start)
            return MODELS[size].simulator(key, jnp.asarray(THETA))[0]

    y = start_of(size)
    K = len(y)
    jacobian = (np.asarray(jax.jacfwd(first_state)(jnp.asarray(y))) - np.eye(K)) / step
    expected = np.zeros((K, K))
    for k in range(K):
        expected[k, (k - 1) % K] = y[(k + 1) % K] - y[(k - 2) % K]
        expected[k, (k - 2) % K] = -y[(k - 1) % K]
        expected[k, (k + 1) % K] = y[(k - 1) % K]
        expected[k, k] = -1.0 - THETA[1]
    np.testing.assert_allclose(jacobian, expected, rtol=0, atol=1e-3)


def test_x_excludes_the_initial_state(key: jax.Array, float64: None) -> None:
    """x[0] is the state after one step of 1/30; without noise that step is the same for every key."""
    still = np.array([1.7, 0.4, 0.0, 0.6])
    x = simulate("small", jax.random.split(key, 3), still, still, still)
    start = start_of("small")
    for row in x:
        np.testing.assert_allclose(row[0], runge_kutta(start, np.zeros(8), still), rtol=0, atol=1e-12)
        assert np.abs(row[0] - start).min() > 1e-3


@pytest.mark.parametrize(("size", "end"), [("small", 1.5), ("large", 4.0)])
def test_time_runs_to_the_papers_end(size: Size, end: float, key: jax.Array, float64: None) -> None:
    """Without noise the last state is that of an accurate integration to T, which 1.5/44 as a step would miss."""
    still = np.array([1.7, 0.4, 0.0, 0.0])
    x = simulate(size, jax.random.split(key, 3), still, still, still)[0]
    y, quiet = start_of(size), np.zeros(SHAPES[size][1])
    parts = 20
    for _ in range(SHAPES[size][0] * parts):  # Heun, many small steps: another rule than the library's
        slope = drift(y, quiet, still)
        later = drift(y + STEP / parts * slope, quiet, still)
        y = y + STEP / parts * (slope + later) / 2.0
    assert STEP * SHAPES[size][0] == pytest.approx(end)
    tolerance = {"small": 0.02, "large": 0.4}[size]  # of Runge–Kutta at 1/30, which chaos multiplies
    np.testing.assert_allclose(x[-1], y, rtol=0, atol=tolerance)


@pytest.mark.parametrize("size", ["small", "large"])
def test_noise_is_an_ar1_of_the_shocks(size: Size, key: jax.Array, float64: None) -> None:
    """Two successive states give the noise between them, two successive noises the shock: all K of them, every step."""
    keys = jax.random.split(key, len(THETAS))
    for x, one_key, theta in zip(with_start(simulate(size, keys, *THETAS), size), keys, THETAS, strict=True):
        noise = recovered_noise(x[:-1], x[1:], theta)
        earlier = np.concatenate([np.zeros((1, noise.shape[1])), noise[:-1]])
        shocks = (noise - theta[3] * earlier) / (theta[2] * np.sqrt(1.0 - theta[3] ** 2))
        np.testing.assert_allclose(shocks, np.asarray(jax.random.normal(one_key, SHAPES[size])), rtol=0, atol=1e-6)


def test_shocks_are_independent_across_variables_and_time(key: jax.Array, float64: None) -> None:
    """The reference code shares one normal among all variables after the first step."""
    theta = np.array([1.7, 0.4, 2.1, 0.5])
    num, K = 400, SHAPES["small"][1]
    x = with_start(simulate("small", jax.random.split(key, num), *[theta] * num), "small")
    noise = recovered_noise(x[:, :-1], x[:, 1:], theta)
    earlier = np.concatenate([np.zeros((num, 1, K)), noise[:, :-1]], axis=1)
    shocks = (noise - 0.5 * earlier) / (2.1 * np.sqrt(0.75))

    def furthest(products: np.ndarray, expected: np.ndarray | float) -> float:
        """The largest distance of a mean from what it should be, in standard errors; samples along the first axis."""
        return float(np.abs((products.mean(0) - expected) / (products.std(0) / np.sqrt(len(products)))).max())

    first, later = shocks[:, 0], shocks[:, 1:].reshape(-1, K)
    for sample in (first, later):
        assert furthest(sample, 0.0) < 4.5
        assert furthest(sample[:, :, None] * sample[:, None, :], np.eye(K)) < 4.5
    successive = shocks[:, 1:, :, None] * shocks[:, :-1, None, :]
    assert furthest(successive.reshape(-1, K, K), 0.0) < 4.5
