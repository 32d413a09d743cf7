"""Networks that may be statistics f(y): modules that map one y in chart coordinates to a vector.

y is a vector (d,), a series (T,) or a multivariate series (T, K). `Mlp` takes y as it is. The others know a symmetry of
the model: `PartiallyExchangeable` (Eq. PEN of the paper) and `AdditiveMarkov` that a series is r-Markov, `DeepSet` that
coordinates are iid. All have a `data_shape` and a `num_outputs`, are written for one y, and must be smooth, because
score matching differentiates them twice.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

Activation = Callable[[Float[Array, "..."]], Float[Array, "..."]]


@jax.custom_jvp
def softplus(z: Float[Array, "..."]) -> Float[Array, "..."]:
    """σ(z) = log(1 + exp z) = max(z, 0) + log(1 + e) with e = exp(−|z|), exact to rounding and without overflow.

    In float32 the logarithm is 2 artanh(u) with u = e / (2 + e) ≤ 1/3, by its series: half the time of `log1p`, as
    accurate. The derivative is the sigmoid itself, many times cheaper than what `jax.nn.softplus` leaves to XLA.

    >>> softplus(jnp.array([-200.0, 0.0, 200.0])).round(3).tolist()
    [0.0, 0.6930000185966492, 200.0]
    """
    z = jnp.asarray(z)
    e = jnp.exp(-jnp.abs(z))
    if z.dtype != jnp.float32:
        return jnp.maximum(z, 0.0) + jnp.log1p(e)
    u = e / (2.0 + e)
    series = jnp.full_like(u, 2.0 / 15.0)
    for denominator in (13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0):
        series = series * (u * u) + 2.0 / denominator
    return jnp.maximum(z, 0.0) + u * series


@softplus.defjvp
def _softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (z,), (tangent,) = primals, tangents
    return softplus(z), jax.nn.sigmoid(z) * tangent


def require_smooth(activation: Activation) -> None:
    """Raise a `ValueError` unless σ' is continuous and σ'' is not zero almost everywhere, seen on a grid.

    >>> require_smooth(jnp.tanh)
    """
    if not _is_smooth(activation):
        name = getattr(activation, "__name__", repr(activation))
        raise ValueError(
            f"The activation is {name}, whose second derivative vanishes or whose first derivative jumps, but score "
            "matching needs a second derivative. Use a smooth activation, such as suffice.family.statistics.softplus."
        )


@lru_cache(maxsize=64)
def _is_smooth(activation: Activation) -> bool:
    def value_and_slope(z: Array) -> tuple[Array, Array]:
        return jax.jvp(activation, (z,), (jnp.ones_like(z),))

    with jax.ensure_compile_time_eval():
        grid = jnp.linspace(-6.003, 6.001, 6001, dtype=jnp.float32)
        (_, slopes), (_, bends) = jax.jvp(value_and_slope, (grid,), (jnp.ones_like(grid),))
        curved = np.mean(np.abs(bends) > 1e-6) > 0.1
        jump, allowed = np.max(np.abs(np.diff(slopes))), np.max(np.abs(bends)) * (grid[1] - grid[0])
        return bool(curved and jump <= 2 * allowed + 1e-5)


class Affine(eqx.Module):
    """x ↦ A x + b for one x, or for each row of a matrix; A and b start uniform on ±1/√inputs, as PyTorch's do."""

    weight: Float[Array, "outputs inputs"]
    bias: Float[Array, " outputs"]

    def __init__(self, key: PRNGKeyArray, inputs: int, outputs: int) -> None:
        weight_key, bias_key = jax.random.split(key)
        self.weight = _uniform(weight_key, (outputs, inputs), inputs)
        self.bias = _uniform(bias_key, (outputs,), inputs)

    def __call__(self, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows outputs"]:
        """A x + b."""
        return x @ self.weight.T + self.bias


def _uniform(key: PRNGKeyArray, shape: tuple[int, ...], inputs: int) -> Array:
    bound = 1.0 / math.sqrt(inputs)
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


class Mlp(eqx.Module):
    """A fully connected network on the coordinates of y: f = A_L σ(A_{L−1} … σ(A₁ y)), A_l affine, σ the activation.

    With `skip` a linear map of y is added.

    >>> network = Mlp(jax.random.key(0), (10,), 3, widths=(30, 20))
    >>> network(jnp.zeros(10)).shape
    (3,)
    """

    layers: tuple[Affine, ...]
    skip: Float[Array, "outputs inputs"] | None
    activation: Activation = eqx.field(static=True)
    data_shape: tuple[int, ...] = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        data_shape: tuple[int, ...],
        num_outputs: int,
        widths: Sequence[int] = (30, 50, 50, 20),
        *,
        activation: Activation = softplus,
        skip: bool = False,
    ) -> None:
        require_smooth(activation)
        sizes = (math.prod(data_shape), *widths, num_outputs)
        if min(sizes) < 1:
            raise ValueError(
                f"The layers would have sizes {sizes} (data of shape {data_shape}, widths {tuple(widths)}, num_outputs "
                f"{num_outputs}), but every size must be at least 1. Give positive sizes."
            )
        *keys, skip_key = jax.random.split(key, len(sizes))
        self.layers = tuple(
            Affine(layer_key, inputs, outputs)
            for inputs, outputs, layer_key in zip(sizes[:-1], sizes[1:], keys, strict=True)
        )
        self.skip = _uniform(skip_key, (num_outputs, sizes[0]), sizes[0]) if skip else None
        self.activation = activation
        self.data_shape = data_shape
        self.num_outputs = num_outputs

    def __call__(self, y: Float[Array, "..."]) -> Float[Array, " m"]:
        """f(y)."""
        _require_shape(y, self.data_shape)
        inputs = values = y.reshape(-1)
        *hidden, last = self.layers
        for layer in hidden:
            values = self.activation(layer(values))
        outputs = last(values)
        return outputs if self.skip is None else outputs + self.skip @ inputs


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
        window_shape = ((order + 1) * series,)
        outer_shape = (order * series + window_outputs,)
        self.window = Mlp(window_key, window_shape, window_outputs, window_widths, activation=activation)
        self.outer = Mlp(outer_key, outer_shape, num_outputs, widths, activation=activation, skip=skip)
        self.order = order
        self.data_shape = data_shape
        self.num_outputs = num_outputs

    def __call__(self, y: Float[Array, "..."]) -> Float[Array, " m"]:
        """f(y)."""
        _require_shape(y, self.data_shape)
        summed = jnp.sum(jax.vmap(self.window)(windows(y, self.order)), axis=0)
        return self.outer(jnp.concatenate([y[: self.order].reshape(-1), summed]))


class AdditiveMarkov(eqx.Module):
    """Statistics that add up over windows, as an r-Markov log-density does: f(y) = ρ₀(y_{1:r}) + Σ_t φ(y_{t:t+r}).

    φ, `window`, is an `Mlp` of `widths` on the r + 1 steps of a window, with a linear map beside it if `skip`; ρ₀,
    `first`, one on the first r steps, of `first_widths` (`widths` if not given). Order 0 has no ρ₀.

    >>> network = AdditiveMarkov(jax.random.key(0), (100,), 5, order=2)
    >>> network(jnp.zeros(100)).shape
    (5,)
    """

    window: Mlp
    first: Mlp | None
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
    ) -> None:
        series = _num_series(data_shape, order)
        window_key, first_key = jax.random.split(key)
        first_widths = widths if first_widths is None else first_widths
        first_shape = (order * series,)
        self.window = Mlp(window_key, ((order + 1) * series,), num_outputs, widths, activation=activation, skip=skip)
        self.first = Mlp(first_key, first_shape, num_outputs, first_widths, activation=activation) if order else None
        self.order = order
        self.data_shape = data_shape
        self.num_outputs = num_outputs

    def __call__(self, y: Float[Array, "..."]) -> Float[Array, " m"]:
        """f(y)."""
        _require_shape(y, self.data_shape)
        summed = jnp.sum(jax.vmap(self.window)(windows(y, self.order)), axis=0)
        return summed if self.first is None else summed + self.first(y[: self.order].reshape(-1))


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
    ) -> None:
        if len(data_shape) != 1:
            raise ValueError(
                f"The data have shape {data_shape}, but a DeepSet takes the iid coordinates of a vector (d,). "
                "Use PartiallyExchangeable or AdditiveMarkov of order 0 for iid rows of several coordinates."
            )
        each_key, outer_key = jax.random.split(key)
        summed = num_outputs if outer_widths is None else summed_outputs
        self.each = Mlp(each_key, (1,), summed, widths, activation=activation, skip=skip)
        self.outer = None
        if outer_widths is not None:
            self.outer = Mlp(outer_key, (summed,), num_outputs, outer_widths, activation=activation)
        self.data_shape = data_shape
        self.num_outputs = num_outputs

    def __call__(self, y: Float[Array, " d"]) -> Float[Array, " m"]:
        """f(y)."""
        _require_shape(y, self.data_shape)
        summed = jnp.sum(jax.vmap(self.each)(y[:, None]), axis=0)
        return summed if self.outer is None else self.outer(summed)


def windows(y: Float[Array, "steps ..."], order: int) -> Float[Array, "windows inputs"]:
    """Row t holds y_t, …, y_{t+order}, all series of a step side by side."""
    steps = y.reshape(len(y), -1)
    number = len(steps) - order
    return jnp.concatenate([steps[lag : lag + number] for lag in range(order + 1)], axis=1)


def _num_series(data_shape: tuple[int, ...], order: int) -> int:
    if len(data_shape) not in (1, 2):
        raise ValueError(f"The data have shape {data_shape}, but a series has shape (T,) or (T, K). Reshape the data.")
    if not 0 <= order < data_shape[0]:
        raise ValueError(
            f"order is {order}, but windows of order + 1 steps must fit into {data_shape[0]} steps. "
            f"Give an order between 0 and {data_shape[0] - 1}."
        )
    return math.prod(data_shape[1:])


def _require_shape(y: Array, data_shape: tuple[int, ...]) -> None:
    if y.shape != data_shape:
        raise ValueError(
            f"y has shape {y.shape}, but this network was made for one y of shape {data_shape}. "
            "Vectorise the network over several with jax.vmap."
        )
