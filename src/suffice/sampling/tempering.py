"""Adaptive tempered sequential Monte Carlo: from the prior to the posterior, for posteriors with several modes.

Particles start at the prior; the likelihood's exponent grows from 0 to 1 in steps that keep half of the particles
effective; after each, particles are resampled and moved by Metropolis steps of their own covariance (blackjax).
"""

from typing import Any, NamedTuple

import blackjax.smc.resampling as resampling
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from blackjax.mcmc import random_walk
from blackjax.smc import adaptive_tempered, tempered
from jaxtyping import Array, Float, Key, PRNGKeyArray

from suffice.progress import bar
from suffice.sampling.chains import Run
from suffice.sampling.target import Target

MOVES = 10  # Metropolis steps of every particle at each temperature
MOST_TEMPERATURES = 200
LANES = 64  # populations in one call


class Population(NamedTuple):
    """Particles, and how many temperatures they went through."""

    theta: Float[Array, "particle p"]
    temperatures: Array
    acceptance: Array


def temper(
    key: PRNGKeyArray, target: Target, evidence: Float[np.ndarray, "n m"], run: Run
) -> tuple[Float[np.ndarray, "n chain draw p"], dict[str, np.ndarray]]:
    """For each observation as many independent populations as chains, of as many particles as draws."""
    rows = np.repeat(np.arange(len(evidence)), run.num_chains)
    keys = jax.random.split(key, len(rows))
    found = []
    with bar(len(rows), "sampling", show=run.progress) as advance:
        for part in np.split(np.arange(len(rows)), range(LANES, len(rows), LANES)):
            found.append(_temper(target, keys[part], jnp.asarray(evidence[rows[part]]), run.num_draws))
            advance(len(part))
    theta, temperatures, acceptance = (
        np.concatenate([np.asarray(a) for a in parts]) for parts in zip(*found, strict=True)
    )
    shape = (len(evidence), run.num_chains)
    numbers = {"temperatures": temperatures.reshape(shape), "acceptance": acceptance.reshape(shape)}
    return theta.reshape(*shape, run.num_draws, -1), numbers


@eqx.filter_jit
def _temper(target: Target, keys: Key[Array, " lane"], evidence: Array, num_particles: int) -> Population:
    return jax.vmap(lambda key, data: _one(target, key, data, num_particles))(keys, evidence)


def _one(target: Target, key: PRNGKeyArray, data: Array, num_particles: int) -> Population:
    key_start, key_moves = jax.random.split(key)
    start = jax.vmap(target.chart.finite)(target.prior.sample(key_start, (num_particles,)))
    metropolis = random_walk.build_additive_step()

    def move(key: PRNGKeyArray, state: Any, log_density: Any, factor: Array) -> Any:
        return metropolis(key, state, log_density, lambda key, x: factor @ jax.random.normal(key, x.shape, x.dtype))

    kernel = adaptive_tempered.build_kernel(
        target.log_prior,
        lambda position: target.log_likelihood(target.chart.inverse(position), data),
        move,
        random_walk.init,
        resampling.systematic,
        0.5,
    )

    def unfinished(carried: tuple[tempered.TemperedSMCState, Array, Array]) -> Array:
        state, number, _ = carried
        return (state.tempering_param < 1.0 - 1e-6) & (number < MOST_TEMPERATURES)

    def cool(carried: tuple[tempered.TemperedSMCState, Array, Array]) -> tuple[Any, Array, Array]:
        state, number, _ = carried
        p = start.shape[1]
        covariance = jnp.atleast_2d(jnp.cov(state.particles, rowvar=False, aweights=state.weights))
        jitter = 1e-6 * jnp.trace(covariance) * jnp.eye(p)
        factor = 2.38 / np.sqrt(p) * jnp.linalg.cholesky(covariance + jitter)
        step_key = jax.random.fold_in(key_moves, number)
        state, info = kernel(step_key, state, MOVES, {"factor": factor[None]})
        return state, number + 1, jnp.mean(info.update_info.acceptance_rate)

    begin = (tempered.init(start), jnp.asarray(0), jnp.zeros(()))
    cooled = jax.lax.while_loop(unfinished, cool, begin)
    state, number, acceptance = cool(cooled)  # blackjax weighs last: resample by those weights, and move once more
    shuffled = jax.random.permutation(jax.random.fold_in(key, 2), state.particles)  # out of the order of ancestors
    return Population(jax.vmap(target.chart.inverse)(shuffled), number, acceptance)
