"""θ-weights of score matching: how sharp the density of y given θ is, regressed on θ from the training pairs.

The Fisher divergence at θ scales as the precision of y, so an unweighted average is all about the sharpest θ. Any
positive weight w(θ) keeps the minimiser. Where coordinates are independent given θ, the precision is 1/variance; where
they depend on each other, a density can be sharp along some direction in which no single coordinate is.
"""

import itertools

import numpy as np
from jaxtyping import Float, Int

SPREAD = 100.0  # the largest ratio of a weight to the median weight
DEPENDENT = 1.3  # precision over the sum of 1/variance, from which coordinates count as dependent
BLOCK = 50  # coordinates whose covariance is taken together


def conditional_variance(y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Var(y|θ), averaged over coordinates, at each row of θ: least squares on polynomials of θ, twice.

    First y on θ, for E[y|θ]; then the logarithm of the mean squared residual on θ. What the logarithm's mean is off by
    is a constant factor.
    """
    features, residuals = _residuals(y, theta)
    return _centred(_fitted(features, np.log(np.mean(residuals**2, axis=1) + 1e-12)[:, None])[:, 0])


def conditional_precision(y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """1/(tr Cov(y|θ)⁻¹/d)^1.5 at each row of θ, from covariances of neighbours in θ, regressed on θ.

    Covariances are taken of up to 50 successive coordinates at a time. The power was measured to be better than 1.
    """
    features, residuals = _residuals(y, theta)
    precision = np.empty(len(residuals))
    for rows, blocks in _neighbours(residuals, theta):
        precision[rows] = sum(_trace_of_inverse(block) for block in blocks)
    return _centred(-1.5 * _fitted(features, np.log(precision)[:, None])[:, 0])


def dependent(y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]) -> bool:
    """Whether coordinates depend on each other given θ so much that a density is sharper than its margins."""
    _, residuals = _residuals(y, theta)
    ratios = [
        sum(_trace_of_inverse(block) for block in blocks) / sum(np.sum(1.0 / np.mean(block**2, 0)) for block in blocks)
        for _, blocks in _neighbours(residuals, theta)
    ]
    return bool(np.median(ratios) > DEPENDENT)


def _neighbours(residuals: np.ndarray, theta: np.ndarray) -> list[tuple[np.ndarray, list[np.ndarray]]]:
    """Groups of rows that are neighbours in θ, and their residuals in blocks of coordinates."""
    number = residuals.shape[1]
    firsts = range(0, number, BLOCK)
    cells = _cells(np.asarray(theta, np.float64), max(3 * min(BLOCK, number), 50))
    return [(rows, [residuals[rows, first : first + BLOCK] for first in firsts]) for rows in cells]


def _trace_of_inverse(rows: Float[np.ndarray, "n k"]) -> float:
    """tr Cov⁻¹, freed of the bias that the inverse of an estimated covariance has."""
    n, k = rows.shape
    covariance = rows.T @ rows / n
    covariance += 1e-6 * np.trace(covariance) / k * np.eye(k)
    return float(np.trace(np.linalg.inv(covariance)) * max(n - k - 1, 1) / n)


def _cells(theta: Float[np.ndarray, "n p"], size: int) -> list[Int[np.ndarray, " rows"]]:
    """Rows in groups of neighbours of at least `size`: halved along the widest coordinate while that leaves enough."""
    scaled = (theta - theta.mean(0)) / theta.std(0)
    cells, waiting = [], [np.arange(len(theta))]
    while waiting:
        rows = waiting.pop()
        if len(rows) < 2 * size:
            cells.append(rows)
            continue
        widest = np.argmax(np.ptp(scaled[rows], axis=0))
        ordered = rows[np.argsort(scaled[rows, widest])]
        waiting += [ordered[: len(rows) // 2], ordered[len(rows) // 2 :]]
    return cells


def _residuals(y: np.ndarray, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Polynomials of θ, and y less its regression on them."""
    features = _polynomials(np.asarray(theta, np.float64))
    values = np.asarray(y, np.float64).reshape(len(y), -1)
    return features, values - _fitted(features, values)


def _centred(logarithms: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Weights of median 1, within bounds."""
    return np.exp(np.clip(logarithms - np.median(logarithms), -np.log(SPREAD), np.log(SPREAD)))


def _polynomials(theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, "n features"]:
    """All monomials of standardised θ, of the highest degree up to 4 that keeps rows well above features."""
    n, p = theta.shape
    scaled = (theta - theta.mean(0)) / theta.std(0)
    columns = [np.ones(n)]
    for degree in range(1, 5):
        products = list(itertools.combinations_with_replacement(range(p), degree))
        if 20 * (len(columns) + len(products)) > n:
            break
        columns += [np.prod(scaled[:, list(product)], axis=1) for product in products]
    return np.stack(columns, axis=1)


def _fitted(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    coefficients, *_ = np.linalg.lstsq(features, targets, rcond=1e-8)
    return features @ coefficients
