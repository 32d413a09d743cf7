"""MA(2): a moving-average series of a hundred values (Section "Time series models" of the paper)."""

from functools import cache

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.model import Model
from suffice.randomness import fast
from suffice.zoo.priors import uniform

LENGTH = 100
NEARLY_MARKOV = 10  # the order at which the paper takes MA(2) as Markov


@cache
def ma2() -> Model:
    """x_j = ξ_j + θ₁ ξ_{j−1} + θ₂ ξ_{j−2}, ξ₀ = ξ₋₁ = 0, ξ ~ N(0, 1); θ₁ ∈ [−1, 1], θ₂ ∈ [0, 1].

    It is no Markov model; the paper treats it as one of order 10, and so does `markov_order`.
    """

    def simulator(key: PRNGKeyArray, theta: Float[Array, "2"]) -> Float[Array, "100"]:
        theta1, theta2 = theta

        def step(last_two: tuple[Array, Array], noise: Array) -> tuple[tuple[Array, Array], Array]:
            previous, before = last_two
            return (noise, previous), noise + theta1 * previous + theta2 * before

        zero = jnp.zeros(())
        return jax.lax.scan(step, (zero, zero), jax.random.normal(fast(key), (LENGTH,)))[1]

    def log_likelihood(x: Float[Array, "100"], theta: Float[Array, "2"]) -> Float[Array, ""]:
        # x = L ξ with L unit lower triangular: solve for ξ; the determinant is 1.
        theta1, theta2 = theta

        def step(last_two: tuple[Array, Array], x: Array) -> tuple[tuple[Array, Array], Array]:
            previous, before = last_two
            noise = x - theta1 * previous - theta2 * before
            return (noise, previous), noise

        zero = jnp.zeros((), x.dtype)
        noise = jax.lax.scan(step, (zero, zero), x)[1]
        return jnp.sum(dist.Normal(0.0, 1.0).log_prob(noise))

    return Model(
        uniform([-1.0, 0.0], [1.0, 1.0]),
        simulator,
        names=("theta1", "theta2"),
        log_likelihood=log_likelihood,
        markov_order=NEARLY_MARKOV,
    )
