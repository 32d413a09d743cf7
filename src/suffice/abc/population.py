"""Population Monte Carlo ABC (Beaumont, Cornuet, Marin and Robert, 2009): generations of ever smaller tolerance.

A generation at tolerance ε draws from the last one by weight, steps by N(0, 2Σ) with Σ its weighted covariance,
simulates, and keeps what comes within ε until N are kept. A particle that was kept at θ weighs
π(θ) / Σⱼ wⱼ N(θ; θⱼ, 2Σ). A step that leaves the prior is not redrawn: it is a proposal of weight 0.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from suffice.abc.driving import Outcome, Proposal, Record
from suffice.abc.particles import Particles
from suffice.abc.populations import sample_populations
from suffice.abc.settings import AbcSettings, Request, require_whole
from suffice.abc.space import Space
from suffice.abc.weighting import covariance, pick, root
from suffice.posterior import Posterior


@dataclass(frozen=True, eq=False)
class PopulationAbc(AbcSettings):
    """Population Monte Carlo ABC: a weighted population at each of a falling sequence of tolerances.

    `num_draws` and `num_chains` of `sample` are ignored: there is one chain of as many weighted draws as particles.
    A generation that a rule cuts short is thrown away: the posterior is that of the last whole one.

    Args:
        particles: N.
        iterations: generations, the first being simulations from the prior.
        quantile: of the distances in a generation, that becomes the next tolerance.
        acceptance_floor: 1% unless told.
    """

    particles: int = 1000
    iterations: int = 10
    quantile: float = 0.5
    acceptance_floor: float = field(default=0.01, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, particles=4, iterations=2)
        if not 0.0 < self.quantile < 1.0:
            raise ValueError(f"quantile is {self.quantile!r}, but must be between 0 and 1.")
        self.require_budget(2 * self.particles)

    def sample_each(self, key: PRNGKeyArray, observations: Float[np.ndarray, "n ..."], run: Request) -> list[Posterior]:
        """See `Method`."""
        scheme = PopulationMonteCarlo(self.particles, self.quantile)
        return sample_populations(key, self, scheme, observations, run, self.iterations)


class PopulationState(NamedTuple):
    """The last whole generation, and the next one as far as it is there."""

    parents: Particles
    weights: Float[Array, " n"]
    factor: Float[Array, "q q"]  # the root of 2Σ
    children: Particles
    tolerance: Float[Array, ""]
    least: Float[Array, ""]  # tolerance
    found: Int[Array, ""]
    accepted: Int[Array, ""]
    proposed: Int[Array, ""]


@dataclass(frozen=True)
class PopulationMonteCarlo:
    """The algorithm, for one observation: a step is one round of N proposals."""

    particles: int
    quantile: float
    piece: int = 1
    thin: int = 1
    replicates: int = 1

    @property
    def rows(self) -> int:
        """See `Scheme`."""
        return self.particles

    def begin(
        self,
        space: Space,
        theta: Float[Array, "n p"],
        statistics: Float[Array, "n s"],
        distance: Float[Array, " n"],
        least: Float[Array, ""],
    ) -> tuple[PopulationState, Record]:
        """The first generation, from the prior."""
        position = space.position(theta)
        generation = Particles(position, space.log_prior(position), statistics, distance)
        equal = jnp.full(self.particles, 1.0 / self.particles, position.dtype)
        state = self._next(generation, equal, jnp.asarray(least, position.dtype))
        return state, self._record(state, space, jnp.max(distance), jnp.ones(()), jnp.ones((), bool))

    def propose(self, key: PRNGKeyArray, state: PopulationState, space: Space) -> Proposal:
        """A Gaussian step from a parent drawn by weight, for every proposal."""
        key_pick, key_step = jax.random.split(key)
        parents = state.parents.position
        picked = pick(state.weights, jax.random.uniform(key_pick, (self.particles,), parents.dtype))
        noise = jax.random.normal(key_step, parents.shape, parents.dtype)
        position = parents[picked] + noise @ state.factor
        log_prior = space.log_prior(position)
        return Proposal(position, log_prior, log_prior > -jnp.inf, None)

    def finish(
        self, state: PopulationState, space: Space, proposal: Proposal, outcome: Outcome
    ) -> tuple[PopulationState, Record]:
        """Keep what is near enough, in order; with N of them the generation is whole."""
        near = outcome.distance <= state.tolerance
        slot = jnp.where(near, state.found + jnp.cumsum(near) - 1, self.particles)
        made = Particles(proposal.position, proposal.log_prior, outcome.statistics, outcome.distance)
        children = jax.tree.map(lambda old, new: old.at[slot].set(new, mode="drop"), state.children, made)
        accepted, proposed = state.accepted + jnp.sum(near), state.proposed + len(near)
        found = jnp.minimum(state.found + jnp.sum(near), self.particles)
        complete, tolerance = found == self.particles, state.tolerance
        grown = state._replace(children=children, found=found, accepted=accepted, proposed=proposed)
        state = jax.lax.cond(complete, self._closed, lambda same: same, grown)
        return state, self._record(state, space, tolerance, accepted / proposed, complete)

    def _closed(self, state: PopulationState) -> PopulationState:
        children = state.children
        log_weights = children.log_prior - log_mixture(
            children.position, state.parents.position, state.weights, state.factor
        )
        return self._next(children, jax.nn.softmax(log_weights), state.least)

    def _next(self, generation: Particles, weights: Float[Array, " n"], least: Float[Array, ""]) -> PopulationState:
        """The beginning of the generation after this one."""
        tolerance = jnp.maximum(jnp.quantile(generation.distance, self.quantile), least)
        factor, zero = root(2.0 * covariance(generation.position, weights)), jnp.zeros((), int)
        return PopulationState(generation, weights, factor, generation, tolerance, least, zero, zero, zero)

    def _record(
        self, state: PopulationState, space: Space, tolerance: Array, acceptance: Array, complete: Array
    ) -> Record:
        parents = state.parents
        theta = space.theta(parents.position)
        return Record(theta, state.weights, parents.statistics, parents.distance, tolerance, acceptance, complete)


def log_mixture(
    position: Float[Array, "m q"],
    centres: Float[Array, "n q"],
    weights: Float[Array, " n"],
    factor: Float[Array, "q q"],
) -> Float[Array, " m"]:
    """log Σⱼ wⱼ N(θ; θⱼ, F²) of each row θ, up to a constant; F = `factor`, symmetric."""
    inverse = jnp.linalg.pinv(factor, hermitian=True)
    middle = jnp.average(centres, axis=0, weights=weights)
    points, means = (position - middle) @ inverse, (centres - middle) @ inverse
    squares = jnp.sum(points**2, axis=1)[:, None] + jnp.sum(means**2, axis=1)[None, :] - 2.0 * points @ means.T
    return jax.nn.logsumexp(-0.5 * squares, axis=1, b=weights[None, :])
