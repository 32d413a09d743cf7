"""Logistic regression with a lasso penalty, its strength chosen by cross-validation: one problem, as JAX code.

For labels t ∈ {0, 1} and standardised features φ, minimise over intercept c and coefficients b

    (1/n) Σᵢ [log(1 + exp ηᵢ) − tᵢ ηᵢ] + λ |b|₁,   η = c + b·φ.

Newton's quadratic for the loss is minimised together with the penalty by coordinate descent (Friedman, Hastie and
Tibshirani, 2010), from a λ so large that b = 0 downwards, each solution the start of the next. A step is halved until
the objective falls (Lee, Sun and Saunders, 2014): where features have heavy tails, whole steps run away.

The fits that leave one fold out are one such step away from the fit to all rows: gradient and Hessian are sums over
folds, so those without a fold are there at no cost (approximate cross-validation by proximal Newton steps: Wilson, Kasy
and Mackey, 2020). Coordinate descent begins where that of the last λ ended.
"""

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

Rule = Literal["minimum", "one-standard-error"]

SWEEPS = 8  # of coordinate descent in one Newton step
UNROLLED = 6  # coordinates of a sweep that are compiled as one
PATH_STEPS = 2  # Newton steps at each penalty of the path
FINAL_STEPS = 100  # and at the penalty that is chosen, at most
SETTLED = 1e-5  # a step, relative to the largest coefficient or 1, after which a fit is done
DESCENT = 0.1  # of the fall that the slope promises, what a step must reach
HALVINGS = 20  # of a step, at most
FOLD_HALVINGS = 6  # of the step to a fit without a fold
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
    """Standardised features with a row of ones at the end, labels, and what each row counts, all by fold.

    Row i of the data is in fold i mod k.
    """

    features: Float[Array, "k g m"]
    labels: Float[Array, "k m"]
    shares: Float[Array, "k m"]  # sum to 1
    mean: Float[Array, " f"]
    scale: Float[Array, " f"]

    def lasso(self, solution: Float[Array, " g"], penalty: Float[Array, ""]) -> Lasso:
        coefficients = solution[:-1] / self.scale
        return Lasso(solution[-1] - coefficients @ self.mean, coefficients, penalty)


class _Loss(NamedTuple):
    """The part of each fold in the loss of one fit, with derivatives."""

    value: Float[Array, " k"]
    gradient: Float[Array, "k g"]
    hessian: Float[Array, "k g g"]

    @property
    def whole(self) -> "_Loss":
        """Of all rows."""
        return jax.tree.map(lambda part: jnp.sum(part, axis=0), self)

    def without_each(self, shares: Float[Array, " k"]) -> "_Loss":
        """Of all rows but those of one fold, for each fold; `shares` are what folds count."""
        rest = jnp.maximum(1.0 - shares, jnp.finfo(shares.dtype).tiny)
        others = jax.tree.map(lambda part: jnp.sum(part, axis=0) - part, self)
        return jax.tree.map(lambda part: part / rest.reshape(-1, *(1,) * (part.ndim - 1)), others)


class _Fit(NamedTuple):
    """Coefficients with the intercept at the end, and the loss around them."""

    solution: Float[Array, " g"]
    loss: _Loss

    @classmethod
    def at(cls, problem: _Problem, solution: Float[Array, " g"]) -> "_Fit":
        """The fit with these coefficients."""
        predictor = jnp.sum(solution[:, None] * problem.features, axis=1)
        decay = jnp.exp(-jnp.abs(predictor))
        chance = jnp.where(predictor > 0.0, 1.0, decay) / (1.0 + decay)
        weights = problem.shares * jnp.maximum(decay / (1.0 + decay) ** 2, LEAST_WEIGHT)
        value = jnp.sum(problem.shares * _losses(predictor, decay, problem.labels), axis=1)
        gradient = jnp.einsum("km,kgm->kg", problem.shares * (chance - problem.labels), problem.features)
        hessian = jnp.einsum("kgm,khm->kgh", weights[:, None] * problem.features, problem.features)
        return cls(solution, _Loss(value, gradient, hessian))


def fit_lasso(
    features: Float[Array, "n f"],
    labels: Float[Array, " n"],
    good: Bool[Array, " n"],
    penalty: Float[Array, ""],
    *,
    steps: int = FINAL_STEPS,
) -> Lasso:
    """The regression at one penalty, from zero; rows that are not good do not count."""
    problem = _problem(features, labels, good, 1)
    return problem.lasso(_settled(problem, _null(problem), penalty, steps).solution, penalty)


def cross_validated_lasso(
    features: Float[Array, "n f"],
    labels: Float[Array, " n"],
    good: Bool[Array, " n"],
    *,
    num_folds: int = 10,
    num_penalties: int = 20,
    smallest: float = 1e-3,
    rule: Rule = "minimum",
) -> tuple[Lasso, Path]:
    """The regression at the penalty with the least held-out loss, or the largest within one standard error of it.

    Args:
        features: one row an example; row i is held out with those of its fold, i mod `num_folds`.
        labels: 0 or 1.
        good: whether a row counts.
        num_folds: folds.
        num_penalties: penalties that are tried, from the least that gives b = 0 downwards, in equal ratios.
        smallest: the last penalty as a share of the first.
        rule: how the penalty is chosen.
    """
    problem = _problem(features, labels, good, num_folds)
    start = _null(problem)
    largest = jnp.max(jnp.abs(start.loss.whole.gradient[:-1]))
    penalties = largest * jnp.asarray(smallest, largest.dtype) ** jnp.linspace(
        0.0, 1.0, num_penalties, dtype=largest.dtype
    )

    def descend(carried: tuple[_Fit, Array], penalty: Array) -> tuple[tuple[_Fit, Array], tuple[Array, Array]]:
        fit, others = carried
        for _ in range(PATH_STEPS):
            fit, _ = _stepped(problem, fit, penalty)
        others = _without_each(problem, fit, penalty, others)
        return (fit, others), (fit.solution, _held_out(problem, others))

    others = jnp.tile(start.solution, (num_folds, 1))
    _, (solutions, losses) = jax.lax.scan(descend, (start, others), penalties)
    path = Path(penalties, jnp.mean(losses, axis=1), jnp.std(losses, axis=1, ddof=1) / num_folds**0.5)
    chosen = _choose(path, rule)
    fit = _settled(problem, _Fit.at(problem, solutions[chosen]), penalties[chosen], FINAL_STEPS)
    return problem.lasso(fit.solution, penalties[chosen]), path


def _choose(path: Path, rule: Rule) -> Int[Array, ""]:
    best = jnp.nanargmin(path.losses)
    if rule == "minimum":
        return best
    return jnp.argmax(path.losses <= path.losses[best] + path.errors[best])


def _problem(features: Array, labels: Array, good: Array, num_folds: int) -> _Problem:
    """Features standardised over the good rows; rows that fill folds up to the same size do not count."""
    shares = good / jnp.maximum(jnp.sum(good), 1).astype(features.dtype)
    mean = shares @ features
    centred = jnp.where(good[:, None], features - mean, 0.0)
    scale = jnp.sqrt(shares @ centred**2)
    scale = jnp.where(scale > 0.0, scale, 1.0)
    ones = jnp.ones((len(features), 1), features.dtype)
    columns = jnp.concatenate([centred / scale, ones], axis=1)

    def by_fold(rows: Array) -> Array:
        filled = jnp.pad(rows, ((0, -len(rows) % num_folds), *((0, 0),) * (rows.ndim - 1)))
        return jnp.moveaxis(filled.reshape(-1, num_folds, *rows.shape[1:]), 0, -1)

    return _Problem(by_fold(columns), by_fold(labels), by_fold(shares), mean, scale)


def _null(problem: _Problem) -> _Fit:
    """The fit without features: an intercept only."""
    least = jnp.finfo(problem.shares.dtype).eps  # where there is one class only
    rate = jnp.clip(jnp.sum(problem.shares * problem.labels), least, 1.0 - least)
    intercept = jnp.log(rate) - jnp.log1p(-rate)
    return _Fit.at(problem, jnp.zeros(problem.features.shape[1], rate.dtype).at[-1].set(intercept))


def _losses(
    predictor: Float[Array, "*fits k m"], decay: Float[Array, "*fits k m"], labels: Float[Array, "k m"]
) -> Float[Array, "*fits k m"]:
    """The log loss of each row; `decay`: exp −|predictor|."""
    return jnp.maximum(predictor, 0.0) + jnp.log1p(decay) - labels * predictor


def _without_each(
    problem: _Problem, fit: _Fit, penalty: Float[Array, ""], start: Float[Array, "k g"]
) -> Float[Array, "k g"]:
    """The fits without one fold, for each fold: a step from the fit to all rows, halved until its objective falls."""
    shares = jnp.sum(problem.shares, axis=1)
    losses = fit.loss.without_each(shares)
    directions = jax.vmap(_minimised, (None, 0, None, 0))(fit.solution, losses, penalty, start) - fit.solution
    others = 1.0 - jnp.eye(len(shares), dtype=shares.dtype)
    counts = others / jnp.maximum(1.0 - shares, jnp.finfo(shares.dtype).tiny)[:, None]
    present = losses.value + penalty * jnp.sum(jnp.abs(fit.solution[:-1]))
    noise = 8.0 * jnp.finfo(present.dtype).eps * present

    def falls(lengths: Array) -> Array:
        solutions = fit.solution + lengths[:, None] * directions
        predictors = jnp.einsum("kg,jgm->kjm", solutions, problem.features)
        each = jnp.sum(problem.shares * _losses(predictors, jnp.exp(-jnp.abs(predictors)), problem.labels), axis=2)
        values = jnp.sum(counts * each, axis=1) + penalty * jnp.sum(jnp.abs(solutions[:, :-1]), axis=1)
        return values <= present + noise

    def high(carried: tuple[Array, Array, Array]) -> Array:
        count, _, low = carried
        return (count < FOLD_HALVINGS) & ~jnp.all(low)

    def halve(carried: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        count, lengths, low = carried
        lengths = jnp.where(low, lengths, 0.5 * lengths)
        return count + 1, lengths, falls(lengths)

    whole = jnp.ones_like(shares)
    _, lengths, low = jax.lax.while_loop(high, halve, (jnp.asarray(0), whole, falls(whole)))
    return fit.solution + jnp.where(low, lengths, 0.0)[:, None] * directions


def _held_out(problem: _Problem, solutions: Float[Array, "k g"]) -> Float[Array, " k"]:
    """The mean loss of each fold under the fit without it."""
    shares = jnp.sum(problem.shares, axis=1)
    predictor = jnp.sum(solutions[:, :, None] * problem.features, axis=1)
    losses = _losses(predictor, jnp.exp(-jnp.abs(predictor)), problem.labels)
    return jnp.sum(problem.shares * losses, axis=1) / jnp.maximum(shares, jnp.finfo(shares.dtype).tiny)


def _settled(problem: _Problem, start: _Fit, penalty: Float[Array, ""], most: int) -> _Fit:
    """The fit at one penalty, after as many steps as it needs, or `most`."""

    def moving(carried: tuple[Array, _Fit, Array]) -> Array:
        count, _, moved = carried
        return (count < most) & moved

    def step(carried: tuple[Array, _Fit, Array]) -> tuple[Array, _Fit, Array]:
        count, fit, _ = carried
        return count + 1, *_stepped(problem, fit, penalty)

    return jax.lax.while_loop(moving, step, (jnp.asarray(0), start, jnp.ones((), bool)))[1]


def _stepped(problem: _Problem, fit: _Fit, penalty: Float[Array, ""]) -> tuple[_Fit, Bool[Array, ""]]:
    """The fit after the longest of the steps 1, ½, ¼, … that lets its objective fall, and whether it went far."""
    loss = fit.loss.whole
    direction = _minimised(fit.solution, loss, penalty, fit.solution) - fit.solution

    def size(solution: Array) -> Array:
        return penalty * jnp.sum(jnp.abs(solution[:-1]))

    present = loss.value + size(fit.solution)
    slope = loss.gradient @ direction + size(fit.solution + direction) - size(fit.solution)
    noise = 8.0 * jnp.finfo(present.dtype).eps * present

    def falls(share: Array, tried: _Fit) -> Array:
        return tried.loss.whole.value + size(tried.solution) <= present + DESCENT * share * slope + noise

    def halve(carried: tuple[Array, Array, _Fit]) -> tuple[Array, Array, _Fit]:
        count, share, _ = carried
        return count + 1, 0.5 * share, _Fit.at(problem, fit.solution + 0.5 * share * direction)

    def high(carried: tuple[Array, Array, _Fit]) -> Array:
        count, share, tried = carried
        return (count < HALVINGS) & ~falls(share, tried)

    whole = (jnp.asarray(0), jnp.ones_like(present), _Fit.at(problem, fit.solution + direction))
    _, share, tried = jax.lax.while_loop(high, halve, whole)
    kept = falls(share, tried)
    far = jnp.max(jnp.abs(direction)) > SETTLED * jnp.maximum(jnp.max(jnp.abs(fit.solution)), 1.0)
    return jax.tree.map(lambda new, old: jnp.where(kept, new, old), tried, fit), far & kept


def _minimised(
    fit: Float[Array, " g"], loss: _Loss, penalty: Float[Array, ""], start: Float[Array, " g"]
) -> Float[Array, " g"]:
    """The minimum of the quadratic that a loss is around a fit, with the penalty: coordinate descent from `start`."""
    size = len(start)
    thresholds = jnp.full(size, penalty).at[-1].set(0.0)
    rows = (jnp.arange(size), loss.hessian, loss.hessian @ fit - loss.gradient, thresholds)

    def update(now: Array, row: tuple[Array, ...]) -> tuple[Array, None]:
        index, curvature, target, threshold = row
        rest = target - jnp.sum(curvature * now) + curvature[index] * now[index]
        shrunk = jnp.sign(rest) * jnp.maximum(jnp.abs(rest) - threshold, 0.0)
        return now.at[index].set(shrunk / jnp.maximum(curvature[index], 1e-12)), None

    def sweep(_: Array, now: Array) -> Array:
        return jax.lax.scan(update, now, rows, unroll=min(size, UNROLLED))[0]

    return jax.lax.fori_loop(0, SWEEPS, sweep, start)
