"""From θ to statistics of data simulated at θ: compiled where model and statistics are JAX code, on the host else."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from suffice.compiling import compiled
from suffice.errors import ModelError
from suffice.model import Model
from suffice.simulation import Status, simulate_at
from suffice.simulation.blocks import LANES, Pairs, simulate_one

NUMBERS = 2**22  # numbers in the data that the host looks at at once, at most


class Measured(NamedTuple):
    """The statistics of simulated data: whether the simulation went well, and whether the statistics are finite too."""

    statistics: Float[Array | np.ndarray, "*n s"]
    simulated: Bool[Array | np.ndarray, "*n"]
    good: Bool[Array | np.ndarray, "*n"]


class Measure(eqx.Module):
    """A model's simulator followed by statistics."""

    model: Model = eqx.field(static=True)
    statistics: Callable[..., Any]
    num_statistics: int = eqx.field(static=True)
    traceable_statistics: bool = eqx.field(static=True)
    executor: Any = eqx.field(static=True, default=None)

    @classmethod
    def of(cls, model: Model, statistics: Callable[..., Any], example: np.ndarray, executor: Any = None) -> "Measure":
        """Try the statistics out, traced and, failing that, on the data `example`."""
        x = jax.ShapeDtypeStruct(model.data_shape, example.dtype)
        try:
            shape, traceable = jax.eval_shape(statistics, x).shape, True
        except Exception:
            traceable = False
            try:
                shape = np.shape(statistics(example))
            except Exception as error:
                raise ModelError(
                    f"The statistics failed for data of shape {model.data_shape}: {type(error).__name__}: {error}. "
                    "They must be statistics(x) -> vector, for one x of the model."
                ) from error
        if len(shape) != 1 or 0 in shape:
            raise ModelError(
                f"The statistics of one x have shape {shape}, but must be a vector of at least one number. "
                "Return an array of one axis."
            )
        return cls(model, _hashable(statistics), shape[0], traceable, executor)

    @property
    def traceable(self) -> bool:
        """Whether simulator and statistics may run inside a compiled program."""
        return self.model.traceable and self.traceable_statistics

    def traced(
        self, key: PRNGKeyArray, theta: Float[Array, "n p"], wanted: Bool[Array, " n"] | None = None
    ) -> Measured:
        """Statistics of one simulation at each row of θ that is wanted; JAX code.

        The i-th of these rows uses the key `fold_in(key, i)`. They are simulated a group at a time, so the time taken
        is that of the wanted rows; the last group is filled up with rows that are not, which must be no harm.
        """

        def one(key: PRNGKeyArray, theta: Array) -> Measured:
            pairs = simulate_one(self.model, key, theta)
            return self._marked(jnp.asarray(self.statistics(pairs.x), theta.dtype), pairs.status)

        count, group = len(theta), min(LANES, len(theta))
        wanted = jnp.ones(count, bool) if wanted is None else wanted
        place = jnp.where(wanted, jnp.cumsum(wanted), jnp.sum(wanted) + jnp.cumsum(~wanted)) - 1
        order = jnp.zeros(-(-count // group) * group, int).at[place].set(jnp.arange(count))

        def simulate(number: Any, made: Measured) -> Measured:
            start = number * group
            rows = jax.lax.dynamic_slice_in_dim(order, start, group)
            keys = jax.vmap(lambda i: jax.random.fold_in(key, i))((start + jnp.arange(group)).astype(jnp.uint32))
            new = jax.vmap(one)(keys, theta[rows])
            return jax.tree.map(lambda old, new: jax.lax.dynamic_update_slice_in_dim(old, new, start, 0), made, new)

        nothing = jnp.zeros(len(order), bool)
        empty = Measured(jnp.zeros((len(order), self.num_statistics), theta.dtype), nothing, nothing)
        made = jax.lax.fori_loop(0, -(-jnp.sum(wanted) // group), simulate, empty)
        return jax.tree.map(lambda part: part[place], made)

    def on_host(self, key: PRNGKeyArray, theta: Float[np.ndarray, "n p"], wanted: Bool[np.ndarray, " n"]) -> Measured:
        """The same at those rows of θ that are wanted; the i-th of them uses the key `fold_in(key, i)`."""
        rows = np.flatnonzero(wanted)
        if not len(rows):
            nothing = np.zeros(len(theta), bool)
            return Measured(np.zeros((len(theta), self.num_statistics), theta.dtype), nothing, nothing)
        order = np.argsort(~wanted, stable=True)
        asked = theta[order] if self.model.traceable else theta[rows]  # compiled simulators want one shape
        pairs = self._simulated(key, asked)
        status = np.full(len(theta), Status.NOT_FINITE, np.int8)
        status[rows] = pairs.status[: len(rows)]
        x = np.zeros((len(theta), *self.model.data_shape), pairs.x.dtype)
        x[rows] = pairs.x[: len(rows)]
        return self.of_data(x, status)

    def of_data(self, x: Float[np.ndarray, "n ..."], status: np.ndarray | None = None) -> Measured:
        """The statistics of each row of data."""
        status = np.zeros(len(x), np.int8) if status is None else status
        dtype = jax.dtypes.canonicalize_dtype(float)
        if self.traceable_statistics:
            return Measured(*(np.asarray(part) for part in _of_data(self, jnp.asarray(x), jnp.asarray(status))))
        values = np.zeros((len(x), self.num_statistics), dtype)
        for row in np.flatnonzero(status == Status.GOOD):
            values[row] = self.statistics(np.asarray(x[row]))
        simulated = status == Status.GOOD
        return Measured(values, simulated, simulated & np.all(np.isfinite(values), axis=1))

    def from_prior(self, key: PRNGKeyArray, num: int) -> tuple[Float[np.ndarray, "n p"], Measured]:
        """θ from the prior and the statistics of one simulation each."""
        key_prior, key_data = jax.random.split(key)
        if self.traceable:
            drawn, measured = _from_prior(self, key_prior, key_data, num)
            return np.asarray(drawn), Measured(*(np.asarray(part) for part in measured))
        theta = np.asarray(self.model.prior.sample(key_prior, (num,)))
        return theta, self.on_host(key_data, theta, np.ones(num, bool))

    def at(self, key: PRNGKeyArray, theta: Float[np.ndarray, "n p"]) -> Measured:
        """Statistics of one simulation at each row of θ."""
        if self.traceable:
            return Measured(*(np.asarray(part) for part in _at(self, key, jnp.asarray(theta))))
        return self.on_host(key, theta, np.ones(len(theta), bool))

    def _simulated(self, key: PRNGKeyArray, theta: Float[np.ndarray, "n p"]) -> Pairs:
        return simulate_at(key, self.model, theta, executor=self.executor)

    def _marked(self, values: Float[Array, " s"], status: Array | np.ndarray) -> Measured:
        simulated = status == Status.GOOD
        return Measured(values, simulated, simulated & jnp.all(jnp.isfinite(values)))


@compiled
def _from_prior(measure: Measure, key_prior: PRNGKeyArray, key_data: PRNGKeyArray, num: int) -> tuple[Array, Measured]:
    theta = measure.model.prior.sample(key_prior, (num,))
    return theta, measure.traced(key_data, theta)


@compiled
def _at(measure: Measure, key: PRNGKeyArray, theta: Array) -> Measured:
    return measure.traced(key, theta)


@compiled
def _of_data(measure: Measure, x: Array, status: Array) -> Measured:
    def one(x: Array, status: Array) -> Measured:
        return measure._marked(jnp.asarray(measure.statistics(x), x.dtype), status)

    return jax.vmap(one)(x, status)


def require_sound(values: Float[np.ndarray, "n s"], what: str = "simulations from the prior") -> None:
    """Refuse statistics that are not finite or do not vary, naming the component."""
    broken = np.argwhere(~np.isfinite(values))
    if len(broken):
        component = int(broken[0, 1])
        count = int(np.sum(~np.isfinite(values[:, component])))
        raise ModelError(
            f"Statistic {component} is not finite for {count} of {len(values)} {what}. "
            "Return finite numbers for all data inside the model's support."
        )
    centre, spread = np.abs(values.mean(axis=0, dtype=np.float64)), values.std(axis=0, dtype=np.float64)
    constant = np.flatnonzero(spread <= 1e-6 * centre + 1e-30)
    if len(constant):
        raise ModelError(
            f"Statistic {int(constant[0])} is constant over {len(values)} {what}, so it says nothing of theta. "
            "Leave it out."
        )


class _Named:
    """A callable without a hash, compared by identity."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, x: Any) -> Any:
        return self.function(x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Named) and other.function is self.function

    def __hash__(self) -> int:
        return id(self.function)


def _hashable(function: Callable[..., Any]) -> Callable[..., Any]:
    if isinstance(function, eqx.Module):
        return function
    try:
        hash(function)
    except TypeError:
        return _Named(function)
    return function
