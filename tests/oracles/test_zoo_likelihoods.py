"""Likelihoods of the zoo against scipy and dense covariances, compiled and vectorised as the library uses them."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import cache

import jax
import numpy as np
import pytest
import scipy.stats as st
from scipy.signal import lfilter
from scipy.special import digamma, polygamma
from statsmodels.tsa.arima_process import arma_generate_sample

import suffice as sf

# Built here, outside of any change of precision, for the zoo keeps its models.
MODELS = {
    "gaussian": sf.zoo.gaussian(),
    "gamma": sf.zoo.gamma(),
    "beta": sf.zoo.beta(),
    "ar2": sf.zoo.ar2(),
    "ma2": sf.zoo.ma2(),
}
BOXES = {
    "gaussian": ((-10.0, 10.0), (1.0, 10.0)),
    "gamma": ((1.0, 3.0), (1.0, 3.0)),
    "beta": ((1.0, 3.0), (1.0, 3.0)),
    "ar2": ((-1.0, 1.0), (-1.0, 0.0)),
    "ma2": ((-1.0, 1.0), (0.0, 1.0)),
}
IID = ("gaussian", "gamma", "beta")
SERIES = ("ar2", "ma2")
LENGTH = 100
# The library computes in float32: a float64 run shows that the formula is right, a float32 run that it is usable.
PRECISIONS = {"float32": (1e-5, 3e-4), "float64": (1e-11, 1e-9)}  # relative and absolute tolerance


@pytest.fixture(params=PRECISIONS)
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    with jax.enable_x64(True) if request.param == "float64" else nullcontext():
        yield request.param


def theta_grid(name: str, nodes: int) -> np.ndarray:
    """A grid over the prior's box, edges included, exact in float32 so that both sides see the same numbers."""
    axes = [np.linspace(low, high, nodes) for low, high in BOXES[name]]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    return grid.astype(np.float32).astype(np.float64)


def data(name: str, rows: int) -> np.ndarray:
    """Data from all over the model's range and no simulator of the library, exact in float32."""
    rng = np.random.default_rng(7)
    spread = np.linspace(0.5, 2.0, rows)[:, None]
    x = {
        "gaussian": lambda: 8.0 * rng.normal(size=(rows, 1)) + 5.0 * spread * rng.normal(size=(rows, 10)),
        "gamma": lambda: rng.gamma(2.0, spread, (rows, 10)),
        "beta": lambda: rng.beta(spread, 1.5, (rows, 10)).clip(1e-4, 1.0 - 1e-4),
        "ar2": lambda: spread * rng.normal(size=(rows, LENGTH)),
        "ma2": lambda: spread * rng.normal(size=(rows, LENGTH)),
    }[name]()
    return x.astype(np.float32).astype(np.float64)


def dense_root(name: str, theta: np.ndarray) -> np.ndarray:
    """The matrix A in x = A ξ, row by row from the definitions of the paper: x itself enters AR(2), ξ enters MA(2)."""
    noise = np.eye(LENGTH)
    root = np.zeros((LENGTH, LENGTH))
    past = root if name == "ar2" else noise
    for j in range(LENGTH):
        root[j] = noise[j]
        if j >= 1:
            root[j] += theta[0] * past[j - 1]
        if j >= 2:
            root[j] += theta[1] * past[j - 2]
    return root


def moving_average_covariance(theta: np.ndarray) -> np.ndarray:
    """The covariance of MA(2) that starts from nothing, as the reference code writes it."""
    theta1, theta2 = theta
    diagonal = np.full(LENGTH, 1.0 + theta1**2 + theta2**2)
    diagonal[:2] = 1.0, 1.0 + theta1**2
    first = np.full(LENGTH - 1, theta1 * (1.0 + theta2))
    first[0] = theta1
    second = np.full(LENGTH - 2, theta2)
    upper = np.diag(first, 1) + np.diag(second, 2)
    return np.diag(diagonal) + upper + upper.T


@cache
def dense_oracle(name: str, rows: int, nodes: int) -> np.ndarray:
    """scipy's log-density of a Gaussian with the whole covariance, of the rows of `data` on a grid of `nodes`²."""
    x, theta = data(name, rows), theta_grid(name, nodes)
    columns = []
    for t in theta:
        root = dense_root(name, t)
        covariance = root @ root.T if name == "ar2" else moving_average_covariance(t)
        columns.append(st.multivariate_normal.logpdf(x, np.zeros(LENGTH), covariance))
    return np.stack(columns, axis=-1)


def conditional_normals(x: np.ndarray, theta: np.ndarray) -> float:
    """The likelihood of AR(2), one value after another."""
    total = 0.0
    for j in range(LENGTH):
        mean = 0.0
        if j >= 1:
            mean += theta[0] * x[j - 1]
        if j >= 2:
            mean += theta[1] * x[j - 2]
        total += -0.5 * np.log(2.0 * np.pi) - 0.5 * (x[j] - mean) ** 2
    return total


IID_ORACLES: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "gaussian": lambda x, theta: st.norm.logpdf(x, loc=theta[0], scale=theta[1]),
    "gamma": lambda x, theta: st.gamma.logpdf(x, theta[0], scale=theta[1]),
    "beta": lambda x, theta: st.beta.logpdf(x, theta[0], theta[1]),
}


def iid_oracle(name: str, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    return np.array([[IID_ORACLES[name](row, t).sum() for t in theta] for row in x])


def compiled(name: str, x: np.ndarray, theta: np.ndarray) -> np.ndarray:
    """The library's log-likelihood of every x at every θ, in one compiled and vectorised call."""
    log_likelihood = MODELS[name].log_likelihood
    assert log_likelihood is not None
    over_theta = jax.vmap(log_likelihood, (None, 0))
    return np.asarray(jax.jit(jax.vmap(over_theta, (0, None)))(*map(jax.numpy.asarray, (x, theta))))


@pytest.mark.parametrize("name", IID)
def test_iid_likelihood_is_scipys(name: str, precision: str) -> None:
    x, theta = data(name, 4), theta_grid(name, 21)
    rtol, atol = PRECISIONS[precision]
    result = compiled(name, x, theta)
    assert result.dtype == precision
    np.testing.assert_allclose(result, iid_oracle(name, x, theta), rtol=rtol, atol=atol)


@pytest.mark.parametrize("name", SERIES)
def test_series_likelihood_is_that_of_a_dense_gaussian(name: str, precision: str) -> None:
    nodes = {"ar2": 4, "ma2": 7}[name]
    x, theta = data(name, 3), theta_grid(name, nodes)
    rtol, atol = PRECISIONS[precision]
    # scipy's own eigenvalue decomposition is the less exact side where the covariance is ill-conditioned.
    np.testing.assert_allclose(
        compiled(name, x, theta), dense_oracle(name, 3, nodes), rtol=max(rtol, 1e-9), atol=max(atol, 1e-7)
    )


def test_autoregressive_likelihood_is_a_product_of_conditional_normals(precision: str) -> None:
    x, theta = data("ar2", 3), theta_grid("ar2", 21)
    rtol, atol = PRECISIONS[precision]
    expected = [[conditional_normals(row, t) for t in theta] for row in x]
    np.testing.assert_allclose(compiled("ar2", x, theta), expected, rtol=rtol, atol=atol)


def test_moving_average_likelihood_is_that_of_the_noise_it_filters(precision: str) -> None:
    """On a finer grid than a dense covariance allows: ξ from scipy's inverse filter, of determinant one."""
    x, theta = data("ma2", 3), theta_grid("ma2", 21)
    rtol, atol = PRECISIONS[precision]
    expected = [[st.norm.logpdf(lfilter([1.0], [1.0, *t], row)).sum() for t in theta] for row in x]
    np.testing.assert_allclose(compiled("ma2", x, theta), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("theta", theta_grid("ma2", 3))
def test_the_two_ways_to_write_the_moving_average_covariance_agree(theta: np.ndarray) -> None:
    root = dense_root("ma2", theta)
    np.testing.assert_allclose(root @ root.T, moving_average_covariance(theta), atol=1e-12)


@pytest.mark.parametrize("name", SERIES)
@pytest.mark.parametrize("corner", range(5))
def test_series_simulator_is_a_filter_of_its_noise(name: str, corner: int, key: jax.Array, float64: None) -> None:
    """The reference's definition: statsmodels' filter from a zero state, without burn-in."""
    theta = (*theta_grid(name, 2), np.array([0.3, -0.4 if name == "ar2" else 0.4]))[corner]
    noise = np.asarray(jax.random.normal(key, (LENGTH,)))
    assert noise.dtype == np.float64
    ar = np.array([1.0, -theta[0], -theta[1]]) if name == "ar2" else np.array([1.0])
    ma = np.array([1.0, theta[0], theta[1]]) if name == "ma2" else np.array([1.0])
    x = np.asarray(MODELS[name].simulator(key, jax.numpy.asarray(theta)))
    np.testing.assert_allclose(x, arma_generate_sample(ar, ma, LENGTH, distrvs=lambda size: noise), atol=1e-11)
    np.testing.assert_allclose(x, lfilter(ma, ar, noise), atol=1e-11)
    np.testing.assert_allclose(x, dense_root(name, theta) @ noise, atol=1e-11)


def exact_derivatives(name: str, x: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and Hessian in θ of the log-likelihood of x, by calculus."""
    first, second = theta
    n = len(x)
    if name == "gaussian":
        z = (x - first) / second
        gradient = [z.sum() / second, (z * z - 1.0).sum() / second]
        cross = -2.0 * z.sum() / second**2
        hessian = [[-n / second**2, cross], [cross, (1.0 - 3.0 * z * z).sum() / second**2]]
    elif name == "gamma":
        gradient = [(np.log(x / second) - digamma(first)).sum(), (x / second - first).sum() / second]
        hessian = [
            [-n * polygamma(1, first), -n / second],
            [-n / second, n * first / second**2 - 2.0 * x.sum() / second**3],
        ]
    else:
        both = digamma(first + second)
        gradient = [(np.log(x) - digamma(first) + both).sum(), (np.log1p(-x) - digamma(second) + both).sum()]
        shared = n * polygamma(1, first + second)
        hessian = [[shared - n * polygamma(1, first), shared], [shared, shared - n * polygamma(1, second)]]
    return np.array(gradient), np.array(hessian)


@pytest.mark.parametrize("name", IID)
@pytest.mark.parametrize("where", ["off the diagonal", "on the diagonal"])
def test_derivatives_of_the_likelihood(name: str, where: str, float64: None) -> None:
    """θ₁ = θ₂ by itself: special functions of two arguments may treat them as smaller and larger."""
    log_likelihood = MODELS[name].log_likelihood
    assert log_likelihood is not None
    x, theta = data(name, 1)[0], theta_grid(name, 5)
    if where == "on the diagonal":
        theta = np.repeat(np.linspace(1.0, 3.0, 5)[:, None], 2, axis=1)
    else:
        theta = theta[theta[:, 0] != theta[:, 1]]
    data_x = jax.numpy.asarray(x)
    gradient, hessian = jax.grad(log_likelihood, 1), jax.hessian(log_likelihood, 1)
    both = jax.jit(jax.vmap(lambda t: (gradient(data_x, t), hessian(data_x, t))))(theta)
    expected = [np.stack(parts) for parts in zip(*(exact_derivatives(name, x, t) for t in theta), strict=True)]
    np.testing.assert_allclose(both[0], expected[0], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(both[1], expected[1], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", IID)
def test_statistics_and_natural_parameters_are_those_of_the_likelihood(name: str, float64: None) -> None:
    """log p(x|θ) − η(θ)·f(x) = a(θ) + b(x): its double differences vanish. The likelihood is scipy's."""
    model, x, theta = MODELS[name], data(name, 6), theta_grid(name, 9)
    assert model.sufficient_statistics is not None
    assert model.natural_parameters is not None
    statistics = np.asarray(jax.jit(jax.vmap(model.sufficient_statistics))(x))
    natural = np.asarray(jax.jit(jax.vmap(model.natural_parameters))(theta))
    likelihood = iid_oracle(name, x, theta)
    remainder = likelihood - statistics @ natural.T
    double = remainder - remainder[:1] - remainder[:, :1] + remainder[0, 0]
    np.testing.assert_allclose(double, 0.0, atol=1e-8)
    untouched = likelihood - likelihood[:1] - likelihood[:, :1] + likelihood[0, 0]
    assert np.abs(untouched).max() > 1.0  # so that the check above has something to take away


@pytest.mark.parametrize("name", IID)
def test_statistics_are_the_papers(name: str, float64: None) -> None:
    statistics = MODELS[name].sufficient_statistics
    assert statistics is not None
    x = data(name, 3)
    expected = {
        "gaussian": lambda: (x.sum(1), (x * x).sum(1)),
        "gamma": lambda: (np.log(x).sum(1), x.sum(1)),
        "beta": lambda: (np.log(x).sum(1), np.log(1.0 - x).sum(1)),
    }[name]()
    np.testing.assert_allclose(jax.jit(jax.vmap(statistics))(x), np.stack(expected, axis=-1), rtol=1e-12)


@pytest.mark.parametrize("name", IID)
def test_natural_parameters_are_the_papers(name: str, float64: None) -> None:
    """For the Gaussian −1/(2σ²), where the reference code has −1/(2σ)."""
    natural = MODELS[name].natural_parameters
    assert natural is not None
    theta = theta_grid(name, 9)
    first, second = theta.T
    expected = {
        "gaussian": lambda: (first / second**2, -1.0 / (2.0 * second**2)),
        "gamma": lambda: (first - 1.0, -1.0 / second),
        "beta": lambda: (first - 1.0, second - 1.0),
    }[name]()
    np.testing.assert_allclose(jax.jit(jax.vmap(natural))(theta), np.stack(expected, axis=-1), rtol=1e-14, atol=1e-15)
