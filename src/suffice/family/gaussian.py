"""The density of statistics given θ, for a regression: s(x) ≈ E[θ|x] as a Gaussian whose moments vary with θ.

Statistics that are smooth sums over many parts of x are nearly Gaussian given θ, whatever x is. With z = T (s − s̄)
their coordinates, in which they have mean 0 and covariance I over all pairs,

    log p(s|θ) = Σᵢ log Wᵢᵢ(v) − ½ ‖W(v) (z − m(v))‖² + const,    W lower triangular,

where m, the entries of W below its diagonal and the logarithms of those on it are polynomials of v, the coordinates of
θ scaled to [−1, 1]. It is an exponential family of (s, s sᵀ) whose normaliser has a closed form, so that `Direct` draws
from posteriors as it does from those of a family; it is an amortised synthetic likelihood (Wood, 2010; Price et al.,
2018), and x may be discrete, because nothing is differentiated in x. The polynomials are fitted by maximum likelihood
to pairs that the network was not trained on, whose residuals are as large as those of new data; their degrees are those
of the highest likelihood in cross-validation.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from suffice.charts import Chart, is_product
from suffice.family.natural import natural_support
from suffice.family.normaliser import MOST_COEFFICIENTS, chebyshev_products, monomials

DEGREES = ((1, 0), (1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (4, 2), (4, 3), (5, 3), (6, 4))  # of m and W, that are tried
ROWS_A_COEFFICIENT = 3  # at the least, each row having as many numbers as there are statistics
FOLDS = 4
RIDGE = 1e-4  # times the squares of what is added to the first coefficients of W, which would otherwise have no bound
SINGULAR = 1e-8  # share of the largest variance below which a direction of s is left out
STEPS = 500  # of L-BFGS, at most


class ConditionalGaussian(eqx.Module):
    """s|θ ~ N(m(θ), (WᵀW)⁻¹(θ)), in coordinates z = T (s − s̄) of the statistics.

    Attributes:
        coordinates: the chart of θ that v is scaled from.
        middle: the coordinates at v = 0.
        reach: half the width of the pairs; beyond it polynomials go on as straight lines.
        centre: s̄.
        whitener: T; it has fewer rows than there are statistics where these depend on each other.
        means: the coefficients of m, a column for each coordinate z.
        factors: those of the entries of W on and below its diagonal, row by row; logarithms on the diagonal.
        degrees: those of m and W.

    Methods act on one θ; vectorise them with `jax.vmap`.
    """

    coordinates: Chart
    middle: Float[Array, " q"]
    reach: Float[Array, " q"]
    centre: Float[Array, " s"]
    whitener: Float[Array, "z s"]
    means: Float[Array, "terms z"]
    factors: Float[Array, "others entries"]
    degrees: tuple[int, int] = eqx.field(static=True)

    def gather(self, statistics: Float[Array, "n s"]) -> Float[Array, " m"]:
        """All that the density of iid replicates knows of them: the mean of z, then Σ (z − z̄)(z − z̄)ᵀ, flat."""
        z = (statistics - self.centre) @ self.whitener.T
        mean = jnp.mean(z, axis=0)
        return jnp.concatenate([mean, ((z - mean).T @ (z - mean)).reshape(-1)])

    def log_density(
        self, gathered: Float[Array, " m"], theta: Float[Array, " p"], number: Float[ArrayLike, ""] | int = 1
    ) -> Float[Array, ""]:
        """Σᵢ log p(sᵢ|θ) of `number` replicates that were gathered, up to a constant.

        That is n Σ log Wᵢᵢ − ½ n ‖W (z̄ − m)‖² − ½ tr(W S Wᵀ), with S the matrix of `gather`.
        """
        mean, factor = self.moments(theta)
        size = len(mean)
        off, scatter = factor @ (gathered[:size] - mean), gathered[size:].reshape(size, size)
        spread = jnp.sum((factor @ scatter) * factor)
        each = jnp.sum(jnp.log(jnp.diagonal(factor))) - 0.5 * off @ off
        return jnp.asarray(number) * each - 0.5 * spread

    def moments(self, theta: Float[Array, " p"]) -> tuple[Float[Array, " z"], Float[Array, "z z"]]:
        """m and W at θ, in the coordinates z."""
        v = (self.coordinates.forward(theta) - self.middle) / self.reach
        degree, other_degree = self.degrees
        mean = self.means.T @ chebyshev_products(v, degree)
        entries = self.factors.T @ chebyshev_products(v, other_degree)
        rows, columns = np.tril_indices(len(mean))
        values = jnp.where(rows == columns, jnp.exp(entries), entries)
        places = np.zeros((len(rows), len(mean), len(mean)))
        places[np.arange(len(rows)), rows, columns] = 1.0
        return mean, jnp.tensordot(values, jnp.asarray(places, mean.dtype), 1)


def fit_gaussian(
    chart: Chart, theta: Float[ArrayLike, "n p"], statistics: Float[ArrayLike, "n s"]
) -> ConditionalGaussian | None:
    """The conditional Gaussian of these statistics, from pairs that they were not trained on; nothing is random.

    None where the pairs are too few for a mean that depends on θ, or the statistics constant.

    Args:
        chart: of θ, on the prior's support. Its own coordinates are used where the parameters do not vary freely of
            each other (a simplex); otherwise those of `natural_support`.
        theta: parameters, one row a pair.
        statistics: those of their data.
    """
    rows, values = np.asarray(theta), np.asarray(statistics, np.float64)
    if not np.any(values.std(0) > 0) or not _affordable(len(rows), rows.shape[1], values.shape[1]):
        return None
    coordinates = chart
    if is_product(chart.support):
        coordinates = Chart.fit(natural_support(chart.support, rows.shape[1]), rows, what="theta")
    u = np.asarray(jax.vmap(coordinates.forward)(jnp.asarray(rows, coordinates.shift.dtype)), np.float64)
    low, high = u.min(0), u.max(0)
    middle, reach = (low + high) / 2, (high - low) / 2
    centre, whitener = values.mean(0), _whitener(values)
    pairs = _Pairs((u - middle) / reach, (values - centre) @ whitener.T)
    with threadpool_limits(1, "blas"):  # the matrices are small: threads of a busy machine only wait for each other
        degrees = _best_degrees(pairs)
        means, factors = _maximum_likelihood(pairs, degrees)
    arrays = (jnp.asarray(part, coordinates.shift.dtype) for part in (middle, reach, centre, whitener, means, factors))
    at, half, mean, linear, first, second = arrays
    return ConditionalGaussian(coordinates, at, half, mean, linear, first, second, degrees=degrees)


class _Pairs(NamedTuple):
    """Scaled coordinates of θ, and coordinates z of the statistics."""

    v: Float[np.ndarray, "n q"]
    z: Float[np.ndarray, "n z"]

    def rows(self, chosen: np.ndarray) -> "_Pairs":
        return _Pairs(self.v[chosen], self.z[chosen])


def _whitener(values: Float[np.ndarray, "n s"]) -> Float[np.ndarray, "z s"]:
    """T with T Cov Tᵀ = I, over the directions in which the statistics vary; triangular where they vary in all.

    Statistics are held against each other in units of their own spread, since they have the units of θ.
    """
    spread = values.std(0)
    scale = np.where(spread > 0, spread, 1.0)
    correlation = np.atleast_2d(np.cov(values / scale, rowvar=False))
    variances, axes = np.linalg.eigh(correlation)
    kept = variances > SINGULAR * max(variances.max(), 1e-300)
    if kept.all():
        return np.asarray(np.linalg.inv(np.linalg.cholesky(correlation))) / scale
    return axes[:, kept].T / np.sqrt(variances[kept])[:, None] / scale


def _affordable(n: int, q: int, size: int) -> list[tuple[int, int]]:
    """The degrees that n pairs of q coordinates and `size` statistics allow; none where not even the lowest."""

    def coefficients(degrees: tuple[int, int]) -> int:
        numbers = (size, size * (size + 1) // 2)
        return sum(number * math.comb(q + degree, q) for number, degree in zip(numbers, degrees, strict=True))

    most = n * size / ROWS_A_COEFFICIENT
    limits = [most if degrees == DEGREES[0] else min(most, MOST_COEFFICIENTS) for degrees in DEGREES]
    return [degrees for degrees, limit in zip(DEGREES, limits, strict=True) if coefficients(degrees) <= limit]


def _best_degrees(pairs: _Pairs) -> tuple[int, int]:
    """The degrees whose likelihood is highest in cross-validation."""
    n = len(pairs.v)
    tried = _affordable(n, pairs.v.shape[1], pairs.z.shape[1])
    if len(tried) < 2:
        return tried[0]
    fold = np.arange(n) % FOLDS
    losses = np.zeros((len(tried), FOLDS))
    for place, degrees in enumerate(tried):
        for part in range(FOLDS):
            found = _maximum_likelihood(pairs.rows(fold != part), degrees)
            losses[place, part] = _loss(pairs.rows(fold == part), degrees, found)
    return tried[int(np.argmin(losses.mean(1)))]


def _maximum_likelihood(pairs: _Pairs, degrees: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """The coefficients of m and W, from least squares and the covariance of its residuals on."""
    terms, others = (_terms(pairs.v, degree) for degree in degrees)
    size = pairs.z.shape[1]
    means = np.linalg.lstsq(terms, pairs.z, rcond=1e-10)[0]
    residuals = pairs.z - terms @ means
    floor = 1e-8 * np.eye(size)
    factor = np.linalg.inv(np.linalg.cholesky(residuals.T @ residuals / len(residuals) + floor))
    factors = np.zeros((others.shape[1], size * (size + 1) // 2))
    rows, columns = np.tril_indices(size)
    diagonal = rows == columns
    factors[0] = np.where(diagonal, np.log(np.maximum(factor, 1e-300))[rows, columns], factor[rows, columns])
    sizes = (1.0 / np.diag(factor), np.where(diagonal, 1.0, np.abs(np.diag(factor))[rows]))  # steps in natural units

    def unpacked(flat: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = flat[: means.size].reshape(means.shape), flat[means.size :].reshape(factors.shape)
        return means + first * sizes[0], factors + second * sizes[1]

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        value, of_means, of_factors = _loss_and_gradient(terms, others, pairs.z, *unpacked(flat))
        second = flat[means.size :]
        gradient = np.concatenate([(of_means * sizes[0]).reshape(-1), (of_factors * sizes[1]).reshape(-1)])
        gradient[means.size :] += 2.0 * RIDGE * second
        return value + RIDGE * float(second @ second), gradient

    start = np.zeros(means.size + factors.size)
    return unpacked(minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x)


def _loss(pairs: _Pairs, degrees: tuple[int, int], found: tuple[np.ndarray, np.ndarray]) -> float:
    """Minus the mean log-likelihood, up to a constant."""
    terms, others = (_terms(pairs.v, degree) for degree in degrees)
    return _loss_and_gradient(terms, others, pairs.z, *found)[0]


def _loss_and_gradient(
    terms: Float[np.ndarray, "n terms"],
    others: Float[np.ndarray, "n others"],
    z: Float[np.ndarray, "n z"],
    means: Float[np.ndarray, "terms z"],
    factors: Float[np.ndarray, "others entries"],
) -> tuple[float, np.ndarray, np.ndarray]:
    """Minus the mean log-likelihood and its gradients, with ε = W (z − m) of every row."""
    n, size = z.shape
    rows, columns = np.tril_indices(size)
    diagonal = rows == columns
    entries = others @ factors
    entries[:, diagonal] = np.exp(np.minimum(entries[:, diagonal], 50.0))
    factor = np.zeros((n, size, size))
    factor[:, rows, columns] = entries
    off = z - terms @ means
    noise = np.einsum("nij,nj->ni", factor, off)
    value = 0.5 * np.sum(noise**2) - np.sum(np.log(entries[:, diagonal]))
    of_entries = noise[:, rows] * off[:, columns]
    of_entries[:, diagonal] = of_entries[:, diagonal] * entries[:, diagonal] - 1.0
    of_means = -terms.T @ np.einsum("nij,ni->nj", factor, noise)
    return float(value) / n, of_means / n, others.T @ of_entries / n


def _terms(v: Float[np.ndarray, "n q"], degree: int) -> Float[np.ndarray, "n terms"]:
    """`chebyshev_products` of every row, in double precision."""
    exponents: Int[np.ndarray, "terms q"] = monomials(v.shape[1], degree)
    inside = np.clip(v, -1.0, 1.0)
    angles = np.arccos(inside)
    orders = np.arange(degree + 1)[:, None, None]
    signs = np.where((orders % 2 == 0) & (v < 0), -1.0, 1.0)
    table = np.cos(orders * angles) + orders**2 * signs * (v - inside)
    return np.prod(table[exponents, :, np.arange(v.shape[1])], axis=1).T
