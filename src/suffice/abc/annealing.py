"""Simulated annealing ABC (Albert, Künsch and Scheidegger, 2015), single tolerance, as behind the paper's figures.

The distance d of a particle is smoothed to u(d), its rank among the distances of N simulations from the prior. At
tolerance ε a move from θ to θ' is accepted with probability min(1, π(θ')/π(θ) exp((u − u')/ε)); the population's
mean U of u gives the next tolerance as the root of ε² + v ε^{3/2} = U².
"""

from dataclasses import dataclass
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

LEAST = 1e-12  # mean of u below which the tolerance falls no more


@dataclass(frozen=True, eq=False)
class Annealing(AbcSettings):
    """Simulated annealing ABC: every particle walks while the tolerance falls with the population's distance.

    Particles that leave the prior stay where they were (the released code behind the paper redraws such proposals,
    which is biased at the edges), and any prior is allowed. `num_draws` and `num_chains` of `sample` are ignored:
    there is one chain of as many draws of equal weight as there are particles. Its `tolerance` is on the scale of u,
    between 0 and 1.

    Args:
        particles: N.
        iterations: steps, the first being the simulations from the prior: N × `iterations` simulations in all.
        beta: proposals have `beta` times the population's covariance.
        delta: resampling weights are exp(−`delta` u/U).
        speed: v, how slowly the tolerance falls.

    >>> import jax, suffice as sf
    >>> from suffice.abc import Annealing
    >>> model = sf.zoo.gaussian()
    >>> method = Annealing(model, model.sufficient_statistics, particles=200, iterations=30)
    >>> post = sf.sample(jax.random.key(0), method, sf.simulate(jax.random.key(1), model, 1).x[0])
    >>> post.info["stopped"], post.info["iterations"]
    ('iterations', 30)
    """

    particles: int = 1000
    iterations: int = 100
    beta: float = 2.0
    delta: float = 0.2
    speed: float = 0.3

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, particles=4, iterations=2)
        for name in ("beta", "delta", "speed"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value > 0):
                raise ValueError(f"{name} is {value!r}, but must be a positive number.")
        self.require_budget(2 * self.particles)

    def sample_each(self, key: PRNGKeyArray, observations: Float[np.ndarray, "n ..."], run: Request) -> list[Posterior]:
        """See `Method`."""
        scheme = AnnealingScheme(self.particles, self.beta, self.delta, self.speed)
        return sample_populations(key, self, scheme, observations, run, self.iterations)


class AnnealingState(NamedTuple):
    """The particles, the distances from the prior that smooth others (sorted), and the counters."""

    particles: Particles
    smoothed: Float[Array, " n"]
    reference: Float[Array, " n"]
    tolerance: Float[Array, ""]
    accepted: Int[Array, ""]  # since the last resampling, as is
    proposed: Int[Array, ""]


@dataclass(frozen=True)
class AnnealingScheme:
    """The algorithm, for one observation."""

    particles: int
    beta: float
    delta: float
    speed: float
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
    ) -> tuple[AnnealingState, Record]:
        """The state made of simulations from the prior."""
        position, reference = space.position(theta), jnp.sort(distance)
        particles = Particles(position, space.log_prior(position), statistics, distance)
        smoothed, zero = smooth(reference, distance), jnp.zeros((), int)
        tolerance = next_tolerance(jnp.mean(smoothed), self.speed)
        state = AnnealingState(particles, smoothed, reference, tolerance, zero, zero)
        return state, self._record(state, space, jnp.ones(()))

    def propose(self, key: PRNGKeyArray, state: AnnealingState, space: Space) -> Proposal:
        """A Gaussian step from a particle picked at random, for every proposal."""
        key_step, key_uniform = jax.random.split(key)
        centres = state.particles.position
        uniforms = jax.random.uniform(key_uniform, (3, self.particles), centres.dtype)
        picked = jnp.minimum((uniforms[0] * self.particles).astype(int), self.particles - 1)
        noise = jax.random.normal(key_step, centres.shape, centres.dtype)
        position = centres[picked] + noise @ root(self.beta * covariance(centres))
        log_prior = space.log_prior(position)
        return Proposal(position, log_prior, log_prior > -jnp.inf, (picked, uniforms[1], uniforms[2]))

    def finish(
        self, state: AnnealingState, space: Space, proposal: Proposal, outcome: Outcome
    ) -> tuple[AnnealingState, Record]:
        """Accept, cool, and resample when as many moves as there are particles were accepted."""
        state = self._moved(state, proposal, outcome)
        acceptance = state.accepted / state.proposed
        enough, uniforms = state.accepted >= self.particles, proposal.carried[2]
        state = jax.lax.cond(enough, self._resampled, lambda same, _: same, state, uniforms)
        return state, self._record(state, space, acceptance)

    def _moved(self, state: AnnealingState, proposal: Proposal, outcome: Outcome) -> AnnealingState:
        """Accepted proposals replace the particles they come from: of several for one particle, the last."""
        (picked, uniforms, _), count = proposal.carried, self.particles
        smoothed = smooth(state.reference, outcome.distance)
        log_ratio = proposal.log_prior - state.particles.log_prior[picked]
        log_ratio = log_ratio + (state.smoothed[picked] - smoothed) / state.tolerance
        accepted = (jnp.log(uniforms) < log_ratio) & jnp.isfinite(outcome.distance)
        last = jnp.full(count, -1).at[picked].max(jnp.where(accepted, jnp.arange(count), -1))
        made = Particles(proposal.position, proposal.log_prior, outcome.statistics, outcome.distance)
        u = jnp.where(last >= 0, smoothed[last], state.smoothed)
        return AnnealingState(
            made.rows(last).where(last >= 0, state.particles),
            u,
            state.reference,
            next_tolerance(jnp.mean(u), self.speed),
            state.accepted + jnp.sum(accepted),
            state.proposed + count,
        )

    def _resampled(self, state: AnnealingState, uniforms: Float[Array, " n"]) -> AnnealingState:
        """The particles drawn anew with weights exp(−δ u/U), the counters at 0."""
        u, zero = state.smoothed, jnp.zeros_like(state.accepted)
        rows = pick(jnp.exp(-self.delta * u / jnp.maximum(jnp.mean(u), jnp.finfo(u.dtype).tiny)), uniforms)
        tolerance = next_tolerance(jnp.mean(u[rows]), self.speed)
        return AnnealingState(state.particles.rows(rows), u[rows], state.reference, tolerance, zero, zero)

    def _record(self, state: AnnealingState, space: Space, acceptance: Array) -> Record:
        particles = state.particles
        return Record(
            space.theta(particles.position),
            None,
            particles.statistics,
            particles.distance,
            state.tolerance,
            acceptance,
            complete=jnp.ones((), bool),
        )


def smooth(reference: Float[Array, " n"], distance: Float[Array, " m"]) -> Float[Array, " m"]:
    """u(d): the share of the sorted reference distances below d; below the least of them, (d/least)/N."""
    count, least = len(reference), reference[0]
    rank = jnp.searchsorted(reference, distance, side="left").astype(distance.dtype) / count
    below = distance / jnp.maximum(least, jnp.finfo(distance.dtype).tiny) / count
    return jnp.where(distance < least, below, rank)


def next_tolerance(mean: Float[Array, ""], speed: float) -> Float[Array, ""]:
    """The root ε of ε² + v ε^{3/2} = U², by Newton's method from above in e = ε^{1/2}."""
    target = jnp.maximum(mean, LEAST) ** 2
    e = jnp.minimum(target**0.25, (target / speed) ** (1 / 3))
    for _ in range(8):
        e = e - (e**4 + speed * e**3 - target) / (4 * e**3 + 3 * speed * e**2)
    return e**2
