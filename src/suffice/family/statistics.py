"""Networks that may be statistics f(y): modules that map one y in chart coordinates to a vector.

y is a vector (d,), a series (T,) or a multivariate series (T, K). `Mlp` takes y as it is. The others know a symmetry of
the model: `PartiallyExchangeable` (Eq. PEN of the paper) and `AdditiveMarkov` that a series is r-Markov, or, with
`lags`, stationary with a memory that fades, `DeepSet` that coordinates are iid. All have a `data_shape` and a
`num_outputs`, are written for one y, and must be smooth, because score matching differentiates them twice.
"""

import math
from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.family.innovations import Innovations as Innovations
from suffice.family.networks import Activation as Activation
from suffice.family.networks import Affine as Affine
from suffice.family.networks import Mlp as Mlp
from suffice.family.networks import require_shape
from suffice.family.networks import require_smooth as require_smooth
from suffice.family.networks import softplus as softplus


class PartiallyExchangeable(eqx.Module):
    """The paper's PEN of order r: f(y) = ρ(y_{1:r}, Σ_t φ(y_{t:t+r})), invariant to r-block switches (Eq. PEN).

    φ, `window`, is an `Mlp` of `window_widths` from the r + 1 steps of a window (all K series) to `window_outputs`
    values; ρ, `outer`, one of `widths` from the first r steps and their sum.

    >>> network = PartiallyExchangeable(jax.random.key(0), (100,), 2, order=2)
    >>> network(jnp.zeros(100)).shape
    (2,)
    """

    window: Mlp
    outer: Mlp
    order: int = eqx.field(static=True)
    data_shape: tuple[int, ...] = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        data_shape: tuple[int, ...],
        num_outputs: int,
        order: int,
        window_widths: Sequence[int] = (50, 50, 30),
        window_outputs: int = 20,
        widths: Sequence[int] = (50, 50),
        *,
        activation: Activation = softplus,
        skip: bool = False,
    ) -> None:
        series = _num_series(data_shape, order)
        window_key, outer_key = jax.random.split(key)
        window_shape, outer_shape = ((order + 1) * series,), (order * series + window_outputs,)
        self.window = Mlp(window_key, window_shape, window_outputs, window_widths, activation=activation)
        self.outer = Mlp(outer_key, outer_shape, num_outputs, widths, activation=activation, skip=skip)
        self.order = order
        self.data_shape = data_shape
        self.num_outputs = num_outputs

    def __call__(self, y: Float[Array, "..."]) -> Float[Array, " m"]:
        """f(y)."""
        require_shape(y, self.data_shape)
        summed = self.window.summed(windows(y, self.order).T)
        return self.outer(jnp.concatenate([y[: self.order].reshape(-1), summed]))


class AdditiveMarkov(eqx.Module):
    """Statistics that add up over windows, as an r-Markov log-density does: f(y) = ρ₀(y_{1:r}) + Σ_t φ(y_{t:t+r}).

    φ, `window`, is an `Mlp` of `widths` on the r + 1 steps of a window, with the maps beside it that `skip` and
    `quadratic` name; ρ₀, `first`, one on the first r steps, of `first_widths` (`widths` if not given). Order 0 has no
    ρ₀. With `lags`, a linear map of the autocovariances γ_h(y) = Σ_t y_t y_{t+h} of each series, h = 0, …, lags, is
    added, `lagged`: the log-density −½ yᵀ Σ(θ)⁻¹ y of a stationary Gaussian series that is not Markov is such a map, up
    to terms at the ends (Whittle). It begins with one autocovariance in each output.

    >>> network = AdditiveMarkov(jax.random.key(0), (100,), 5, order=2)
    >>> network(jnp.zeros(100)).shape
    (5,)
    """

    window: Mlp
    first: Mlp | None
    lagged: Float[Array, "outputs series lags"] | None
    order: int = eqx.field(static=True)
    data_shape: tuple[int, ...] = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        data_shape: tuple[int, ...],
        num_outputs: int,
        order: int,
        widths: Sequence[int] = (50, 50, 30),
        *,
        first_widths: Sequence[int] | None = None,
        activation: Activation = softplus,
        skip: bool = False,
        quadratic: bool = False,
        lags: int | None = None,
    ) -> None:
        series = _num_series(data_shape, order)
        window_key, first_key = jax.random.split(key)
        first_widths = widths if first_widths is None else first_widths
        window_shape, first_shape = ((order + 1) * series,), (order * series,)
        self.window = Mlp(
            window_key, window_shape, num_outputs, widths, activation=activation, skip=skip, quadratic=quadratic
        )
        self.first = Mlp(first_key, first_shape, num_outputs, first_widths, activation=activation) if order else None
        self.lagged = None if lags is None else _initial_lagged(key, data_shape, num_outputs, lags)
        self.order = order
        self.data_shape = data_shape
        self.num_outputs = num_outputs

    def __call__(self, y: Float[Array, "..."]) -> Float[Array, " m"]:
        """f(y)."""
        require_shape(y, self.data_shape)
        outputs = self.window.summed(windows(y, self.order).T)
        if self.first is not None:
            outputs = outputs + self.first(y[: self.order].reshape(-1))
        if self.lagged is not None:
            neighbours = both_neighbours(y, self.lagged.shape[-1] - 1)
            autocovariances = 0.5 * jnp.einsum("tk,tkh->kh", y.reshape(len(y), -1), neighbours)
            outputs = outputs + jnp.tensordot(self.lagged, autocovariances, 2)
        return outputs


class DeepSet(eqx.Module):
    """Statistics of iid coordinates: f(y) = Σ_i φ(y_i), or ρ(Σ_i φ(y_i)) where `outer_widths` are given.

    φ, `each`, is an `Mlp` of `widths` on one coordinate; ρ, `outer`, one from the `summed_outputs` values of
    that sum.

    >>> network = DeepSet(jax.random.key(0), (10,), 3)
    >>> network(jnp.zeros(10)).shape
    (3,)
    """

    each: Mlp
    outer: Mlp | None
    data_shape: tuple[int, ...] = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        data_shape: tuple[int, ...],
        num_outputs: int,
        widths: Sequence[int] = (30, 50, 20),
        *,
        outer_widths: Sequence[int] | None = None,
        summed_outputs: int = 20,
        activation: Activation = softplus,
        skip: bool = False,
        quadratic: bool = False,
    ) -> None:
        if len(data_shape) != 1:
            raise ValueError(
                f"The data have shape {data_shape}, but a DeepSet takes the iid coordinates of a vector (d,). "
                "Use PartiallyExchangeable or AdditiveMarkov of order 0 for iid rows of several coordinates."
            )
        each_key, outer_key = jax.random.split(key)
        summed = num_outputs if outer_widths is None else summed_outputs
        self.each = Mlp(each_key, (1,), summed, widths, activation=activation, skip=skip, quadratic=quadratic)
        self.outer = None
        if outer_widths is not None:
            self.outer = Mlp(outer_key, (summed,), num_outputs, outer_widths, activation=activation)
        self.data_shape = data_shape
        self.num_outputs = num_outputs

    def __call__(self, y: Float[Array, " d"]) -> Float[Array, " m"]:
        """f(y)."""
        require_shape(y, self.data_shape)
        summed = self.each.summed(y[None, :])
        return summed if self.outer is None else self.outer(summed)


def windows(y: Float[Array, "steps ..."], order: int) -> Float[Array, "windows inputs"]:
    """Row t holds y_t, …, y_{t+order}, all series of a step side by side."""
    steps = y.reshape(len(y), -1)
    number = len(steps) - order
    return jnp.concatenate([steps[lag : lag + number] for lag in range(order + 1)], axis=1)


def both_neighbours(y: Float[Array, "steps ..."], lags: int) -> Float[Array, "steps series lags"]:
    """y_{t−h} + y_{t+h} at [t, k, h], h = 0, …, lags, with 0 beyond the ends: ∂γ_h/∂y_t of γ_h = Σ_t y_t y_{t+h}."""
    steps = y.reshape(len(y), -1)
    number = len(steps)
    padded = jnp.pad(steps, ((lags, lags), (0, 0)))
    later = [padded[lags + lag : lags + lag + number] for lag in range(lags + 1)]
    earlier = [padded[lags - lag : lags - lag + number] for lag in range(lags + 1)]
    return jnp.stack(later, axis=-1) + jnp.stack(earlier, axis=-1)


def _initial_lagged(key: PRNGKeyArray, data_shape: tuple[int, ...], num_outputs: int, lags: int) -> Array:
    """A share of γ_h in output h (counted through all outputs), and a little noise."""
    if not 0 <= lags < data_shape[0]:
        raise ValueError(
            f"lags is {lags}, but a series of {data_shape[0]} steps has lags between 0 and {data_shape[0] - 1}."
        )
    shape = (num_outputs, math.prod(data_shape[1:]), lags + 1)
    noise = 0.02 * jax.random.normal(jax.random.fold_in(key, 1), shape)
    return noise + 0.3 * jnp.eye(num_outputs, lags + 1)[:, None, :]


def _num_series(data_shape: tuple[int, ...], order: int) -> int:
    if len(data_shape) not in (1, 2):
        raise ValueError(f"The data have shape {data_shape}, but a series has shape (T,) or (T, K). Reshape the data.")
    if not 0 <= order < data_shape[0]:
        raise ValueError(
            f"order is {order}, but windows of order + 1 steps must fit into {data_shape[0]} steps. "
            f"Give an order between 0 and {data_shape[0] - 1}."
        )
    return math.prod(data_shape[1:])
