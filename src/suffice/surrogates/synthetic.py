"""Synthetic likelihood: the statistics at θ are taken as Gaussian, with moments estimated from simulations at θ.

    log p(x⁰|θ) ≈ Σᵢ log N(s(xᵢ⁰); μ̂(θ), Σ̂(θ))    (i: iid replicates; one unless told)

Wood (2010); Price, Drovandi, Lee and Nott (2018) for its use in Markov chains. Σ̂ is shrunk (Ledoit and Wolf, 2004).
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from suffice.surrogates.shrinkage import ledoit_wolf, moments
from suffice.surrogates.summaries import Summaries
from suffice.surrogates.surrogate import Surrogate


@dataclass(frozen=True, eq=False)
class SyntheticLikelihood(Surrogate):
    """The posterior under a Gaussian density of given statistics, estimated at every θ from fresh simulations.

    Args:
        model: prior and simulator.
        statistics: any callable of one x that gives a vector, such as `fit.statistics`.
        simulations: at each θ.
        sampler: "population" (population Monte Carlo, as in the paper: one chain of weighted particles) or
            "metropolis" (Markov chains that keep the estimate at their present point: Bayesian synthetic likelihood).
        particles: population: how many. Metropolis: points from the prior among which the chains begin.
        iterations: population: how often particles are drawn and weighted.
        warmup: Metropolis: first steps of every chain, in which it is tuned; thrown away.
        thin: Metropolis: steps to one draw that is kept.
        keep_history: population: whether every iteration's particles are kept in `info`.
        executor: where simulators that are no JAX code run, as for `simulate`.
        standardise: whether statistics are divided by their spread at θ before the covariance is shrunk, so that
            their units do not matter; False as in the paper's code.

    >>> import jax, numpy as np, suffice as sf
    >>> from suffice.surrogates import SyntheticLikelihood
    >>> model = sf.zoo.gamma()
    >>> method = SyntheticLikelihood(model, model.sufficient_statistics, particles=200, iterations=3)
    >>> sf.sample(jax.random.key(0), method, np.full(10, 3.0) + np.arange(10) / 5)
    Posterior(1 × 200 weighted draws of k, theta)
    """

    standardise: bool = True

    def needed_simulations(self, summaries: Summaries) -> tuple[int, str]:
        """See `Surrogate`."""
        return summaries.size + 2, f"there are {summaries.size} statistics, whose covariance is estimated from them"

    def estimator(self, key: PRNGKeyArray, summaries: Summaries) -> tuple["GaussianEstimator", int]:
        """See `Surrogate`."""
        return GaussianEstimator(self.standardise), 0


class GaussianEstimator(eqx.Module):
    """The log-density of a Gaussian with the moments of the simulated statistics."""

    standardise: bool = eqx.field(static=True)

    def log_likelihood(
        self, rows: Float[Array, "n s"], good: Bool[Array, " n"], evidence: Float[Array, "r s"]
    ) -> Float[Array, ""]:
        """See `Estimator`."""
        size = rows.shape[1]
        mean, centred, number = moments(rows, good)
        spread = jnp.sqrt(jnp.mean(centred**2, axis=0) * len(rows) / jnp.maximum(number, 1.0))
        scale = spread if self.standardise else jnp.ones(size, rows.dtype)
        enough = (number >= size + 2) & jnp.all(spread > 0.0)
        safe = jnp.where(enough, scale, 1.0)
        covariance = ledoit_wolf(centred / safe, jnp.maximum(number, 1.0))
        factor = jnp.linalg.cholesky(jnp.where(enough, covariance, jnp.eye(size, dtype=rows.dtype)))
        white = jax.scipy.linalg.solve_triangular(factor, ((evidence - mean) / safe).T, lower=True)
        log_volume = jnp.sum(jnp.log(jnp.diag(factor))) + jnp.sum(jnp.log(safe))
        constant = 0.5 * size * jnp.log(2.0 * jnp.pi)
        value = -0.5 * jnp.sum(white**2) - len(evidence) * (log_volume + constant)
        return jnp.where(enough & ~jnp.isnan(value), value, -jnp.inf)
