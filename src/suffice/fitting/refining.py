"""The last step of a fit: natural parameters and normaliser are refined for posteriors, by contrast of parameters.

Score matching sees derivatives in y only. That E[∇ log p(y|θ) | θ] = 0 then gives A(θ), but an error of η that is small
for the score may be large for a posterior, above all where few simulations fell. Statistics f(y) stay as they are; η, P
and Q are improved by maximum likelihood of the posterior. Given yⱼ, the parameter θⱼ that it came from is

    π(θⱼ|yⱼ) / π(θⱼ) = exp(s(yⱼ, θⱼ)) / E_π[exp(s(yⱼ, θ))],    s(y, θ) = η(θ)·f(y) − A(θ),

times as probable as before, and the mean over the prior is one over other training parameters, which are draws of it.
The mean of the logarithm is highest at the true likelihood ratio, for any number of them.
Held-out pairs choose how long; and not at all, unless they gain by more than twice the standard error of the gain.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from suffice.family.exponential import ExponentialFamily
from suffice.family.normaliser import Normaliser, statistics_of_rows

FEWEST = 2000  # training pairs: with fewer, too few parameters lie within a posterior
BATCH = 1500  # pairs in a step, each contrasted with the parameters of all others
LOOKS = 12  # at the held-out pairs
CONTRASTS = 4000  # training parameters that held-out pairs are contrasted with, at most
HELD_OUT = 1000  # pairs that are looked at, at most
RATE = 1e-3


class _Rows(NamedTuple):
    statistics: Float[Array, "n s"]
    theta: Float[Array, "n p"]


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
        steps: of Adam, its rate going up and down.
    """
    if len(np.asarray(theta)) < FEWEST or steps < LOOKS:
        return normaliser
    dtype = normaliser.centre.dtype
    training, held_out = (
        _Rows(jnp.asarray(statistics_of_rows(family, np.asarray(data)), dtype), jnp.asarray(parameters, dtype))
        for data, parameters in ((y, theta), (np.asarray(held_out_y)[:HELD_OUT], np.asarray(held_out_theta)[:HELD_OUT]))
    )
    return _refined(key, normaliser, training, held_out, steps // LOOKS)


def log_posterior_ratio(
    normaliser: Normaliser, statistics: Float[Array, "n s"], theta: Float[Array, "m p"]
) -> Float[Array, " n"]:
    """log π(θⱼ|yⱼ)/π(θⱼ) of each row of statistics, the mean over the prior taken over all rows of `theta`.

    The first rows of `theta` are those that the statistics come from.
    """
    eta, constants = jax.vmap(normaliser.parts)(theta)
    values = (statistics - normaliser.centre) @ eta.T - constants
    return jnp.diagonal(values) - jax.nn.logsumexp(values, axis=1) + jnp.log(len(theta))


@eqx.filter_jit
def _refined(key: PRNGKeyArray, normaliser: Normaliser, training: _Rows, held_out: _Rows, steps: int) -> Normaliser:
    changes, rest = eqx.partition(normaliser, _changing(normaliser))
    scales = _scales(normaliser, training)
    batch = min(BATCH, len(training.theta))
    schedule = optax.cosine_onecycle_schedule(steps * LOOKS, RATE, pct_start=0.1, final_div_factor=1e3)
    optimiser = optax.chain(optax.scale_by_adam(), optax.scale_by_learning_rate(schedule))

    def loss(changes: PyTree, rows: _Rows) -> Float[Array, ""]:
        return -jnp.mean(log_posterior_ratio(eqx.combine(changes, rest), rows.statistics, rows.theta))

    def step(carried: tuple[PyTree, PyTree], key: PRNGKeyArray) -> tuple[tuple[PyTree, PyTree], None]:
        changes, state = carried
        chosen = jax.random.choice(key, len(training.theta), (batch,), replace=False)
        gradient = jax.grad(loss)(changes, jax.tree.map(lambda part: part[chosen], training))
        updates, state = optimiser.update(gradient, state)
        return (optax.apply_updates(changes, _scaled(updates, scales)), state), None

    def held_out_ratios(changes: PyTree) -> Float[Array, " m"]:
        theta = jnp.concatenate([held_out.theta, training.theta[:CONTRASTS]])
        return log_posterior_ratio(eqx.combine(changes, rest), held_out.statistics, theta)

    def look(carried: tuple[PyTree, PyTree, PyTree, Array], keys: Array) -> tuple[PyTree, None]:
        changes, state, best, most = carried
        (changes, state), _ = jax.lax.scan(step, (changes, state), keys)
        gains = held_out_ratios(changes) - at_first
        gain, error = jnp.mean(gains), jnp.std(gains) / jnp.sqrt(len(gains))
        better = (gain > most) & (gain > 2.0 * error)  # false where it is not finite
        best = jax.tree.map(lambda new, old: jnp.where(better, new, old), changes, best)
        return (changes, state, best, jnp.where(better, gain, most)), None

    at_first = held_out_ratios(changes)
    start = (changes, optimiser.init(changes), changes, jnp.zeros_like(scales.polynomial))
    (_, _, best, _), _ = jax.lax.scan(look, start, jax.random.split(key, (LOOKS, steps)))
    return eqx.combine(best, rest)


def _changing(normaliser: Normaliser) -> PyTree[bool]:
    """Which leaves are refined: those of η's network and the coefficients of P and Q."""

    def parts(module: Normaliser) -> tuple[PyTree, ...]:
        return (module.natural.network, module.polynomial, module.multipliers)

    nothing = jax.tree.map(lambda _: False, normaliser)
    return eqx.tree_at(parts, nothing, jax.tree.map(eqx.is_inexact_array, parts(normaliser)))


def _scales(normaliser: Normaliser, rows: _Rows) -> _Scales:
    eta = jax.vmap(normaliser.natural)(rows.theta)
    tilts = jnp.sum(eta * (rows.statistics - normaliser.centre), axis=1)
    return _Scales(jnp.std(tilts), jnp.std(rows.statistics, axis=0))


def _scaled(updates: PyTree, scales: _Scales) -> PyTree:
    parts = (updates.polynomial * scales.polynomial, updates.multipliers * scales.multipliers)
    return eqx.tree_at(lambda module: (module.polynomial, module.multipliers), updates, parts)
