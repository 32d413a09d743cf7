"""Markov chain Monte Carlo without likelihoods (Marjoram, Molitor, Plagnol and Tavaré, 2003).

A step to θ' is accepted if data simulated there come within the tolerance, and with probability min(1, π(θ')/π(θ)).
The tolerance, the size of the steps and the first θ of every chain come from simulations of the prior: those within
the tolerance are draws of the very distribution that the chains leave as it is, so there is no warm-up.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from suffice.abc.adjustment import Draws
from suffice.abc.assembling import assemble
from suffice.abc.driving import Course, Outcome, Problem, Proposal, Record, Rules, drive, settled
from suffice.abc.particles import Particles
from suffice.abc.settings import AbcSettings, Prepared, Request, Start, distances, from_prior, require_whole
from suffice.abc.space import Space
from suffice.abc.weighting import root
from suffice.errors import SamplingError
from suffice.posterior import Posterior
from suffice.progress import bar

PIECE = 100  # steps of one call of the compiled program, about


@dataclass(frozen=True, eq=False)
class MarkovAbc(AbcSettings):
    """Metropolis chains with simulated data in place of the likelihood, at one tolerance.

    `num_draws` × `num_chains` of `sample` are the draws; all chains of all observations step together. `tolerance` is
    that of the kernel; `budget`, `acceptance_floor` and `seconds` stop the chains with the draws they have.

    Args:
        quantile: of the pilot's distances, that is the tolerance if none is given.
        pilot: simulations from the prior to begin with, shared by all observations.
        thin: steps to one draw that is kept; each takes one simulation.
    """

    quantile: float = 0.02
    pilot: int = 5000
    thin: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(self, pilot=20, thin=1)
        if not 0.0 < self.quantile <= 1.0:
            raise ValueError(f"quantile is {self.quantile!r}, but must be between 0 and 1.")
        self.require_budget(self.pilot + self.thin)

    def sample_each(self, key: PRNGKeyArray, observations: Float[np.ndarray, "n ..."], run: Request) -> list[Posterior]:
        """See `Method`."""
        key_scale, key_pilot, key_first, key_steps = jax.random.split(key, 4)
        prepared = self.prepare(key_scale, observations, run)
        pilot = from_prior(key_pilot, prepared.measure, self.pilot)
        count, lanes = len(observations), len(observations) * run.num_chains
        firsts = [
            self._first(jax.random.fold_in(key_first, row), prepared, pilot, row, run.num_chains)
            for row in range(count)
        ]
        state = settled(jax.tree.map(lambda *parts: jnp.concatenate(parts), *firsts))
        scheme = MarkovScheme(lanes, self.thin)
        problem = Problem(
            prepared.measure,
            prepared.ruler,
            prepared.space,
            jnp.asarray(np.repeat(prepared.observed, run.num_chains, axis=0)),
            jnp.asarray(pilot.theta[0]),
        )
        before = prepared.simulations + pilot.simulations
        budget = None if self.budget is None else (self.budget - before) * count
        rules = Rules(run.num_draws, 0, budget, 0, self.acceptance_floor, None, self.seconds)
        with bar(run.num_draws, "sampling", show=run.progress) as advance:
            begun = (state, scheme.record(state, prepared.space, jnp.ones(lanes)))
            course = drive(key_steps, scheme, problem, begun, rules, advance, prepared.began)
        return self._posteriors(prepared, pilot, course, count, run.num_chains)

    def _first(self, key: PRNGKeyArray, prepared: Prepared, pilot: Start, row: int, num_chains: int) -> "MarkovState":
        """The state of the chains of one observation, each at a draw of the pilot within the tolerance."""
        distance = distances(prepared.ruler, pilot.statistics, prepared.observed[row])
        tolerance = np.quantile(distance, self.quantile) if self.tolerance is None else self.tolerance
        near = np.flatnonzero(distance <= tolerance)
        if not len(near):
            raise SamplingError(
                f"None of {len(distance)} simulations from the prior came within the tolerance {tolerance:.4g} of "
                f"observation {row}: the nearest is at {np.min(distance):.4g}. Raise the tolerance, or take a "
                "larger pilot."
            )
        chosen = near[np.asarray(jax.random.choice(key, len(near), (num_chains,), replace=len(near) < num_chains))]
        position = prepared.space.position(jnp.asarray(pilot.theta))
        size = position.shape[1]
        nearest = np.argsort(distance)[: max(len(near), 10 * (size + 1))]
        steps = root(2.38**2 / size * jnp.atleast_2d(jnp.cov(position[nearest], rowvar=False)))
        particles = Particles(
            position[chosen],
            prepared.space.log_prior(position[chosen]),
            jnp.asarray(pilot.statistics[chosen]),
            jnp.asarray(distance[chosen]),
        )
        return MarkovState(
            particles,
            jnp.broadcast_to(steps, (num_chains, size, size)),
            jnp.full(num_chains, tolerance, position.dtype),
            jnp.zeros(num_chains, int),
        )

    def _posteriors(
        self, prepared: Prepared, pilot: Start, course: Course, count: int, num_chains: int
    ) -> list[Posterior]:
        if len(course.records) < 2:
            raise SamplingError(f"The chains were stopped ({course.stopped}) before their first draw. Allow them more.")
        # axes (draw, lane, …) → (observation, chain, draw, …)
        parts = {
            name: np.moveaxis(np.concatenate([getattr(record, name) for record in course.records[1:]]), 0, 1)
            for name in ("theta", "statistics", "distance", "acceptance", "tolerance")
        }
        parts = {name: part.reshape(count, num_chains, *part.shape[1:]) for name, part in parts.items()}
        common: dict[str, Any] = {
            "method": type(self).__name__,
            "simulations": prepared.simulations + pilot.simulations + round(course.spent / count),
            "scale_simulations": prepared.simulations,
            "pilot_simulations": pilot.simulations,
            "failed": prepared.failed + pilot.failed + round(course.failed / count),
            "stopped": course.stopped,
            "seconds": time.monotonic() - prepared.began,
            "observations": count,
        }
        return [
            assemble(
                self,
                Draws(
                    parts["theta"][row].reshape(-1, parts["theta"].shape[-1]),
                    np.ones(parts["distance"][row].size),
                    parts["statistics"][row].reshape(-1, parts["statistics"].shape[-1]),
                    parts["distance"][row].reshape(-1),
                ),
                prepared.observed[row],
                common
                | {
                    "tolerance": float(parts["tolerance"][row, 0, 0]),
                    "acceptance_rate": float(np.mean(parts["acceptance"][row])),
                },
                weighted=False,
                num_chains=num_chains,
            )
            for row in range(count)
        ]


class MarkovState(NamedTuple):
    """Where each chain is, and its settings: the root of the covariance of its steps and its tolerance."""

    particles: Particles
    steps: Float[Array, "n q q"]
    tolerance: Float[Array, " n"]
    number: Int[Array, " n"]


@dataclass(frozen=True)
class MarkovScheme:
    """The algorithm, for chains that step together, each with its own observation."""

    rows: int
    thin: int

    @property
    def piece(self) -> int:
        """See `Scheme`."""
        return self.thin * max(1, PIECE // self.thin)

    def propose(self, key: PRNGKeyArray, state: MarkovState, space: Space) -> Proposal:
        """A Gaussian step of every chain; where the prior's ratio alone rejects it, nothing is simulated."""
        key_step, key_accept = jax.random.split(key)
        centres = state.particles.position
        noise = jax.random.normal(key_step, centres.shape, centres.dtype)
        position = centres + jnp.einsum("nij,nj->ni", state.steps, noise)
        log_prior = space.log_prior(position)
        log_uniform = jnp.log(jax.random.uniform(key_accept, (self.rows,), position.dtype))
        return Proposal(position, log_prior, log_uniform < log_prior - state.particles.log_prior, None)

    def finish(
        self, state: MarkovState, space: Space, proposal: Proposal, outcome: Outcome
    ) -> tuple[MarkovState, Record]:
        """Stay, unless the simulation came within the tolerance."""
        moved = outcome.distance <= state.tolerance
        made = Particles(proposal.position, proposal.log_prior, outcome.statistics, outcome.distance)
        state = state._replace(particles=made.where(moved, state.particles), number=state.number + 1)
        return state, self.record(state, space, moved.astype(state.tolerance.dtype))

    def record(self, state: MarkovState, space: Space, acceptance: Float[Array, " n"]) -> Record:
        """What to write down: a draw after every `thin` steps."""
        complete = (state.number[0] % self.thin) == 0
        particles = state.particles
        theta = space.theta(particles.position)
        return Record(theta, None, particles.statistics, particles.distance, state.tolerance, acceptance, complete)
