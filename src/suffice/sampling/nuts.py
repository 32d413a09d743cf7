"""The No-U-Turn sampler as a chain, with Stan's window adaptation of step size and mass in its warm-up (blackjax)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from blackjax.adaptation.mass_matrix import MassMatrixAdaptationState, mass_matrix_adaptation
from blackjax.adaptation.step_size import DualAveragingAdaptationState, dual_averaging_adaptation
from blackjax.adaptation.window_adaptation import build_schedule
from blackjax.mcmc import hmc, nuts
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.sampling.chains import Draw
from suffice.sampling.target import Target

ACCEPTANCE = 0.8  # that step sizes aim at
FIRST_SIZE = 0.5  # in the chart of θ, where the prior has spread 1


class NutsState(NamedTuple):
    """Where the chain is, and what its warm-up has found."""

    hmc: hmc.HMCState
    size: DualAveragingAdaptationState
    mass: MassMatrixAdaptationState


class NutsChain(eqx.Module):
    """The No-U-Turn sampler of one posterior."""

    target: Target
    warmup: int = eqx.field(static=True)
    max_doublings: int = eqx.field(static=True)
    thin: int = eqx.field(static=True, default=1)
    starts: int = eqx.field(static=True, default=1)

    def init(self, key: PRNGKeyArray, observation: Float[Array, " m"]) -> NutsState:
        """A draw of the prior, to begin with; of several `starts`, one as likely as its posterior density."""
        start = self.target.chart.finite(self._start(key, observation))
        state = hmc.init(start, lambda position: self.target.log_posterior(position, observation))
        sizes, _, _ = dual_averaging_adaptation(ACCEPTANCE)
        masses, _, _ = mass_matrix_adaptation(is_diagonal_matrix=False)
        return NutsState(state, sizes(FIRST_SIZE), masses(start.size))

    def _start(self, key: PRNGKeyArray, observation: Float[Array, " m"]) -> Float[Array, " p"]:
        if self.starts == 1:
            return self.target.prior.sample(key)
        draws = self.target.prior.sample(key, (self.starts,))
        likelihoods = jax.vmap(lambda theta: self.target.log_likelihood(theta, observation))(draws)
        return draws[jax.random.categorical(jax.random.fold_in(key, 1), jnp.nan_to_num(likelihoods, nan=-jnp.inf))]

    def step(
        self, key: PRNGKeyArray, observation: Float[Array, " m"], state: NutsState, index: Array
    ) -> tuple[NutsState, Draw]:
        """One trajectory; then tuning, while in warm-up."""
        warming = index < self.warmup
        size = jnp.exp(jnp.where(warming, state.size.log_step_size, state.size.log_step_size_avg))
        moved, info = nuts.build_kernel()(
            key,
            state.hmc,
            lambda position: self.target.log_posterior(position, observation),
            size,
            state.mass.inverse_mass_matrix,
            self.max_doublings,
        )
        numbers = {
            "acceptance": info.acceptance_rate,
            "diverging": info.is_divergent.astype(size.dtype),
            "leapfrogs": info.num_integration_steps.astype(size.dtype),
        }
        draw = Draw(self.target.chart.inverse(moved.position), numbers)
        state = state._replace(hmc=moved)
        return jax.lax.cond(warming, lambda: self._tuned(state, info.acceptance_rate, index), lambda: state), draw

    def _tuned(self, state: NutsState, acceptance: Array, index: Array) -> NutsState:
        """Step size at every step; mass in the middle windows, at whose ends the step size begins anew."""
        begin_size, update_size, final_size = dual_averaging_adaptation(ACCEPTANCE)
        _, update_mass, final_mass = mass_matrix_adaptation(is_diagonal_matrix=False)
        schedule = build_schedule(self.warmup)
        size = update_size(state.size, acceptance)
        updated = update_mass(state.mass, state.hmc.position)
        mass = jax.tree.map(lambda new, old: jnp.where(schedule[index, 0] == 1, new, old), updated, state.mass)
        size, mass = jax.lax.cond(
            schedule[index, 1] == 1, lambda: (begin_size(final_size(size)), final_mass(mass)), lambda: (size, mass)
        )
        return NutsState(state.hmc, size, mass)
