"""Adaptive sequential Monte Carlo ABC (Del Moral, Doucet and Jasra, 2012).

Every particle has M simulations, of which those within the tolerance ε are alive. At each iteration ε falls so far
that the share α of the effective particles is kept, weights are multiplied by the ratio of alive simulations,
particles are resampled when half of the effective ones are lost, and each is moved by a Metropolis step that leaves
the ABC posterior at ε as it is.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.abc.driving import Outcome, Proposal, Record
from suffice.abc.particles import Particles
from suffice.abc.populations import sample_populations
from suffice.abc.settings import AbcSettings, Request, require_whole
from suffice.abc.space import Space
from suffice.abc.weighting import covariance, effective, root, systematic
from suffice.posterior import Posterior

HALVINGS = 40  # of the interval in which the next tolerance is sought
SPREAD = 2.0  # proposals have this times the population's covariance (Section 3.3 of the reference)


@dataclass(frozen=True, eq=False)
class SequentialAbc(AbcSettings):
    """Sequential Monte Carlo ABC whose tolerance falls by itself.

    `num_draws` and `num_chains` of `sample` are ignored: there is one chain of as many weighted draws as particles.

    Args:
        particles: N.
        iterations: at most, the first being simulations from the prior.
        kept: α, the share of the effective particles that a fall of the tolerance keeps.
        replicates: M, simulations of each particle.
        acceptance_floor: 1.5% of moves unless told, as in the reference.
    """

    particles: int = 1000
    iterations: int = 100
    kept: float = 0.9
    replicates: int = 1
    acceptance_floor: float = field(default=0.015, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, particles=4, iterations=2, replicates=1)
        if not 0.0 < self.kept < 1.0:
            raise ValueError(f"kept is {self.kept!r}, but must be between 0 and 1.")
        self.require_budget(2 * self.particles * self.replicates)

    def sample_each(self, key: PRNGKeyArray, observations: Float[np.ndarray, "n ..."], run: Request) -> list[Posterior]:
        """See `Method`."""
        scheme = SequentialMonteCarlo(self.particles, self.replicates, self.kept)
        return sample_populations(key, self, scheme, observations, run, self.iterations)


class SequentialState(NamedTuple):
    """The particles with M simulations each, their weights, and the tolerance."""

    particles: Particles
    weights: Float[Array, " n"]
    tolerance: Float[Array, ""]
    least: Float[Array, ""]  # tolerance


@dataclass(frozen=True)
class SequentialMonteCarlo:
    """The algorithm, for one observation."""

    particles: int
    replicates: int
    kept: float
    piece: int = 1
    thin: int = 1

    @property
    def rows(self) -> int:
        """See `Scheme`."""
        return self.particles * self.replicates

    def begin(
        self,
        space: Space,
        theta: Float[Array, "n p"],
        statistics: Float[Array, "m s"],
        distance: Float[Array, " m"],
        least: Float[Array, ""],
    ) -> tuple[SequentialState, Record]:
        """The particles from the prior; all simulations are alive that did not fail."""
        position, shape = space.position(theta), (self.particles, self.replicates)
        particles = Particles(
            position, space.log_prior(position), statistics.reshape(*shape, -1), distance.reshape(shape)
        )
        equal = jnp.full(self.particles, 1.0 / self.particles, position.dtype)
        furthest = jnp.max(distance, where=jnp.isfinite(distance), initial=0.0)
        state = SequentialState(particles, equal, furthest, jnp.asarray(least, position.dtype))
        return state, self._record(state, space, jnp.ones(()))

    def propose(self, key: PRNGKeyArray, state: SequentialState, space: Space) -> Proposal:
        """Lower the tolerance, weigh, resample if need be, and step from every particle of weight."""
        key_step, key_uniform = jax.random.split(key)
        uniforms = jax.random.uniform(key_uniform, (self.particles + 1,), state.weights.dtype)
        state = self._cooled(state, uniforms[-1])
        particles = state.particles
        noise = jax.random.normal(key_step, particles.position.shape, particles.position.dtype)
        position = particles.position + noise @ root(SPREAD * covariance(particles.position, state.weights))
        log_prior = space.log_prior(position)
        log_alive = jnp.log(alive(particles.distance, state.tolerance))
        margin = log_prior - particles.log_prior - log_alive - jnp.log(uniforms[:-1])
        wanted = (state.weights > 0) & (margin + jnp.log(self.replicates) > 0)  # else in vain, whatever is simulated
        rows = jnp.repeat(jnp.arange(self.particles), self.replicates)
        return Proposal(position[rows], log_prior[rows], wanted[rows], (state, position, log_prior, margin))

    def finish(
        self, state: SequentialState, space: Space, proposal: Proposal, outcome: Outcome
    ) -> tuple[SequentialState, Record]:
        """The Metropolis step at the new tolerance: accept by the ratio of priors and of alive simulations."""
        cooled, position, log_prior, margin = proposal.carried
        shape = (self.particles, self.replicates)
        made = Particles(
            position, log_prior, outcome.statistics.reshape(*shape, -1), outcome.distance.reshape(shape)
        )  # fmt: skip
        moved = (cooled.weights > 0) & (margin + jnp.log(alive(made.distance, cooled.tolerance)) > 0)
        state = cooled._replace(particles=made.where(moved, cooled.particles))
        return state, self._record(state, space, jnp.sum(moved) / jnp.sum(cooled.weights > 0))

    def _cooled(self, state: SequentialState, uniform: Float[Array, ""]) -> SequentialState:
        tolerance = jnp.maximum(self._next_tolerance(state), jnp.minimum(state.least, state.tolerance))
        weights = reweighted(state, tolerance)
        weights = weights / jnp.sum(weights)
        resample = effective(weights) < 0.5 * self.particles
        rows = jnp.where(resample, systematic(weights, uniform), jnp.arange(self.particles))
        weights = jnp.where(resample, 1.0 / self.particles, weights)
        return SequentialState(state.particles.rows(rows), weights, tolerance, state.least)

    def _next_tolerance(self, state: SequentialState) -> Float[Array, ""]:
        """The least tolerance at which the share `kept` of the effective particles is left, by halving."""
        target = self.kept * effective(state.weights)

        def halve(_: Any, interval: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = interval
            middle = 0.5 * (low + high)
            enough = effective(reweighted(state, middle)) >= target
            return jnp.where(enough, low, middle), jnp.where(enough, middle, high)

        zero = jnp.zeros_like(state.tolerance)
        return jax.lax.fori_loop(0, HALVINGS, halve, (zero, state.tolerance))[1]

    def _record(self, state: SequentialState, space: Space, acceptance: Array) -> Record:
        particles, rows = state.particles, jnp.arange(self.particles)
        first = jnp.argmax(particles.distance <= state.tolerance, axis=1)  # of the alive simulations: all are alike
        return Record(
            space.theta(particles.position),
            state.weights,
            particles.statistics[rows, first],
            particles.distance[rows, first],
            state.tolerance,
            acceptance,
            complete=jnp.ones((), bool),
        )


def alive(distance: Float[Array, "n m"], tolerance: Float[Array, ""]) -> Float[Array, " n"]:
    """How many simulations of each particle are within the tolerance."""
    return jnp.sum(distance <= tolerance, axis=1).astype(distance.dtype)


def reweighted(state: SequentialState, tolerance: Float[Array, ""]) -> Float[Array, " n"]:
    """The weights at a smaller tolerance, up to a constant."""
    distance = state.particles.distance
    before = alive(distance, state.tolerance)
    return state.weights * alive(distance, tolerance) / jnp.maximum(before, 1.0)
