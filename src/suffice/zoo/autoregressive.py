"""AR(2): an autoregressive series of a hundred values (Section "Time series models" of the paper)."""

from functools import cache

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.model import Model
from suffice.randomness import fast
from suffice.zoo.priors import uniform

LENGTH = 100


@cache
def ar2() -> Model:
    """x_j = ξ_j + θ₁ x_{j−1} + θ₂ x_{j−2}, x₀ = x₋₁ = 0, ξ ~ N(0, 1); θ₁ ∈ [−1, 1], θ₂ ∈ [−1, 0]."""

    def simulator(key: PRNGKeyArray, theta: Float[Array, "2"]) -> Float[Array, "100"]:
        theta1, theta2 = theta

        def step(last_two: tuple[Array, Array], noise: Array) -> tuple[tuple[Array, Array], Array]:
            previous, before = last_two
            x = noise + theta1 * previous + theta2 * before
            return (x, previous), x

        zero = jnp.zeros(())
        return jax.lax.scan(step, (zero, zero), jax.random.normal(fast(key), (LENGTH,)))[1]

    def log_likelihood(x: Float[Array, "100"], theta: Float[Array, "2"]) -> Float[Array, ""]:
        theta1, theta2 = theta
        previous, before = jnp.pad(x, (1, 0))[:-1], jnp.pad(x, (2, 0))[:-2]
        return jnp.sum(dist.Normal(theta1 * previous + theta2 * before, 1.0).log_prob(x))

    return Model(
        uniform([-1.0, -1.0], [1.0, 0.0]),
        simulator,
        names=("theta1", "theta2"),
        log_likelihood=log_likelihood,
        markov_order=2,
    )
