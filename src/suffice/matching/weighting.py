"""θ-weights of score matching: the conditional variance of y given θ, regressed on θ from the training pairs.

The Fisher divergence at θ scales as 1/variance, so an unweighted average is all about the sharpest θ. Any positive
weight w(θ) keeps the minimiser.
"""

import itertools

import numpy as np
from jaxtyping import Float

SPREAD = 100.0  # the largest ratio of a weight to the median weight


def conditional_variance(y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
    """Var(y|θ), averaged over coordinates, at each row of θ: least squares on polynomials of θ, twice.

    First y on θ, for E[y|θ]; then the logarithm of the mean squared residual on θ. What the logarithm's mean is off by
    is a constant factor.
    """
    features = _polynomials(np.asarray(theta, np.float64))
    values = np.asarray(y, np.float64).reshape(len(y), -1)
    residuals = values - _fitted(features, values)
    log_squares = np.log(np.mean(residuals**2, axis=1) + 1e-12)
    log_variance = _fitted(features, log_squares[:, None])[:, 0]
    centred = log_variance - np.median(log_variance)
    return np.exp(np.clip(centred, -np.log(SPREAD), np.log(SPREAD)))


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
