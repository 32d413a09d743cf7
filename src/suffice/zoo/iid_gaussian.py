"""Ten iid values from a Gaussian (Section "Exponential family models" of the paper)."""

from functools import cache

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.model import Model
from suffice.randomness import fast
from suffice.zoo.priors import uniform

SIZE = 10


@cache
def gaussian() -> Model:
    """x₁, …, x₁₀ ~ N(μ, σ²), μ ∈ [−10, 10], σ ∈ [1, 10]; f = (Σx, Σx²), η = (μ/σ², −1/(2σ²))."""

    def simulator(key: PRNGKeyArray, theta: Float[Array, "2"]) -> Float[Array, "10"]:
        mu, sigma = theta
        return mu + sigma * jax.random.normal(fast(key), (SIZE,))

    def log_likelihood(x: Float[Array, "10"], theta: Float[Array, "2"]) -> Float[Array, ""]:
        mu, sigma = theta
        return jnp.sum(dist.Normal(mu, sigma).log_prob(x))

    def sufficient_statistics(x: Float[Array, "10"]) -> Float[Array, "2"]:
        return jnp.stack([jnp.sum(x), jnp.sum(x**2)])

    def natural_parameters(theta: Float[Array, "2"]) -> Float[Array, "2"]:
        mu, sigma = theta
        return jnp.stack([mu / sigma**2, -0.5 / sigma**2])

    return Model(
        uniform([-10.0, 1.0], [10.0, 10.0]),
        simulator,
        names=("mu", "sigma"),
        log_likelihood=log_likelihood,
        exchangeable=True,
        sufficient_statistics=sufficient_statistics,
        natural_parameters=natural_parameters,
    )
