"""Distances of samples against closed forms, linear programs and loops."""

import jax
import numpy as np
import pytest
from scipy.linalg import sqrtm
from scipy.optimize import linprog
from scipy.stats import norm

import suffice as sf
from suffice.diagnostics import c2st, mean_error, mmd, wasserstein
from suffice.grid import GridPosterior


def transport_by_linear_program(x: np.ndarray, a: np.ndarray, y: np.ndarray, b: np.ndarray) -> float:
    cost = np.sum((x[:, None] - y[None]) ** 2, axis=-1)
    rows = np.kron(np.eye(len(x)), np.ones(len(y)))
    columns = np.kron(np.ones(len(x)), np.eye(len(y)))
    found = linprog(cost.ravel(), A_eq=np.concatenate([rows, columns]), b_eq=np.concatenate([a, b]))
    return float(np.sqrt(found.fun))


def test_wasserstein_of_gaussians() -> None:
    """A monotone linear map is the best transport, of the sample exactly and of the distributions too."""
    generator = np.random.default_rng(0)
    first = np.array([[1.0, 0.4], [0.4, 0.5]])
    matrix, shift = np.array([[1.5, 0.2], [0.2, 0.6]]), np.array([2.0, -1.0])
    x = generator.multivariate_normal(np.zeros(2), first, size=800)
    y = x @ matrix + shift
    value = wasserstein(x, generator.permutation(y))
    np.testing.assert_allclose(value, np.sqrt(np.mean(np.sum((x - y) ** 2, axis=1))), rtol=1e-9)
    second = matrix @ first @ matrix
    root = sqrtm(first)
    closed = np.sqrt(shift @ shift + np.trace(first + second - 2 * np.real(sqrtm(root @ second @ root))))
    assert abs(value - closed) < 0.1
    other = generator.multivariate_normal(shift, second, size=800)
    assert abs(wasserstein(x, other) - closed) < 0.15


@pytest.mark.parametrize("p", [1, 3])
def test_weighted_wasserstein(p: int) -> None:
    generator = np.random.default_rng(p)
    x, y = generator.normal(size=(7, p)), generator.normal(size=(9, p)) + 0.5
    a, b = generator.dirichlet(np.ones(7)), generator.dirichlet(np.ones(9))
    a[2] = 0.0
    a /= a.sum()
    expected = transport_by_linear_program(x, a, y, b)
    np.testing.assert_allclose(wasserstein(x, y, one_weights=5 * a, other_weights=b), expected, rtol=1e-6)
    names = tuple(f"t{i}" for i in range(p))
    one, other = sf.Posterior(x[None], names, a[None]), sf.Posterior(y[None], names, b[None])
    np.testing.assert_allclose(wasserstein(one, other), expected, rtol=1e-6)
    np.testing.assert_allclose(wasserstein(other, one, max_gigabytes=0.0), expected, rtol=1e-6)


def test_wasserstein_of_one_parameter_is_by_rank() -> None:
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=(500, 1)), generator.gamma(2.0, size=(500, 1))
    expected = np.sqrt(np.mean((np.sort(x[:, 0]) - np.sort(y[:, 0])) ** 2))
    np.testing.assert_allclose(wasserstein(x, y), expected, rtol=1e-9)


def test_wasserstein_far_from_zero_and_unfinished() -> None:
    generator = np.random.default_rng(6)
    x, y = generator.normal(size=(50, 2)), generator.normal(size=(40, 2))
    near = wasserstein(x, y)
    np.testing.assert_allclose(wasserstein(x + 1e7, y + 1e7), near, rtol=1e-6)
    for gigabytes in (1.0, 0.0):
        with pytest.raises(RuntimeError, match="max_iterations"):
            wasserstein(x, y, max_iterations=3, max_gigabytes=gigabytes)


def test_mean_error_is_the_distance_of_weighted_means() -> None:
    x, weights = np.array([[0.0, 0.0], [4.0, 8.0]]), np.array([[0.75, 0.25]])
    assert mean_error(sf.Posterior(x[None], ("a", "b"), weights), np.array([[4.0, -2.0]])) == 5.0


def test_c2st_finds_the_accuracy_of_the_best_classifier(key: jax.Array) -> None:
    generator = np.random.default_rng(1)
    number, shift, units = 1000, 2.0, np.array([1e6, 1e-6])
    x, same = generator.normal(size=(2, number, 2))
    shifted = same + np.array([shift, 0.0])
    standard_error = 0.5 / np.sqrt(2 * number)
    assert abs(c2st(key, x * units, same * units) - 0.5) < 3 * standard_error
    accuracy = c2st(key, x * units, shifted * units)
    assert abs(accuracy - norm.cdf(shift / 2)) < 4 * standard_error
    assert c2st(key, x[:50], same[:50]) == c2st(key, x[:50], same[:50])


def test_c2st_uses_weights_and_equal_numbers(key: jax.Array) -> None:
    generator = np.random.default_rng(2)
    wide = generator.normal(size=(1800, 1)) * 2
    weights = np.exp(-0.5 * wide[:, 0] ** 2 * (1 - 1 / 4))
    weighted = sf.Posterior(wide[None], ("a",), (weights / weights.sum())[None])
    narrow = generator.normal(size=(600, 1))
    assert abs(c2st(key, weighted, narrow) - 0.5) < 0.06
    assert c2st(key, wide, narrow) > 0.6


def test_mmd_against_a_loop_and_a_closed_form() -> None:
    generator = np.random.default_rng(3)
    x, y, weights = generator.normal(size=(30, 2)), 3 + generator.normal(size=(20, 2)), generator.dirichlet(np.ones(30))

    def kernel(one: np.ndarray, other: np.ndarray) -> float:
        return float(np.exp(-np.sum((one - other) ** 2) / (2 * 1.3**2)))

    pairs = [(i, j) for i in range(30) for j in range(30) if i != j]
    total = sum(weights[i] * weights[j] for i, j in pairs)
    expected = sum(weights[i] * weights[j] * kernel(x[i], x[j]) for i, j in pairs) / total
    expected += np.mean([kernel(y[i], y[j]) for i in range(20) for j in range(20) if i != j])
    expected -= 2 * sum(weights[i] * np.mean([kernel(x[i], row) for row in y]) for i in range(30))
    value = mmd(sf.Posterior(x[None], ("a", "b"), weights[None]), y, bandwidth=1.3)
    np.testing.assert_allclose(value, expected, atol=2e-6)

    gamma, shift = 1.5, 0.7
    x, y = generator.normal(size=(2, 2000, 2))
    within = gamma**2 / (gamma**2 + 2)
    closed = 2 * within * (1 - np.exp(-(shift**2) / (2 * (gamma**2 + 2))))
    assert abs(mmd(x, y + np.array([shift, 0.0]), bandwidth=gamma) - closed) < 0.01
    assert abs(mmd(x, y)) < 0.003


def test_bad_samples_are_refused(unchecked_types: None) -> None:
    rows = np.zeros((4, 2))
    with pytest.raises(ValueError, match="the other 3"):
        wasserstein(rows, np.zeros((4, 3)))
    with pytest.raises(ValueError, match="not finite"):
        mean_error(rows, np.full((4, 2), np.nan))
    with pytest.raises(ValueError, match="weights of its own"):
        wasserstein(sf.Posterior(rows[None], ("a", "b")), rows, one_weights=np.ones(4))
    grid = GridPosterior(("a", "b"), (np.arange(3.0), np.arange(3.0)), np.full((3, 3), 1 / 9), 0.0)
    for measure in (wasserstein, mean_error):
        with pytest.raises(TypeError, match=r"is a GridPosterior.*draw from it with \.resample"):
            measure(rows, grid)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="all draws the same"):
        mmd(rows, rows)
