"""Ten iid values from a Beta (Section "Exponential family models" of the paper)."""

from functools import cache

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro.distributions import constraints

from suffice.model import Model
from suffice.zoo.priors import uniform
from suffice.zoo.variates import standard_gamma

SIZE = 10


@cache
def beta() -> Model:
    """x₁, …, x₁₀ ~ Beta(α, β), α, β ∈ [1, 3]; f = (Σ log x, Σ log(1 − x)), η = (α − 1, β − 1)."""

    def simulator(key: PRNGKeyArray, theta: Float[Array, "2"]) -> Float[Array, "10"]:
        ones, others = (standard_gamma(jax.random.fold_in(key, i), theta[i], SIZE) for i in range(2))
        return ones / (ones + others)

    def sufficient_statistics(x: Float[Array, "10"]) -> Float[Array, "2"]:
        return jnp.stack([jnp.sum(jnp.log(x)), jnp.sum(jnp.log1p(-x))])

    def natural_parameters(theta: Float[Array, "2"]) -> Float[Array, "2"]:
        return theta - 1.0

    def log_likelihood(x: Float[Array, "10"], theta: Float[Array, "2"]) -> Float[Array, ""]:
        # Not numpyro's Beta, whose log-density XLA gets wrong when compiled and vectorised over theta;
        # nor JAX's betaln, whose second derivatives are wrong where alpha = beta.
        log_beta = jnp.sum(gammaln(theta)) - gammaln(jnp.sum(theta))
        return jnp.dot(natural_parameters(theta), sufficient_statistics(x)) - SIZE * log_beta

    return Model(
        uniform([1.0, 1.0], [3.0, 3.0]),
        simulator,
        support=constraints.unit_interval,
        names=("alpha", "beta"),
        log_likelihood=log_likelihood,
        exchangeable=True,
        sufficient_statistics=sufficient_statistics,
        natural_parameters=natural_parameters,
    )
