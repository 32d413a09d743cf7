"""Stochastic Lorenz96: K slow variables of a toy atmosphere, the fast ones parametrised (Eq. Lorenz of the paper)."""

from functools import cache
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.model import Model
from suffice.randomness import fast
from suffice.zoo.priors import uniform

FORCING = 10.0
TIME_STEP = 1.0 / 30.0
SIZES = {"small": (45, 8), "large": (120, 40)}  # time steps and variables: T = 1.5 and T = 4
# fmt: off
INITIAL_STATE = (
    6.4558, 1.1054, -1.4502, -0.1985, 1.1905, 2.3887, 5.6689, 6.7284, 0.9301, 4.4170,
    4.0959, 2.6830, 4.7102, 2.5614, -2.9621, 2.1459, 3.5761, 8.1188, 3.7343, 3.2147,
    6.3542, 4.5297, -0.4911, 2.0779, 5.4642, 1.7152, -1.2533, 4.6262, 8.5042, 0.7487,
    -1.3709, -0.0520, 1.3196, 10.0623, -2.4885, -2.1007, 3.0754, 3.4831, 3.5744, 6.5790,
)
# fmt: on


@cache
def lorenz96(size: Literal["small", "large"] = "small") -> Model:
    """dy_k/dt = −y_{k−1}(y_{k−2} − y_{k+1}) − y_k + 10 − (b₀ + b₁ y_k + e_k), indices cyclic.

    e is an AR(1) noise, independent for each variable and constant within a time step Δt = 1/30:
    e_k(t) = φ e_k(t − Δt) + σ_e (1 − φ²)^{1/2} z, z ~ N(0, 1), from e = 0 before the first step. Integrated by
    Runge–Kutta of order 4 from a fixed state, which is not part of x: x has shape (45, 8) for "small" (T = 1.5) and
    (120, 40) for "large" (T = 4). b₀ ∈ [1.4, 2.2], b₁ ∈ [0, 1], σ_e ∈ [1.5, 2.5], φ ∈ [0, 1].

    Two successive states determine the noise between them, so x is a Markov series of order 2. (The paper calls it
    1-Markovian, which holds for φ = 0 only; its networks of order 1 are `ExponentialFamily.paper`'s.)
    """
    if size not in SIZES:
        raise ValueError(f"size is {size!r}, but must be one of {', '.join(map(repr, SIZES))}.")
    steps, variables = SIZES[size]

    def simulator(key: PRNGKeyArray, theta: Float[Array, "4"]) -> Float[Array, "steps variables"]:
        b0, b1, sigma, phi = theta

        def drift(y: Array, noise: Array) -> Array:
            advection = jnp.roll(y, 1) * (jnp.roll(y, 2) - jnp.roll(y, -1))
            return -advection - y + FORCING - (b0 + b1 * y + noise)

        def step(state: tuple[Array, Array], shock: Array) -> tuple[tuple[Array, Array], Array]:
            y, noise = state
            noise = phi * noise + sigma * jnp.sqrt(1.0 - phi**2) * shock
            k1 = drift(y, noise)
            k2 = drift(y + 0.5 * TIME_STEP * k1, noise)
            k3 = drift(y + 0.5 * TIME_STEP * k2, noise)
            k4 = drift(y + TIME_STEP * k3, noise)
            y = y + TIME_STEP / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            return (y, noise), y

        shocks = jax.random.normal(fast(key), (steps, variables))
        start = jnp.asarray(INITIAL_STATE[:variables], shocks.dtype)
        return jax.lax.scan(step, (start, jnp.zeros_like(start)), shocks)[1]

    return Model(
        uniform([1.4, 0.0, 1.5, 0.0], [2.2, 1.0, 2.5, 1.0]),
        simulator,
        names=("b0", "b1", "sigma_e", "phi"),
        markov_order=2,
    )
