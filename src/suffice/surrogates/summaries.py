"""Statistics of simulations: any callable of one x, JAX code or not, checked before anything long runs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from suffice.errors import ModelError
from suffice.model import Model
from suffice.simulation import Status, simulate_at, traced_at

Statistics = Callable[[Any], Any]

TRIALS = 500  # simulations from the prior on which statistics are tried
WORTHLESS = 0.5  # share of failed trials at which a run is refused


@dataclass(frozen=True)
class Summaries:
    """Statistics of a model's data: how many, and whether they run inside compiled programs with the simulator.

    Equal for the same model and statistics, so that programs compiled for them are found again.
    """

    model: Model
    statistics: Statistics
    size: int
    compiled: bool  # whether the statistics are JAX code
    executor: Any = field(default=None, compare=False)

    @property
    def traced(self) -> bool:
        """Whether statistics and simulator are JAX code."""
        return self.compiled and self.model.traceable

    @classmethod
    def of(cls, model: Model, statistics: Statistics, executor: Any = None) -> "Summaries":
        """The statistics, after one look at their shape; `executor`: where other simulators than JAX code run."""
        if not callable(statistics):
            raise TypeError(f"statistics is {statistics!r}, but must be a callable: statistics(x) -> vector.")
        x = jax.ShapeDtypeStruct(model.data_shape, jax.dtypes.canonicalize_dtype(float))
        try:
            shape, compiled = jax.eval_shape(lambda x: jnp.asarray(statistics(x)), x).shape, True
        except jax.errors.JAXTypeError:
            shape, compiled = np.shape(statistics(_one(model, executor))), False
        except Exception as error:
            raise ValueError(
                f"The statistics failed for an x of shape {model.data_shape}: {type(error).__name__}: {error}. "
                "They must be a function of one x that gives a vector."
            ) from error
        if len(shape) != 1 or not shape[0]:
            raise ValueError(
                f"The statistics of one x have shape {tuple(shape)}, but must be a vector (s,). Return "
                "jnp.stack([first, second, …]) or reshape them."
            )
        return cls(model, _hashable(statistics), int(shape[0]), compiled, executor)

    def __call__(
        self, x: Float[np.ndarray, "n ..."], good: Bool[np.ndarray, " n"] | None = None
    ) -> Float[np.ndarray, "n s"]:
        """The statistics of rows of x, on the host; 0 where a row is not good."""
        dtype = jax.dtypes.canonicalize_dtype(float)
        good = np.ones(len(x), bool) if good is None else good
        if self.compiled:
            rows = np.asarray(_of_rows(self.statistics, jnp.asarray(x, dtype)), dtype)
            return np.where(good[:, None], rows, 0.0)
        found = np.zeros((len(x), self.size), dtype)
        for i in np.flatnonzero(good):
            found[i] = self.statistics(x[i])
        return found

    def simulated(
        self, key: PRNGKeyArray, theta: Float[Array | np.ndarray, "n p"]
    ) -> tuple[Float[np.ndarray, "n s"], Bool[np.ndarray, " n"]]:
        """Statistics of one simulation at each row of θ, and whether they can be used; on the host."""
        pairs = simulate_at(key, self.model, theta, executor=self.executor)
        good = np.asarray(pairs.status == Status.GOOD)
        rows = self(np.asarray(pairs.x), good)
        good = good & np.isfinite(rows).all(axis=1)
        return np.where(good[:, None], rows, 0.0), good

    def traced_simulated(
        self, key: PRNGKeyArray, theta: Float[Array, " p"], number: int
    ) -> tuple[Float[Array, "n s"], Bool[Array, " n"]]:
        """Statistics of `number` simulations at one θ, and whether they can be used; JAX code."""
        pairs = traced_at(key, self.model, jnp.broadcast_to(theta, (number, len(theta))))
        rows = jax.vmap(lambda x: jnp.asarray(self.statistics(x), theta.dtype))(pairs.x)
        good = (pairs.status == Status.GOOD) & jnp.all(jnp.isfinite(rows), axis=1)
        return jnp.where(good[:, None], rows, 0.0), good

    def require_sound(self, key: PRNGKeyArray) -> None:
        """Refuse statistics that are not finite or constant on simulations from the prior."""
        key_theta, key_x = jax.random.split(key)
        theta = self.model.prior.sample(key_theta, (TRIALS,))
        pairs = simulate_at(key_x, self.model, theta, executor=self.executor)
        good = np.asarray(pairs.status == Status.GOOD)
        if np.mean(~good) > WORTHLESS:
            raise ModelError(
                f"{np.sum(~good)} of {TRIALS} simulations from the prior failed: they are not finite or leave the "
                "declared support. suffice.check(model) tells more."
            )
        rows = self(np.asarray(pairs.x), good)[good].astype(np.float64)
        self._refuse(~np.isfinite(rows).all(axis=0), "is not finite for some of", "Mend it, or leave it out.")
        constant = rows.std(axis=0) <= 1e-6 * np.abs(rows).max(axis=0)
        self._refuse(constant, "is the same in all of", "It can tell nothing about theta: leave it out.")

    def _refuse(self, bad: Bool[np.ndarray, " s"], what: str, remedy: str) -> None:
        if bad.any():
            where = ", ".join(str(index) for index in np.flatnonzero(bad))
            raise ValueError(
                f"Of the {self.size} statistics, component {where} (counted from 0) {what} {TRIALS} simulations from "
                f"the prior. {remedy}"
            )


def _hashable(statistics: Statistics) -> Statistics:
    """The statistics themselves, or inside a function, which compiled programs are found by."""
    try:
        hash(statistics)
    except TypeError:
        return lambda x: statistics(x)
    return statistics


def _one(model: Model, executor: Any) -> Float[np.ndarray, "..."]:
    """Some x, to see what the statistics make of it."""
    theta = model.prior.sample(jax.random.key(0), (1,))
    return np.asarray(simulate_at(jax.random.key(1), model, theta, executor=executor).x)[0]


@eqx.filter_jit
def _of_rows(statistics: Statistics, x: Array) -> Array:
    return jax.vmap(lambda x: jnp.asarray(statistics(x), x.dtype))(x)
