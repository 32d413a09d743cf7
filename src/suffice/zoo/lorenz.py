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
SIMPLE_STEPS = 8  # of the iteration that finds the noise
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
    1-Markovian, which holds for φ = 0 only; its networks of order 1 are `ExponentialFamily.paper`'s.) For the same
    reason its likelihood is known: that of the noise, times the Jacobian of the map to it (`log_likelihood`).
    """
    if size not in SIZES:
        raise ValueError(f"size is {size!r}, but must be one of {', '.join(map(repr, SIZES))}.")
    steps, variables = SIZES[size]

    def simulator(key: PRNGKeyArray, theta: Float[Array, "4"]) -> Float[Array, "steps variables"]:
        b0, b1, sigma, phi = theta

        def step(state: tuple[Array, Array], shock: Array) -> tuple[tuple[Array, Array], Array]:
            y, noise = state
            noise = phi * noise + sigma * jnp.sqrt(1.0 - phi**2) * shock
            y = _next(y, noise, b0, b1)
            return (y, noise), y

        shocks = jax.random.normal(fast(key), (steps, variables))
        start = jnp.asarray(INITIAL_STATE[:variables], shocks.dtype)
        return jax.lax.scan(step, (start, jnp.zeros_like(start)), shocks)[1]

    return Model(
        uniform([1.4, 0.0, 1.5, 0.0], [2.2, 1.0, 2.5, 1.0]),
        simulator,
        names=("b0", "b1", "sigma_e", "phi"),
        log_likelihood=log_likelihood,
        markov_order=2,
    )


def log_likelihood(x: Float[Array, "steps variables"], theta: Float[Array, "4"]) -> Float[Array, ""]:
    """log p(x|θ) = Σ_t [log N(e_t; φ e_{t−1}, σ_e²(1 − φ²) I) − log |det ∂y_t/∂e_t|], e_t the noise into y_t.

    e_t solves y_t = step(y_{t−1}, e_t); it is unique, because a step is short.
    """
    b0, b1, sigma, phi = theta
    start = jnp.asarray(INITIAL_STATE[: x.shape[1]], x.dtype)
    before = jnp.concatenate([start[None], x[:-1]])
    noise, log_dets = jax.vmap(lambda before, after: _noise(before, after, b0, b1))(before, x)
    earlier = jnp.concatenate([jnp.zeros_like(noise[:1]), noise[:-1]])
    variance = sigma**2 * (1.0 - phi**2)
    shocks = jnp.sum((noise - phi * earlier) ** 2) / variance
    return -0.5 * (shocks + x.size * jnp.log(2.0 * jnp.pi * variance)) - jnp.sum(log_dets)


def _drift(y: Array, noise: Array, b0: Array, b1: Array) -> Array:
    advection = jnp.roll(y, 1) * (jnp.roll(y, 2) - jnp.roll(y, -1))
    return -advection - y + FORCING - (b0 + b1 * y + noise)


def _next(y: Array, noise: Array, b0: Array, b1: Array) -> Array:
    """The state after one step of Runge–Kutta."""
    k1 = _drift(y, noise, b0, b1)
    k2 = _drift(y + 0.5 * TIME_STEP * k1, noise, b0, b1)
    k3 = _drift(y + 0.5 * TIME_STEP * k2, noise, b0, b1)
    k4 = _drift(y + TIME_STEP * k3, noise, b0, b1)
    return y + TIME_STEP / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def _noise(before: Array, after: Array, b0: Array, b1: Array) -> tuple[Array, Array]:
    """The noise that takes one state to the next, and log |det ∂next/∂noise| there.

    Simple iteration, whose error falls by about four each time, then two steps of Newton's, through which alone
    derivatives in b₀ and b₁ are taken: they are exact up to the second.
    """

    def reached(noise: Array) -> Array:
        return _next(before, noise, b0, b1)

    def nearer(_: Array, noise: Array) -> Array:
        return noise + (reached(noise) - after) / TIME_STEP

    noise = jax.lax.stop_gradient(jax.lax.fori_loop(0, SIMPLE_STEPS, nearer, jnp.zeros_like(before)))
    for _ in range(2):
        noise = noise - jnp.linalg.solve(jax.jacfwd(reached)(noise), reached(noise) - after)
    return noise, jnp.linalg.slogdet(jax.jacfwd(reached)(noise))[1]
