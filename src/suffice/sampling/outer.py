"""Proposals for θ in exchange MCMC: a step of a random walk, or a walk guided by the fit's own normaliser.

The guide π̃ is the posterior of `Direct`, which costs next to nothing beside an inner chain. A proposal is the end of a
short Metropolis chain that leaves π̃ invariant, so that its ratio of densities is π̃(θ)/π̃(θ'): what is left for the
exchange step is the difference between the two posteriors (Liu, 2001, Section 9.4.3; Christen and Fox, 2005). It is
exact whatever π̃ is. Where π̃ is narrower than the posterior, a chain that got far out would hardly come back, so π̃ is
flattened, and some of the steps stay plain ones.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.family.exponential import ExponentialFamily
from suffice.sampling.target import Target

FLATTENED = 0.8  # the exponent of π̃
WALKED = 0.2  # the share of plain steps
STEPS_A_PARAMETER = 5  # of the walk that the guide takes for one proposal


class Proposal(NamedTuple):
    """A new position, and log q(θ' → θ)/q(θ → θ')."""

    position: Float[Array, " p"]
    log_ratio: Float[Array, ""]


def walk(key: PRNGKeyArray, position: Float[Array, " p"], factor: Float[Array, "p p"]) -> Proposal:
    """A step of `factor` times normal noise."""
    noise = jax.random.normal(key, position.shape, position.dtype)
    return Proposal(position + factor @ noise, jnp.zeros((), position.dtype))


class Guide(eqx.Module):
    """A short Metropolis chain on the posterior by the amortised normaliser."""

    target: Target

    def evidence(self, family: ExponentialFamily, rows: Float[Array, "n ..."]) -> Float[Array, " m"]:
        """What that posterior knows of these replicates, which are in the coordinates of the family's chart."""
        gathered = self.target.normaliser.gather(jax.vmap(family.statistics_of)(rows))
        return jnp.append(gathered, jnp.asarray(len(rows), gathered.dtype))

    def propose(
        self,
        key: PRNGKeyArray,
        position: Float[Array, " p"],
        factor: Float[Array, "p p"],
        evidence: Float[Array, " m"],
    ) -> Proposal:
        """Where the chain from `position` ends; each of its steps is proposed by `walk`."""

        def value(position: Array) -> Array:
            return FLATTENED * self.target.log_posterior(position, evidence)

        def step(carried: tuple[Array, Array], key: PRNGKeyArray) -> tuple[tuple[Array, Array], None]:
            here, density = carried
            key_walk, key_accept = jax.random.split(key)
            there = walk(key_walk, here, factor).position
            other = value(there)
            accepted = jnp.log(jax.random.uniform(key_accept, (), density.dtype)) < other - density
            return (jnp.where(accepted, there, here), jnp.where(accepted, other, density)), None

        first = value(position)
        keys = jax.random.split(key, STEPS_A_PARAMETER * position.size)
        (end, last), _ = jax.lax.scan(step, (position, first), keys)
        return Proposal(end, first - last)
