"""Logistic regression with a lasso penalty, its strength chosen by cross-validation: one problem, as JAX code.

For labels t ∈ {0, 1} and standardised features φ, minimise over intercept c and coefficients b

    (1/n) Σᵢ [log(1 + exp ηᵢ) − tᵢ ηᵢ] + λ |b|₁,   η = c + b·φ.

Newton's quadratic for the loss is minimised together with the penalty by coordinate descent (Friedman, Hastie and
Tibshirani, 2010), from a λ so large that b = 0 downwards, each solution the start of the next. A step is halved until
the objective falls (Lee, Sun and Saunders, 2014): where features have heavy tails, whole steps run away. The fits that
leave one fold out and the fit to all rows move along together: their products with the data are products of matrices.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Rule = Literal["minimum", "one-standard-error"]

SWEEPS = 8  # of coordinate descent in one Newton step
PATH_STEPS = 2  # Newton steps at each penalty of the path, at most
FINAL_STEPS = 100  # and at the penalty that is chosen
SETTLED = 1e-5  # a step, relative to the largest coefficient or 1, after which a fit is done
DESCENT = 0.1  # of the fall that the slope promises, what a step must reach
HALVINGS = 20  # of a step, at most
LEAST_WEIGHT = 1e-5  # of a row in the Hessian, as a share of 1


class Lasso(NamedTuple):
    """A fitted regression, in the units of the features as they were given."""

    intercept: Float[Array, ""]
    coefficients: Float[Array, " f"]
    penalty: Float[Array, ""]


class Path(NamedTuple):
    """Penalties and, for each, the held-out loss (mean over folds) and its standard error."""

    penalties: Float[Array, " l"]
    losses: Float[Array, " l"]
    errors: Float[Array, " l"]


class _Problem(NamedTuple):
    """Standardised features with a row of ones at the end, labels, and what each row counts in each of the fits."""

    features: Float[Array, "g n"]
    labels: Float[Array, " n"]
    shares: Float[Array, "k n"]  # rows sum to 1
    mean: Float[Array, " f"]
    scale: Float[Array, " f"]

    def lasso(self, solution: Float[Array, " g"], penalty: Float[Array, ""]) -> Lasso:
        coefficients = solution[:-1] / self.scale
        return Lasso(solution[-1] - coefficients @ self.mean, coefficients, penalty)


def fit_lasso(
    features: Float[Array, "n f"],
    labels: Float[Array, " n"],
    good: Bool[Array, " n"],
    penalty: Float[Array, ""],
    *,
    steps: int = FINAL_STEPS,
) -> Lasso:
    """The regression at one penalty, from zero; rows that are not good do not count."""
    problem = _problem(features, labels, good, good[None])
    return problem.lasso(_solved(problem, _null(problem), penalty, steps)[0], penalty)


def cross_validated_lasso(
    features: Float[Array, "n f"],
    labels: Float[Array, " n"],
    good: Bool[Array, " n"],
    folds: Int[Array, " n"],
    *,
    num_folds: int = 10,
    num_penalties: int = 20,
    smallest: float = 1e-3,
    rule: Rule = "minimum",
) -> tuple[Lasso, Path]:
    """The regression at the penalty with the least held-out loss, or the largest within one standard error of it.

    Args:
        features: one row an example.
        labels: 0 or 1.
        good: whether a row counts.
        folds: the fold of each row, from 0 to `num_folds` − 1.
        num_folds: folds.
        num_penalties: penalties that are tried, from the least that gives b = 0 downwards, in equal ratios.
        smallest: the last penalty as a share of the first.
        rule: how the penalty is chosen.
    """
    held = (folds == jnp.arange(num_folds)[:, None]) & good
    problem = _problem(features, labels, good, jnp.concatenate([good & ~held, good[None]]))
    start = _null(problem)
    everyone = problem.shares[-1]
    residual = everyone * (problem.labels - jax.nn.sigmoid(start[-1, -1]))
    largest = jnp.max(jnp.abs(problem.features[:-1] @ residual))
    penalties = largest * jnp.asarray(smallest, largest.dtype) ** jnp.linspace(0.0, 1.0, num_penalties)
    held_shares = held / jnp.maximum(jnp.sum(held, axis=1, keepdims=True), 1)

    def descend(solution: Array, penalty: Array) -> tuple[Array, tuple[Array, Array]]:
        solution = _solved(problem, solution, penalty, PATH_STEPS)
        predictor = solution[:-1] @ problem.features
        loss = jnp.sum(held_shares * _losses(predictor, problem.labels), axis=1)
        return solution, (solution[-1], loss)

    _, (solutions, losses) = jax.lax.scan(descend, start, penalties)
    path = Path(penalties, jnp.mean(losses, axis=1), jnp.std(losses, axis=1, ddof=1) / num_folds**0.5)
    chosen = _choose(path, rule)
    whole = problem._replace(shares=everyone[None])
    solution = _solved(whole, solutions[chosen][None], penalties[chosen], FINAL_STEPS)[0]
    return problem.lasso(solution, penalties[chosen]), path


def _choose(path: Path, rule: Rule) -> Int[Array, ""]:
    best = jnp.nanargmin(path.losses)
    if rule == "minimum":
        return best
    return jnp.argmax(path.losses <= path.losses[best] + path.errors[best])


def _problem(features: Array, labels: Array, good: Array, counted: Array) -> _Problem:
    """Features standardised over the good rows; `counted`: which rows count in each fit."""
    weights = good / jnp.maximum(jnp.sum(good), 1).astype(features.dtype)
    mean = weights @ features
    centred = jnp.where(good[:, None], features - mean, 0.0)
    scale = jnp.sqrt(weights @ centred**2)
    scale = jnp.where(scale > 0.0, scale, 1.0)
    ones = jnp.ones((1, len(features)), features.dtype)
    shares = counted / jnp.maximum(jnp.sum(counted, axis=1, keepdims=True), 1).astype(features.dtype)
    return _Problem(jnp.concatenate([(centred / scale).T, ones]), labels, shares, mean, scale)


def _null(problem: _Problem) -> Float[Array, "k g"]:
    """The fits without features: intercepts only."""
    rate = problem.shares @ problem.labels
    intercepts = jnp.log(rate) - jnp.log1p(-rate)
    zeros = jnp.zeros((len(rate), len(problem.features) - 1), rate.dtype)
    return jnp.concatenate([zeros, intercepts[:, None]], axis=1)


def _losses(predictor: Float[Array, "k n"], labels: Float[Array, " n"]) -> Float[Array, "k n"]:
    """The log loss of each row."""
    return jnp.logaddexp(0.0, predictor) - labels * predictor


def _solved(problem: _Problem, start: Float[Array, "k g"], penalty: Float[Array, ""], most: int) -> Float[Array, "k g"]:
    """The fits at one penalty, after as many steps as they need, or `most`."""

    def moving(carried: tuple[Array, Array, Array]) -> Array:
        count, _, moved = carried
        return (count < most) & moved

    def step(carried: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, solution, _ = carried
        direction, gradient = _newton(problem, solution, penalty)
        largest = jnp.maximum(jnp.max(jnp.abs(solution), axis=1), 1.0)
        moved = jnp.any(jnp.max(jnp.abs(direction), axis=1) > SETTLED * largest)
        return count + 1, _descended(problem, solution, direction, gradient, penalty), moved

    return jax.lax.while_loop(moving, step, (jnp.asarray(0), start, jnp.ones((), bool)))[1]


def _newton(
    problem: _Problem, solution: Float[Array, "k g"], penalty: Float[Array, ""]
) -> tuple[Float[Array, "k g"], Float[Array, "k g"]]:
    """The way of each fit to the minimum of the quadratic around it with the penalty, and the gradient of the loss."""
    features, (fits, size) = problem.features, solution.shape
    probability = jax.nn.sigmoid(solution @ features)
    weights = jnp.maximum(probability * (1.0 - probability), LEAST_WEIGHT) * problem.shares
    weighted = (weights[:, None] * features).reshape(fits * size, -1)
    hessian = (weighted @ features.T).reshape(fits, size, size)
    gradient = (problem.shares * (probability - problem.labels)) @ features.T
    target = jnp.einsum("kfg,kg->kf", hessian, solution) - gradient
    thresholds = jnp.full(size, penalty).at[-1].set(0.0)

    def update(count: Array, now: Array) -> Array:
        index = count % size
        row = hessian[:, index]
        rest = target[:, index] - jnp.sum(row * now, axis=1) + row[:, index] * now[:, index]
        shrunk = jnp.sign(rest) * jnp.maximum(jnp.abs(rest) - thresholds[index], 0.0)
        return now.at[:, index].set(shrunk / jnp.maximum(row[:, index], 1e-12))

    return jax.lax.fori_loop(0, size * SWEEPS, update, solution) - solution, gradient


def _descended(
    problem: _Problem,
    solution: Float[Array, "k g"],
    direction: Float[Array, "k g"],
    gradient: Float[Array, "k g"],
    penalty: Float[Array, ""],
) -> Float[Array, "k g"]:
    """Each fit after the longest of the steps 1, ½, ¼, … that lets its objective fall."""
    predictor, change = solution @ problem.features, direction @ problem.features

    def size(solution: Array) -> Array:
        return penalty * jnp.sum(jnp.abs(solution[:, :-1]), axis=1)

    def objective(share: Array) -> Array:
        losses = _losses(predictor + share[:, None] * change, problem.labels)
        return jnp.sum(problem.shares * losses, axis=1) + size(solution + share[:, None] * direction)

    ones = jnp.ones(len(solution), solution.dtype)
    present = objective(0.0 * ones)
    slope = jnp.sum(gradient * direction, axis=1) + size(solution + direction) - size(solution)
    noise = 8.0 * jnp.finfo(solution.dtype).eps * present

    def falls(share: Array) -> Array:
        return objective(share) <= present + DESCENT * share * slope + noise

    def halve(carried: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, share, good = carried
        share = jnp.where(good, share, 0.5 * share)
        return count + 1, share, falls(share)

    first = (jnp.asarray(0), ones, falls(ones))
    _, share, good = jax.lax.while_loop(lambda now: (now[0] < HALVINGS) & ~jnp.all(now[2]), halve, first)
    return solution + jnp.where(good, share, 0.0)[:, None] * direction
