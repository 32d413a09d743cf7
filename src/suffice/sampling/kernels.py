"""Markov kernels on data y: how the inner chain and the bridges of exchange MCMC move.

The target comes at call time. One step size serves targets of many θ', broad and narrow, so kernels that follow the
gradient shrink it at random: with a fixed one a narrow target, on which the step overshoots, would reject every move,
leave the auxiliary data at the observation, and so let the proposal pass unexamined.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from suffice.randomness import fast

LogDensity = Callable[[Float[Array, "..."]], Float[Array, ""]]

SMALLEST = 0.05  # factor of a step size, at the least, where it is shrunk at random
NOISE = 8192  # random numbers made at once for one chain, at most


class Moved(NamedTuple):
    """Where a kernel went, and with what probability of acceptance."""

    state: Any
    acceptance: Float[Array, ""]


@runtime_checkable
class Kernel(Protocol):
    """A way to move y that leaves exp(log_density) invariant. Its state has a `position`."""

    @property
    def acceptance(self) -> tuple[float, float]:
        """Rates between which its step size is good."""
        ...

    def noise(self, key: PRNGKeyArray, num: int, like: Float[Array, "..."]) -> PyTree:
        """The randomness of `num` steps, one row each."""
        ...

    def init(self, position: Float[Array, "..."], log_density: LogDensity) -> Any:
        """The state at a position."""
        ...

    def step(self, noise: PyTree, state: Any, log_density: LogDensity, size: Float[Array, ""]) -> Moved:
        """One step."""
        ...


class WalkState(NamedTuple):
    """A position and its log-density."""

    position: Float[Array, "..."]
    value: Float[Array, ""]


@dataclass(frozen=True)
class RandomWalk:
    """Metropolis: all coordinates of y move at once, by `size` times independent noise of variance 1.

    The noise is the difference of two uniforms: symmetric, hence exact, and a third of the cost of Gaussian noise.
    """

    acceptance: tuple[float, float] = (0.2, 0.5)

    def noise(self, key: PRNGKeyArray, num: int, like: Float[Array, "..."]) -> PyTree:
        """Increments, and logarithms of uniforms."""
        bits = jax.random.bits(fast(key), (num, like.size + 1), jnp.uint32)
        upper, lower = ((half.astype(like.dtype)) for half in (bits[:, 1:] >> 16, bits[:, 1:] & 0xFFFF))
        increments = (upper - lower) * (np.sqrt(6.0).astype(like.dtype) / 2**16)
        uniforms = ((bits[:, 0] >> 8).astype(like.dtype) + 0.5) / 2**24
        return increments.reshape(num, *like.shape), jnp.log(uniforms)

    def init(self, position: Float[Array, "..."], log_density: LogDensity) -> WalkState:
        """The state at a position."""
        return WalkState(position, log_density(position))

    def step(self, noise: PyTree, state: WalkState, log_density: LogDensity, size: Float[Array, ""]) -> Moved:
        """One step."""
        increment, log_uniform = noise
        proposed = self.init(state.position + size * increment, log_density)
        accepted = log_uniform < proposed.value - state.value
        state = jax.tree.map(lambda new, old: jnp.where(accepted, new, old), proposed, state)
        return Moved(state, accepted.astype(proposed.value.dtype))


@dataclass(frozen=True)
class Hmc:
    """Hamiltonian Monte Carlo with `leapfrogs` steps of `size` a move; with one leapfrog it is MALA (Langevin)."""

    leapfrogs: int = 5
    acceptance: tuple[float, float] = (0.6, 0.9)

    def noise(self, key: PRNGKeyArray, num: int, like: Float[Array, "..."]) -> PyTree:
        """One key and one factor of the step size a step."""
        key_factors, key_steps = jax.random.split(key)
        logarithms = jax.random.uniform(key_factors, (num,), like.dtype, np.log(SMALLEST), 0.0)
        return fast(jax.random.split(key_steps, num)), jnp.exp(logarithms)

    def init(self, position: Float[Array, "..."], log_density: LogDensity) -> Any:
        """The state at a position."""
        from blackjax.mcmc import hmc  # importing it starts JAX's backend, whose devices could then not be chosen

        return hmc.init(position, log_density)

    def step(self, noise: PyTree, state: Any, log_density: LogDensity, size: Float[Array, ""]) -> Moved:
        """One step."""
        from blackjax.mcmc import hmc

        key, factor = noise
        unit = jnp.ones(state.position.size, state.position.dtype)
        state, info = hmc.build_kernel()(key, state, log_density, factor * size, unit, self.leapfrogs)
        return Moved(state, info.acceptance_rate)


KernelName = Literal["random-walk", "mala", "hmc"]
KERNELS: dict[str, Kernel] = {"random-walk": RandomWalk(), "mala": Hmc(1, (0.45, 0.75)), "hmc": Hmc()}


def run_kernel(
    kernel: Kernel,
    key: PRNGKeyArray,
    log_density: LogDensity,
    position: Float[Array, "..."],
    size: Float[Array, ""],
    num_steps: int,
) -> tuple[Float[Array, "..."], Float[Array, ""]]:
    """Where `num_steps` steps from `position` lead, and their mean acceptance."""
    most = max(1, NOISE // (position.size + 1))
    block = max(divisor for divisor in range(1, min(num_steps, most) + 1) if num_steps % divisor == 0)

    def step(carried: tuple[Any, Array], noise: PyTree) -> tuple[tuple[Any, Array], None]:
        state, total = carried
        moved = kernel.step(noise, state, log_density, size)
        return (moved.state, total + moved.acceptance), None

    def steps(carried: tuple[Any, Array], key: PRNGKeyArray) -> tuple[tuple[Any, Array], None]:
        return jax.lax.scan(step, carried, kernel.noise(key, block, position))[0], None

    start = (kernel.init(position, log_density), jnp.zeros((), position.dtype))
    (state, total), _ = jax.lax.scan(steps, start, jax.random.split(key, num_steps // block))
    return state.position, total / num_steps
