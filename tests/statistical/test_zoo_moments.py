"""Simulators of the zoo against the laws they stand for, every error in units of its Monte Carlo standard error."""

from collections.abc import Callable
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import suffice as sf

pytestmark = pytest.mark.usefixtures("optimised")

# Built here, outside of any change of precision, for the zoo keeps its models.
MODELS = {
    "gaussian": sf.zoo.gaussian(),
    "gamma": sf.zoo.gamma(),
    "beta": sf.zoo.beta(),
    "ar2": sf.zoo.ar2(),
    "ma2": sf.zoo.ma2(),
    "lorenz96 small": sf.zoo.lorenz96("small"),
    "lorenz96 large": sf.zoo.lorenz96("large"),
}
BOXES = {
    "gaussian": ((-10.0, 1.0), (10.0, 10.0)),
    "gamma": ((1.0, 1.0), (3.0, 3.0)),
    "beta": ((1.0, 1.0), (3.0, 3.0)),
    "ar2": ((-1.0, -1.0), (1.0, 0.0)),
    "ma2": ((-1.0, 0.0), (1.0, 1.0)),
    "lorenz96 small": ((1.4, 0.0, 1.5, 0.0), (2.2, 1.0, 2.5, 1.0)),
    "lorenz96 large": ((1.4, 0.0, 1.5, 0.0), (2.2, 1.0, 2.5, 1.0)),
}
THETAS = {
    "gaussian": ((-7.0, 1.5), (0.5, 4.0), (9.0, 9.5)),
    "gamma": ((1.0, 2.5), (1.7, 1.2), (2.9, 2.0)),
    "beta": ((1.0, 1.4), (1.2, 2.8), (2.9, 1.6)),
    "ar2": ((0.0, 0.0), (0.7, -0.3), (-0.9, -0.8)),
    "ma2": ((0.0, 0.0), (0.6, 0.2), (-0.9, 0.8)),
}
IID, SERIES = ("gaussian", "gamma", "beta"), ("ar2", "ma2")
CASES = [(name, theta) for name in IID + SERIES for theta in THETAS[name]]
IID_CASES = [case for case in CASES if case[0] in IID]
SERIES_CASES = [case for case in CASES if case[0] in SERIES]
NUM = 6_000
LENGTH = 100
FAR = 4.5  # standard errors


def law(name: str, theta: np.ndarray) -> st.rv_continuous:
    """scipy's distribution of one coordinate of an iid model; θ along the last axis."""
    first, second = np.moveaxis(np.asarray(theta, np.float64), -1, 0)
    return {
        "gaussian": lambda: st.norm(first, second),
        "gamma": lambda: st.gamma(first, scale=second),
        "beta": lambda: st.beta(first, second),
    }[name]()


@cache
def simulator(name: str) -> Callable[[jax.Array, jax.Array], jax.Array]:
    """Compiled once a model: many simulations at one θ."""
    return jax.jit(jax.vmap(MODELS[name].simulator, (0, None)))


@cache
def derivatives(name: str) -> Callable[[np.ndarray, jax.Array], tuple[jax.Array, jax.Array]]:
    """Compiled once a model: gradient and Hessian in θ of the log-likelihood of many x at one θ."""
    log_likelihood = MODELS[name].log_likelihood
    assert log_likelihood is not None
    gradient, hessian = jax.grad(log_likelihood, 1), jax.hessian(log_likelihood, 1)
    return jax.jit(jax.vmap(lambda x, theta: (gradient(x, theta), hessian(x, theta)), (0, None)))


@cache
def simulations(name: str) -> sf.Simulations:
    """Pairs from prior and simulator, as users make them."""
    num = {"lorenz96 small": 2_000, "lorenz96 large": 500}.get(name, NUM)
    return sf.simulate(jax.random.key(20260101), MODELS[name], num, progress=False)


@cache
def conditional_draws(name: str, theta: tuple[float, float]) -> np.ndarray:
    """NUM simulations at one θ."""
    keys = jax.random.split(jax.random.key(sum(map(ord, name))), NUM)
    return np.asarray(simulator(name)(keys, jnp.asarray(theta)), np.float64)


def furthest(samples: np.ndarray, expected: np.ndarray | float = 0.0) -> float:
    """The largest distance of a mean over the rows from its expectation, in standard errors."""
    error = samples.std(0, ddof=1) / np.sqrt(len(samples))
    return float(np.abs((samples.mean(0) - expected) / error).max())


def test_distance_in_standard_errors_notices_a_shift() -> None:
    """The measure of this file: small for the right expectation, large for one that is off by a tenth of a sd."""
    samples = np.random.default_rng(0).normal(3.0, 2.0, (NUM, 5))
    assert furthest(samples, 3.0) < FAR
    assert furthest(samples, 3.2) > 1.5 * FAR


@pytest.mark.parametrize("name", MODELS)
def test_prior_is_uniform_on_the_papers_box(name: str) -> None:
    sims = simulations(name)
    num = len(sims)
    low, high = map(np.array, BOXES[name])
    unit = (sims.theta.astype(np.float64) - low) / (high - low)
    assert sims.num_good == num
    assert sims.x.shape == (num, *MODELS[name].data_shape)
    assert unit.min() > -1e-6
    assert unit.max() < 1.0 + 1e-6
    assert (unit.min(0) < 10.0 / num).all()
    assert (unit.max(0) > 1.0 - 10.0 / num).all()
    assert furthest(unit, 0.5) < FAR
    centred = unit - 0.5
    assert furthest(centred[:, :, None] * centred[:, None, :], np.eye(len(low)) / 12.0) < FAR
    assert all(st.kstest(column, "uniform").pvalue > 1e-3 for column in unit.T)


@pytest.mark.parametrize("name", IID)
def test_simulate_pairs_each_x_with_its_theta(name: str) -> None:
    """Given θ, the mean and variance of x are that θ's: residuals are uncorrelated with every function of θ."""
    sims = simulations(name)
    model_law = law(name, sims.theta)
    low, high = map(np.array, BOXES[name])
    unit = 2.0 * (sims.theta - low) / (high - low) - 1.0
    functions = np.stack([np.ones(NUM), *unit.T, *(unit**2).T, unit.prod(1)], axis=-1)
    residual = (sims.x.astype(np.float64) - model_law.mean()[:, None]) / model_law.std()[:, None]
    assert furthest(residual[:, :, None] * functions[:, None, :]) < FAR
    assert furthest((residual**2 - 1.0)[:, :, None] * functions[:, None, :]) < FAR


@pytest.mark.parametrize("name", SERIES)
def test_simulate_pairs_each_series_with_its_theta(name: str) -> None:
    """The noise that θ takes out of the series is white, and uncorrelated with θ."""
    sims = simulations(name)
    theta1, theta2 = sims.theta.astype(np.float64).T
    x = sims.x.astype(np.float64)
    noise = np.zeros((NUM, LENGTH + 2))  # two zeros before the first value
    past = np.concatenate([np.zeros((NUM, 2)), x], axis=1) if name == "ar2" else noise
    for j in range(LENGTH):
        noise[:, j + 2] = x[:, j] - theta1 * past[:, j + 1] - theta2 * past[:, j]
    noise = noise[:, 2:]
    per_series = np.stack([noise.mean(1), (noise**2).mean(1) - 1.0], axis=-1)
    products = np.stack([(noise[:, lag:] * noise[:, :-lag]).mean(1) for lag in (1, 2, 3)], axis=-1)
    functions = np.stack([np.ones(NUM), theta1, theta2, theta1 * theta2], axis=-1)
    summaries = np.concatenate([per_series, products], axis=-1)
    assert furthest(summaries[:, :, None] * functions[:, None, :]) < FAR


@pytest.mark.parametrize(("name", "theta"), IID_CASES)
def test_iid_moments_at_a_fixed_theta(name: str, theta: tuple[float, float]) -> None:
    x = conditional_draws(name, theta)
    model_law = law(name, np.array(theta))
    standard = (x - model_law.mean()) / model_law.std()
    assert furthest(standard) < FAR
    # Variances on the diagonal, independence of the coordinates off it.
    assert furthest(standard[:, :, None] * standard[:, None, :], np.eye(x.shape[1])) < FAR


@pytest.mark.parametrize(("name", "theta"), IID_CASES)
def test_iid_draws_follow_scipys_law(name: str, theta: tuple[float, float]) -> None:
    draws = conditional_draws(name, theta).ravel()
    assert st.kstest(draws, law(name, np.array(theta)).cdf).pvalue > 1e-3
    moved = law(name, np.array(theta) * np.array([1.1, 1.0]) + np.array([0.1, 0.0]))
    assert st.kstest(draws, moved.cdf).pvalue < 1e-6  # as sharp a test as that


@pytest.mark.parametrize(("name", "theta"), SERIES_CASES)
def test_series_means_and_covariances_at_a_fixed_theta(name: str, theta: tuple[float, float]) -> None:
    x = conditional_draws(name, theta)
    theta1, theta2 = theta
    expected = np.zeros((LENGTH, LENGTH))
    if name == "ma2":
        for j in range(LENGTH):
            expected[j, j] = 1.0 + (theta1**2 if j >= 1 else 0.0) + (theta2**2 if j >= 2 else 0.0)
            if j >= 1:
                expected[j, j - 1] = theta1 + (theta1 * theta2 if j >= 2 else 0.0)
            if j >= 2:
                expected[j, j - 2] = theta2
    else:
        root = np.zeros((LENGTH, LENGTH))  # x = root ξ
        for j in range(LENGTH):
            root[j, j] = 1.0
            if j >= 1:
                root[j] += theta1 * root[j - 1]
            if j >= 2:
                root[j] += theta2 * root[j - 2]
        expected = root @ root.T
    assert furthest(x) < FAR
    for lag in (0, 1, 2, 3):
        theory = np.diagonal(expected, -lag)
        assert furthest(x[:, lag:] * x[:, : LENGTH - lag], theory) < FAR


@pytest.mark.parametrize(("name", "theta"), CASES)
def test_score_identities_tie_simulator_to_likelihood(name: str, theta: tuple[float, float]) -> None:
    """E ∇ log p(x|θ) = 0 and E [∇ log p (∇ log p)ᵀ + ∇² log p] = 0 under x ~ simulator(θ)."""
    x = conditional_draws(name, theta).astype(np.float32)
    scores, hessians = (np.asarray(part, np.float64) for part in derivatives(name)(x, jnp.asarray(theta)))
    assert scores.std(0).min() > 1e-2
    assert furthest(scores) < FAR
    assert furthest(scores[:, :, None] * scores[:, None, :] + hessians) < FAR
