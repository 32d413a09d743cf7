"""Ten iid values from a Gamma (Section "Exponential family models" of the paper)."""

from functools import cache

import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray
from numpyro.distributions import constraints

from suffice.model import Model
from suffice.zoo.priors import uniform
from suffice.zoo.variates import standard_gamma

SIZE = 10


@cache
def gamma() -> Model:
    """x₁, …, x₁₀ ~ Gamma(shape k, scale θ), k, θ ∈ [1, 3]; f = (Σ log x, Σx), η = (k − 1, −1/θ)."""

    def simulator(key: PRNGKeyArray, theta: Float[Array, "2"]) -> Float[Array, "10"]:
        k, scale = theta
        return scale * standard_gamma(key, k, SIZE)

    def log_likelihood(x: Float[Array, "10"], theta: Float[Array, "2"]) -> Float[Array, ""]:
        k, scale = theta
        return jnp.sum(dist.Gamma(k, 1.0 / scale).log_prob(x))

    def sufficient_statistics(x: Float[Array, "10"]) -> Float[Array, "2"]:
        return jnp.stack([jnp.sum(jnp.log(x)), jnp.sum(x)])

    def natural_parameters(theta: Float[Array, "2"]) -> Float[Array, "2"]:
        k, scale = theta
        return jnp.stack([k - 1.0, -1.0 / scale])

    return Model(
        uniform([1.0, 1.0], [3.0, 3.0]),
        simulator,
        support=constraints.positive,
        names=("k", "theta"),
        log_likelihood=log_likelihood,
        exchangeable=True,
        sufficient_statistics=sufficient_statistics,
        natural_parameters=natural_parameters,
    )
