"""The log-posterior that direct samplers draw from."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro.distributions import Distribution

from suffice.charts import Chart
from suffice.family.gaussian import ConditionalGaussian
from suffice.family.normaliser import Normaliser
from suffice.family.region import Region
from suffice.fitting import Fit


class Target(eqx.Module):
    """The log-posterior of one observation, in the chart of θ.

    `evidence` is what the normaliser gathers of the statistics of iid replicates, Σf of a family, and their number n.
    The likelihood fades beyond `region`, where no training parameter lay and the normaliser knows nothing.
    """

    normaliser: Normaliser | ConditionalGaussian
    prior: Distribution
    chart: Chart
    region: Region | None = None

    @classmethod
    def of(cls, fit: Fit, prior: Distribution | None = None) -> "Target":
        """The posteriors of a fit, by its own prior or another."""
        prior = fit.prior if prior is None else prior
        assert prior is not None
        assert fit.parameter_chart is not None
        assert fit.normaliser is not None
        return cls(fit.normaliser, prior, fit.parameter_chart, fit.region)

    def log_likelihood(self, theta: Float[Array, " p"], evidence: Float[Array, " m"]) -> Float[Array, ""]:
        """η(θ)·Σf − n A(θ), or the log-density of the statistics of a regression."""
        value = self.normaliser.log_density(evidence[:-1], theta, evidence[-1])
        return value if self.region is None else value + self.region.log_weight(theta)

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
