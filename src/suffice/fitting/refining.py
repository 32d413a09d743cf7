"""The last step of a fit: natural parameters and normaliser are refined for posteriors, by contrast of parameters.

Score matching sees derivatives in y only. That E[∇ log p(y|θ) | θ] = 0 then gives A(θ), but an error of η that is small
for the score may be large for a posterior, above all where few simulations fell. Statistics f(y) stay as they are; η, P
and Q are improved by maximum likelihood of the posterior. Given yⱼ, the parameter θⱼ that it came from is

    π(θⱼ|yⱼ) / π(θⱼ) = exp(s(yⱼ, θⱼ)) / E_π[exp(s(yⱼ, θ))],    s(y, θ) = η(θ)·f(y) − A(θ),

times as probable as before, and the mean over the prior is one over other training parameters, which are draws of it.
The mean of the logarithm is highest at the true likelihood ratio, for any number of them. A family that is far from the
truth can be too sure of itself by orders of magnitude, too far for small steps; so s is first multiplied by that of a
few powers that serves training pairs best, 1 where the family is good.
Where parameters are unbounded, draws of the prior hardly ever see its tails, where polynomials may go anywhere and a
posterior with them. So contrasts come from further out too, stretched training parameters, with the weight that makes
the mean over both kinds one over the prior.
Held-out pairs choose how long; and not at all, unless they gain by more than twice the standard error of the gain.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree
from numpyro.distributions import Distribution

from suffice.charts import Chart, bounds, is_product
from suffice.family.exponential import ExponentialFamily
from suffice.family.normaliser import Normaliser, statistics_of_rows

FEWEST = 2000  # training pairs: with fewer, too few parameters lie within a posterior
BATCH = 1500  # pairs in a step, each contrasted with the parameters of all others
WIDE = 0.5  # stretched parameters for each of those contrasts
STRETCH = 2.0  # from the mean, of coordinates that are unbounded
LOOKS = 12  # at the held-out pairs
CONTRASTS = 4000  # training parameters that held-out pairs are contrasted with, at most
HELD_OUT = 1000  # pairs that are looked at, at most
RATE = 1e-3
POWERS = (1.0, 0.3, 0.1, 0.03, 0.01)  # that s is multiplied by before the first step, one of them
COOLED = 5  # times as many steps where that is not 1


class Contrasts(NamedTuple):
    """Parameters, and the logarithm of what each counts in a mean over the prior."""

    theta: Float[Array, "n p"]
    log_weight: Float[Array, " n"]


class _Rows(NamedTuple):
    statistics: Float[Array, "n s"]
    own: Contrasts  # where they come from
    wide: Contrasts | None  # stretched, if there is something to stretch

    def contrasts(self, num: int) -> Contrasts:
        """Of the first `num` rows."""
        own = jax.tree.map(lambda part: part[:num], self.own)
        if self.wide is None:
            return own
        wide = jax.tree.map(lambda part: part[: round(WIDE * num)], self.wide)
        return jax.tree.map(lambda *parts: jnp.concatenate(parts), own, wide)


class _Scales(NamedTuple):
    """What a step of size 1 changes the coefficients by, so that the fit is the same in all units of f."""

    polynomial: Float[Array, ""]
    multipliers: Float[Array, " s"]


def refine(
    key: PRNGKeyArray,
    family: ExponentialFamily,
    normaliser: Normaliser,
    theta: Float[ArrayLike, "n p"],
    y: Float[ArrayLike, "n ..."],
    held_out_theta: Float[ArrayLike, "m p"],
    held_out_y: Float[ArrayLike, "m ..."],
    *,
    prior: Distribution,
    chart: Chart,
    steps: int,
) -> Normaliser:
    """The normaliser, with an η of its own, that gives held-out parameters the highest posterior probability.

    It is the one given where there are too few pairs, or where no change was an improvement.

    Args:
        key: decides which pairs each step takes.
        family: gives f.
        normaliser: A and η to begin with.
        theta: parameters of training pairs.
        y: their data, in the coordinates of the family's chart.
        held_out_theta: parameters of the pairs that choose.
        held_out_y: their data.
        prior: that the parameters were drawn from.
        chart: theirs.
        steps: of Adam, its rate going up and down.
    """
    if len(np.asarray(theta)) < FEWEST or steps < LOOKS:
        return normaliser
    dtype = normaliser.centre.dtype
    training, held_out = (
        _Rows(
            jnp.asarray(statistics_of_rows(family, np.asarray(data)), dtype),
            *_weighed(prior, chart, jnp.asarray(parameters, dtype)),
        )
        for data, parameters in ((y, theta), (np.asarray(held_out_y)[:HELD_OUT], np.asarray(held_out_theta)[:HELD_OUT]))
    )
    power = float(_best_power(normaliser, jax.tree.map(lambda part: part[:BATCH], training)))
    steps *= 1 if power == 1.0 else COOLED
    return _refined(key, normaliser, jnp.asarray(power, dtype), training, held_out, steps // LOOKS)


def log_posterior_ratio(
    normaliser: Normaliser, statistics: Float[Array, "n s"], contrasts: Contrasts
) -> Float[Array, " n"]:
    """log π(θⱼ|yⱼ)/π(θⱼ) of each row of statistics, the mean over the prior taken over all contrasts.

    The first contrasts are the parameters that the statistics come from.
    """
    eta, constants = jax.vmap(normaliser.parts)(contrasts.theta)
    values = (statistics - normaliser.centre) @ eta.T - constants
    mean = jax.nn.logsumexp(values + contrasts.log_weight, axis=1) - jnp.log(len(contrasts.theta))
    return jnp.diagonal(values) - mean


def _weighed(prior: Distribution, chart: Chart, theta: Float[Array, "n p"]) -> tuple[Contrasts, Contrasts | None]:
    """Draws of the prior as contrasts, and the same stretched; None of those where every parameter has two bounds."""
    stretch = np.where(_unbounded(chart), STRETCH, 1.0)
    if not np.any(stretch > 1.0):
        return Contrasts(theta, jnp.zeros(len(theta), theta.dtype)), None
    return _stretched(prior, chart, theta, jnp.asarray(stretch, theta.dtype))


@eqx.filter_jit
def _stretched(
    prior: Distribution, chart: Chart, theta: Float[Array, "n p"], stretch: Float[Array, " q"]
) -> tuple[Contrasts, Contrasts]:
    """Draws of the prior π, and the same stretched, u → κ u in the coordinates u of the chart.

    Both together are draws of a mixture, and each counts π/(α π + (1 − α) q), where q(u) = π(u/κ)/κᵏ is the density of
    the stretched ones and α the share of the others.
    """

    def log_weight(u: Array) -> Array:
        ratio = chart.log_prob(prior, u / stretch) - jnp.sum(jnp.log(stretch)) - chart.log_prob(prior, u)
        return jnp.log1p(WIDE) - jax.nn.softplus(ratio + np.log(WIDE))

    u = jax.vmap(chart.finite)(theta)
    wide = u * stretch
    own, other = (jax.vmap(log_weight)(rows).astype(theta.dtype) for rows in (u, wide))
    return Contrasts(theta, own), Contrasts(jax.vmap(chart.inverse)(wide), other)


def _unbounded(chart: Chart) -> np.ndarray:
    """Which coordinates of the chart are those of parameters without two bounds."""
    if not is_product(chart.support):
        return np.zeros(chart.shift.shape, bool)
    return ~np.all(np.isfinite(np.stack(bounds(chart.support, chart.shift.shape))), axis=0)


def tempered(normaliser: Normaliser, power: Float[ArrayLike, ""]) -> Normaliser:
    """The normaliser of `power` times s: η and Q multiplied by it."""
    parts = (normaliser.natural.scale / power, normaliser.polynomial * power)
    return eqx.tree_at(lambda module: (module.natural.scale, module.polynomial), normaliser, parts)


@eqx.filter_jit
def _refined(
    key: PRNGKeyArray, normaliser: Normaliser, power: Array, training: _Rows, held_out: _Rows, steps: int
) -> Normaliser:
    batch = min(BATCH, len(training.statistics))
    changes, rest = eqx.partition(tempered(normaliser, power), _changing(normaliser))
    scales = _scales(eqx.combine(changes, rest), training)
    schedule = optax.cosine_onecycle_schedule(steps * LOOKS, RATE, pct_start=0.1, final_div_factor=1e3)
    optimiser = optax.chain(optax.scale_by_adam(), optax.scale_by_learning_rate(schedule))

    def loss(changes: PyTree, rows: _Rows) -> Float[Array, ""]:
        return -jnp.mean(log_posterior_ratio(eqx.combine(changes, rest), rows.statistics, rows.contrasts(batch)))

    def step(carried: tuple[PyTree, PyTree], key: PRNGKeyArray) -> tuple[tuple[PyTree, PyTree], None]:
        changes, state = carried
        chosen = jax.random.choice(key, len(training.statistics), (batch,), replace=False)
        gradient = jax.grad(loss)(changes, jax.tree.map(lambda part: part[chosen], training))
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(changes, _scaled(updates, scales)), state), None

    def held_out_ratios(candidate: Normaliser) -> Float[Array, " m"]:
        parts = (held_out.contrasts(len(held_out.statistics)), training.contrasts(CONTRASTS))
        contrasts = jax.tree.map(lambda *parts: jnp.concatenate(parts), *parts)
        return log_posterior_ratio(candidate, held_out.statistics, contrasts)

    def gained(changes: PyTree) -> Float[Array, ""]:
        """What held-out pairs gain; 0 if that may be chance, or is not finite."""
        gains = held_out_ratios(eqx.combine(changes, rest)) - at_first
        gain, error = jnp.mean(gains), jnp.std(gains) / jnp.sqrt(len(gains))
        return jnp.where(gain > 2.0 * error, gain, 0.0)

    def look(carried: tuple[PyTree, PyTree, PyTree, Array], keys: Array) -> tuple[PyTree, None]:
        changes, state, best, most = carried
        (changes, state), _ = jax.lax.scan(step, (changes, state), keys)
        gain = gained(changes)
        best = jax.tree.map(lambda new, old: jnp.where(gain > most, new, old), changes, best)
        return (changes, state, best, jnp.maximum(gain, most)), None

    at_first = held_out_ratios(normaliser)
    start = (changes, optimiser.init(changes), changes, gained(changes))
    (_, _, best, most), _ = jax.lax.scan(look, start, jax.random.split(key, (LOOKS, steps)))
    arrays, others = eqx.partition(normaliser, eqx.is_array)
    found = eqx.filter(eqx.combine(best, rest), eqx.is_array)
    kept = jax.tree.map(lambda new, old: jnp.where(most > 0.0, new, old), found, arrays)
    return eqx.combine(kept, others)


@eqx.filter_jit
def _best_power(normaliser: Normaliser, rows: _Rows) -> Float[Array, ""]:
    """The power of the ratio that gives the parameters of these pairs the highest posterior probability."""
    contrasts = rows.contrasts(len(rows.statistics))

    def fitness(power: Array) -> Float[Array, ""]:
        return jnp.mean(log_posterior_ratio(tempered(normaliser, power), rows.statistics, contrasts))

    powers = jnp.asarray(POWERS, normaliser.centre.dtype)
    values = jax.lax.map(fitness, powers)
    return powers[jnp.argmax(jnp.nan_to_num(values, nan=-jnp.inf))]


def _changing(normaliser: Normaliser) -> PyTree[bool]:
    """Which leaves are refined: those of η's network and the coefficients of P and Q."""

    def parts(module: Normaliser) -> tuple[PyTree, ...]:
        return (module.natural.network, module.polynomial, module.multipliers)

    nothing = jax.tree.map(lambda _: False, normaliser)
    return eqx.tree_at(parts, nothing, jax.tree.map(eqx.is_inexact_array, parts(normaliser)))


def _scales(normaliser: Normaliser, rows: _Rows) -> _Scales:
    eta = jax.vmap(normaliser.natural)(rows.own.theta)
    tilts = jnp.sum(eta * (rows.statistics - normaliser.centre), axis=1)
    return _Scales(jnp.std(tilts), jnp.std(rows.statistics, axis=0))


def _scaled(updates: PyTree, scales: _Scales) -> PyTree:
    parts = (updates.polynomial * scales.polynomial, updates.multipliers * scales.multipliers)
    return eqx.tree_at(lambda module: (module.polynomial, module.multipliers), updates, parts)
