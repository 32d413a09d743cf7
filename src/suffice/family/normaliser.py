"""The amortised normaliser A(θ) ≈ log Z(θ) + const of a fitted family, by least squares of its gradient.

The score of a right family has mean zero at every θ, E[∇ log p(y|θ) | θ] = 0, so that ∇A(θ) = E[J_η(θ)ᵀ f(y) | θ]: the
training pairs (θⱼ, yⱼ) give noisy gradients J_η(θⱼ)ᵀ f(yⱼ) of A. As ∇A = J_ηᵀ m with m(θ) = E[f(y)|θ], integration by
parts gives A = η·m − ∫ η·dm: where m is smooth, polynomials P and Q hold A, however steep η is,

    A(θ) = η(θ)·(f̄ + P(v)) + Q(v),    v the coordinates of θ, scaled to [−1, 1] over the training pairs.

∇A is linear in the coefficients of P and Q, so that they solve one linear system. Its rows are weighted by the inverse
of the conditional covariance of the score, the Fisher information (generalised least squares), which makes the fit the
same in all coordinates; the degrees are those of the least error on held-out pairs.
"""

import itertools
import math
from functools import lru_cache
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, Int

from suffice.charts import Chart, is_product
from suffice.family.exponential import ExponentialFamily
from suffice.family.natural import Natural
from suffice.family.regression import Regression

DEGREES = ((1, 0), (2, 0), (2, 1), (3, 1), (4, 1), (4, 2), (6, 2), (6, 3))  # of Q and P, that are tried
MOST_COEFFICIENTS = 600  # of Q and P together
ROWS_A_COEFFICIENT = 20  # at the least
RIDGE = 1e-6  # added to the Gram matrix of features scaled to 1
CHUNK = 1000  # rows whose features are held at a time
LOG_CHI_SQUARED = -1.27  # the mean of log χ², one degree of freedom


class Normaliser(eqx.Module):
    """A(θ) = η(θ)·(f̄ + P(v)) + Q(v), which is log Z(θ) up to a constant.

    Attributes:
        natural: η; that of the family, unless it was refined.
        coordinates: the chart of θ that v is scaled from.
        middle: the coordinates at v = 0.
        reach: half the width of the training pairs; beyond it the terms of P and Q go on as straight lines.
        centre: f̄, the mean statistics of the training pairs.
        polynomial: the coefficients of Q, which has no constant.
        multipliers: the coefficients of P, a column for each statistic.
        degrees: those of Q and P.

    Methods act on one θ; vectorise them with `jax.vmap`.
    """

    natural: Natural
    coordinates: Chart
    middle: Float[Array, " q"]
    reach: Float[Array, " q"]
    centre: Float[Array, " s"]
    polynomial: Float[Array, " terms"]
    multipliers: Float[Array, "others s"]
    degrees: tuple[int, int] = eqx.field(static=True)

    def __call__(self, theta: Float[Array, " p"]) -> Float[Array, ""]:
        """A(θ)."""
        return -self.log_density(jnp.zeros_like(self.centre), theta)

    def gather(self, statistics: Float[Array, "n s"]) -> Float[Array, " s"]:
        """All that the density of iid replicates knows of them: Σᵢ f(yᵢ)."""
        return jnp.sum(statistics, axis=0)

    def log_density(
        self, statistics: Float[Array, " s"], theta: Float[Array, " p"], number: Float[ArrayLike, ""] | int = 1
    ) -> Float[Array, ""]:
        """η(θ)·f − n A(θ), without the loss of digits that a large f̄ would bring.

        `statistics` is f(y) of one y, or what `gather` makes of iid replicates, Σᵢ f(yᵢ); n, their number, is `number`.
        """
        eta, constant = self.parts(theta)
        return eta @ (statistics - number * self.centre) - number * constant

    def parts(self, theta: Float[Array, " p"]) -> tuple[Float[Array, " s"], Float[Array, ""]]:
        """η(θ), and A(θ) − η(θ)·f̄."""
        v = (self.coordinates.forward(theta) - self.middle) / self.reach
        eta, (degree, other_degree) = self.natural(theta), self.degrees
        shift = self.multipliers.T @ chebyshev_products(v, other_degree)
        return eta, eta @ shift + self.polynomial @ chebyshev_products(v, degree)[1:]


def fit_normaliser(
    family: ExponentialFamily,
    chart: Chart,
    theta: Float[ArrayLike, "n p"],
    y: Float[ArrayLike, "n ..."],
    held_out_theta: Float[ArrayLike, "m p"],
    held_out_y: Float[ArrayLike, "m ..."],
) -> Normaliser:
    """The normaliser of a fitted `family`, from training pairs; nothing is random.

    Args:
        family: gives f and η.
        chart: of θ, on the prior's support. Its own coordinates are used where the parameters do not vary freely of
            each other (a simplex); otherwise those that η's network sees, which are finite at the prior's edge.
        theta: parameters, one row a pair.
        y: data, in the coordinates of the family's chart.
        held_out_theta: parameters of the pairs that choose the degrees.
        held_out_y: their data.
    """
    num = len(np.asarray(theta))
    rows = np.concatenate([np.asarray(theta), np.asarray(held_out_theta)])
    statistics = statistics_of_rows(family, np.concatenate([np.asarray(y), np.asarray(held_out_y)]))
    coordinates = family.natural.chart if is_product(chart.support) else chart
    u = np.asarray(jax.vmap(coordinates.forward)(jnp.asarray(rows, coordinates.shift.dtype)), np.float64)
    low, high = u[:num].min(0), u[:num].max(0)
    tried = _affordable(num, u.shape[1], statistics.shape[1])
    basis = _Basis(family.natural, coordinates, (low + high) / 2, (high - low) / 2, tried[-1])
    centre = statistics[:num].mean(0)
    pairs = _Pairs((u - basis.middle) / basis.reach, statistics - centre, num)

    alike = np.broadcast_to(np.eye(u.shape[1]), (len(u), u.shape[1], u.shape[1]))
    residuals = _residuals(basis, pairs, _solve(basis, pairs, alike, tried)[1])
    degrees, coefficients = _solve(basis, pairs, _precision(pairs, residuals), tried)
    return basis.normaliser(centre, degrees, coefficients)


@lru_cache(maxsize=64)
def monomials(q: int, degree: int) -> Int[np.ndarray, "terms q"]:
    """The exponents of all monomials of q variables up to `degree`, by rising degree, the constant first.

    >>> monomials(2, 2).tolist()
    [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
    """
    chosen = [
        product for total in range(degree + 1) for product in itertools.combinations_with_replacement(range(q), total)
    ]
    counts = [[product.count(i) for i in range(q)] for product in chosen]
    return np.array(counts, np.int32)  # of one width: JAX remembers the width it gave a wider array, whatever its own


def chebyshev_products(v: Float[Array, " q"], degree: int) -> Float[Array, " terms"]:
    """Πᵢ T_{kᵢ}(vᵢ) for each row k of `monomials(q, degree)`; beyond ±1 every T_k goes on as its tangent.

    >>> chebyshev_products(jnp.array([0.5, 2.0]), 2).tolist()
    [1.0, 0.5, 2.0, -0.5, 1.0, 5.0]
    """
    exponents = monomials(len(v), degree)
    inside = jnp.clip(v, -1.0, 1.0)
    table = [jnp.ones_like(v), inside]
    for _ in range(degree - 1):
        table.append(2.0 * inside * table[-1] - table[-2])
    orders = jnp.arange(len(table), dtype=v.dtype)[:, None]
    slopes = orders**2 * jnp.where((orders % 2 == 0) & (v < 0), -1.0, 1.0)
    extended = jnp.stack(table) + slopes * (v - inside)
    return jnp.prod(extended[exponents, np.arange(len(v))], axis=1)


class _Basis(eqx.Module):
    """The terms of A that the coefficients multiply: those of Q, then those of P, each by rising degree."""

    natural: Natural
    coordinates: Chart
    middle: Float[np.ndarray, " q"]
    reach: Float[np.ndarray, " q"]
    degrees: tuple[int, int] = eqx.field(static=True)

    def terms(self, v: Float[Array, " q"]) -> tuple[Float[Array, " terms"], Float[Array, " s"]]:
        """The terms at v, and η."""
        eta = self.natural(self.coordinates.inverse(v * self.reach + self.middle))
        own, others = (chebyshev_products(v, degree) for degree in self.degrees)
        return jnp.concatenate([own[1:], jnp.outer(others, eta).reshape(-1)]), eta

    def columns(self, degrees: tuple[int, int]) -> Int[np.ndarray, " columns"]:
        """Which of the terms a normaliser of these degrees has."""
        q, s = len(self.middle), len(self.natural.mean)
        most, own, others = (len(monomials(q, degree)) for degree in (self.degrees[0], *degrees))
        return np.concatenate([np.arange(own - 1), most - 1 + np.arange(s * others)])

    def normaliser(
        self, centre: Float[np.ndarray, " s"], degrees: tuple[int, int], coefficients: Float[np.ndarray, " terms"]
    ) -> Normaliser:
        """The normaliser with these coefficients of all terms."""
        chosen = coefficients[self.columns(degrees)]
        own = len(monomials(len(self.middle), degrees[0])) - 1
        parts = (self.middle, self.reach, centre, chosen[:own], chosen[own:].reshape(-1, len(centre)))
        middle, reach, centres, polynomial, multipliers = (jnp.asarray(part, self.natural.mean.dtype) for part in parts)
        return Normaliser(
            self.natural, self.coordinates, middle, reach, centres, polynomial, multipliers, degrees=degrees
        )


class _Pairs(NamedTuple):
    """Scaled coordinates of θ and centred statistics; the first `num` rows are for training, the rest held out."""

    v: Float[np.ndarray, "n q"]
    statistics: Float[np.ndarray, "n s"]
    num: int


def _affordable(num: int, q: int, num_statistics: int) -> list[tuple[int, int]]:
    """The degrees to try: those of few coefficients against the rows; the lowest in any case."""

    def size(degrees: tuple[int, int]) -> int:
        own, others = (math.comb(q + degree, q) for degree in degrees)
        return own - 1 + num_statistics * others

    most = min(MOST_COEFFICIENTS, num * q / ROWS_A_COEFFICIENT)
    return [DEGREES[0], *(degrees for degrees in DEGREES[1:] if size(degrees) <= most)]


def _solve(
    basis: _Basis, pairs: _Pairs, weights: Float[np.ndarray, "n q q"], tried: list[tuple[int, int]]
) -> tuple[tuple[int, int], Float[np.ndarray, " terms"]]:
    """The degrees, and their coefficients, of the least weighted error on held-out rows."""
    gram, moment = _normal_equations(basis, pairs, weights, slice(pairs.num))
    held_out_gram, held_out_moment = _normal_equations(basis, pairs, weights, slice(pairs.num, None))
    candidates, errors = [], []
    for degrees in tried:
        columns = basis.columns(degrees)
        part = gram[np.ix_(columns, columns)]
        scale = 1.0 / np.sqrt(np.maximum(np.diag(part), 1e-300))
        scaled = part * scale * scale[:, None] + RIDGE * np.eye(len(columns))
        solution = np.zeros(len(gram))
        solution[columns] = scale * np.linalg.solve(scaled, scale * moment[columns])
        candidates.append(solution)
        errors.append(solution @ held_out_gram @ solution - 2.0 * solution @ held_out_moment)
    best = int(np.argmin(errors))
    return tried[best], candidates[best]


def _normal_equations(
    basis: _Basis, pairs: _Pairs, weights: Float[np.ndarray, "n q q"], rows: slice
) -> tuple[Float[np.ndarray, "terms terms"], Float[np.ndarray, " terms"]]:
    """Σⱼ Dⱼᵀ Wⱼ Dⱼ and Σⱼ Dⱼᵀ Wⱼ gⱼ, where Dⱼ are the terms' gradients, gⱼ those of η·f and Wⱼ the weights."""
    gram: np.ndarray | float = 0.0
    moment: np.ndarray | float = 0.0
    for part in _chunks(range(len(pairs.v))[rows]):
        design, targets = _gradients(basis, pairs, part)
        weighted = np.einsum("nij,njk->nik", weights[part], design).reshape(-1, design.shape[2])
        gram = gram + weighted.T @ design.reshape(weighted.shape)
        moment = moment + weighted.T @ targets.reshape(-1)
    return np.asarray(gram), np.asarray(moment)


def _residuals(basis: _Basis, pairs: _Pairs, coefficients: Float[np.ndarray, " terms"]) -> Float[np.ndarray, "n q"]:
    """∇(η·f − A) of every row."""
    parts = (_gradients(basis, pairs, part) for part in _chunks(range(len(pairs.v))))
    return np.concatenate([targets - design @ coefficients for design, targets in parts])


def _precision(pairs: _Pairs, residuals: Float[np.ndarray, "n q"]) -> Float[np.ndarray, "n q q"]:
    """The inverse conditional covariance of the residuals at every row, by regressions on polynomials of v.

    First of their log-squares, for the variances; then of the products of the standardised ones, for the correlations.
    """
    n, q = residuals.shape
    degree = max(degree for degree in range(5) if math.comb(q + degree, q) <= max(1, min(300, pairs.num // 50)))
    terms = np.asarray(_polynomials(jnp.asarray(pairs.v), degree), np.float64)

    def smoothed(values: Float[np.ndarray, "n ..."]) -> Float[np.ndarray, "n ..."]:
        return terms @ np.linalg.lstsq(terms[: pairs.num], values[: pairs.num], rcond=1e-8)[0]

    squares = residuals**2
    log_variances = smoothed(np.log(squares + 1e-9 * squares.mean(0) + 1e-300)) - LOG_CHI_SQUARED
    log_variances = np.clip(log_variances, *np.quantile(log_variances[: pairs.num], [0.001, 0.999], axis=0))
    sd = np.exp(log_variances / 2)
    standardised = residuals / sd
    outer = (standardised[:, :, None] * standardised[:, None, :]).reshape(n, q * q)
    values, vectors = np.linalg.eigh(smoothed(outer).reshape(n, q, q))
    inverse = np.einsum("nij,nj,nkj->nik", vectors, 1.0 / np.maximum(values, 0.05), vectors)
    return inverse / (sd[:, :, None] * sd[:, None, :])


def _gradients(basis: _Basis, pairs: _Pairs, part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The gradients in v of the terms, (rows, q, terms), and of η·f, (rows, q); filled up to one compiled shape."""
    filled = np.resize(part, min(CHUNK, len(pairs.v)))
    gradients = _terms_gradients(basis, jnp.asarray(pairs.v[filled]))
    design, jacobian = (np.asarray(value, np.float64)[: len(part)] for value in gradients)
    return design, np.einsum("nqs,ns->nq", jacobian, pairs.statistics[part])


def _chunks(rows: range) -> list[np.ndarray]:
    return [np.asarray(rows[start : start + CHUNK]) for start in range(0, len(rows), CHUNK)]


@eqx.filter_jit
def _terms_gradients(basis: _Basis, v: Array) -> tuple[Array, Array]:
    terms, eta = jax.vmap(jax.jacfwd(basis.terms))(v)
    return jnp.swapaxes(terms, 1, 2), jnp.swapaxes(eta, 1, 2)


@eqx.filter_jit
def _polynomials(v: Array, degree: int) -> Array:
    return jax.vmap(lambda row: chebyshev_products(row, degree))(v)


@eqx.filter_jit
def _statistics_rows(family: ExponentialFamily | Regression, y: Array) -> Array:
    return jax.vmap(family.statistics_of)(y)


def statistics_of_rows(family: ExponentialFamily | Regression, y: np.ndarray) -> Float[np.ndarray, "n s"]:
    """f of every row."""
    parts = [np.asarray(_statistics_rows(family, jnp.asarray(y[part])), np.float64) for part in _chunks(range(len(y)))]
    return np.concatenate(parts)
