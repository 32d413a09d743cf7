"""The log-posterior that direct samplers draw from."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro.distributions import Distribution

from suffice.charts import Chart
from suffice.family.gaussian import ConditionalGaussian
from suffice.family.normaliser import Normaliser


class Target(eqx.Module):
    """The log-posterior of one observation, in the chart of θ.

    `evidence` is what the normaliser gathers of the statistics of iid replicates, Σf of a family, and their number n.
    """

    normaliser: Normaliser | ConditionalGaussian
    prior: Distribution
    chart: Chart

    def log_likelihood(self, theta: Float[Array, " p"], evidence: Float[Array, " m"]) -> Float[Array, ""]:
        """η(θ)·Σf − n A(θ), or the log-density of the statistics of a regression."""
        return self.normaliser.log_density(evidence[:-1], theta, evidence[-1])

    def log_prior(self, position: Float[Array, " p"]) -> Float[Array, ""]:
        """The log-density of the prior in the chart."""
        return self.chart.log_prob(self.prior, position)

    def log_posterior(self, position: Float[Array, " p"], evidence: Float[Array, " m"]) -> Float[Array, ""]:
        """The log-density of the posterior in the chart, up to a constant."""
        return self.log_prior(position) + self.log_likelihood(self.chart.inverse(position), evidence)

    def curvature(self, theta: Float[Array, " p"], evidence: Float[Array, " m"]) -> Float[Array, ""]:
        """The largest eigenvalue of the log-posterior's Hessian in the chart: above 0 where it is convex."""
        hessian = jax.hessian(self.log_posterior)(self.chart.forward(theta), evidence)
        return jnp.linalg.eigvalsh(hessian)[-1]
