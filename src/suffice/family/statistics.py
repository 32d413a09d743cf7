"""Networks that may be statistics f(y): modules that map one y in chart coordinates to a vector.

y is a vector (d,), a series (T,) or a multivariate series (T, K). `Mlp` takes y as it is. The others know a symmetry of
the model: `PartiallyExchangeable` (Eq. PEN of the paper) and `AdditiveMarkov` that a series is r-Markov, `DeepSet` that
coordinates are iid. All have a `data_shape` and a `num_outputs`, are written for one y, and must be smooth, because
score matching differentiates them twice.
"""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise

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

    >>> bool(jnp.allclose(softplus(jnp.array([-200.0, 0.0, 200.0])), jnp.array([0.0, jnp.log(2.0), 200.0])))
    True
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
    if activation is not softplus and not _is_smooth(activation):
        name = getattr(activation, "__name__", repr(activation))
        raise ValueError(
            f"The activation is {name}, whose second derivative vanishes or whose first derivative jumps, but score "
            "matching needs a second derivative. Use a smooth activation, such as suffice.family.statistics.softplus."
        )


@lru_cache(maxsize=64)
def _is_smooth(activation: Activation) -> bool:
    def value_and_slope(z: Array) -> tuple[Array, Array]:
        return jax.jvp(activation, (z,), (jnp.ones_like(z),))

    def slope_and_bend(z: Array) -> tuple[Array, Array]:
        (_, slope), (_, bend) = jax.jvp(value_and_slope, (z,), (jnp.ones_like(z),))
        return slope, bend

    grid = np.linspace(-6.003, 6.001, 6001, dtype=np.float32)
    with jax.ensure_compile_time_eval():
        slopes, bends = (np.asarray(values) for values in jax.jit(slope_and_bend)(grid))
    jump, allowed = np.max(np.abs(np.diff(slopes))), 2 * np.max(np.abs(bends)) * (grid[1] - grid[0])
    return bool(np.mean(np.abs(bends) > 1e-6) > 0.1 and jump <= allowed + 1e-5)


class Affine(eqx.Module):
    """x ↦ A x + b for one x, or for each row of a matrix."""

    weight: Float[Array, "outputs inputs"]
    bias: Float[Array, " outputs"]

    def __call__(self, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows outputs"]:
        """A x + b."""
        return x @ self.weight.T + self.bias


@partial(jax.jit, static_argnames="sizes")
def _initial(key: PRNGKeyArray, sizes: tuple[int, ...]) -> tuple[tuple[Affine, ...], Array]:
    """The layers between `sizes`, and a matrix from the first size to the last; one draw, so that it compiles fast."""
    shapes = [(outputs, inputs + 1) for inputs, outputs in pairwise(sizes)] + [(sizes[-1], sizes[0])]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    uniform = jax.random.uniform(key, (int(ends[-1]),), minval=-1.0, maxval=1.0)
    *layers, skip = (
        part.reshape(shape) / math.sqrt(inputs)
        for part, shape, inputs in zip(jnp.split(uniform, ends[:-1]), shapes, (*sizes[:-1], sizes[0]), strict=True)
    )
    return tuple(Affine(layer[:, :-1], layer[:, -1]) for layer in layers), skip


class Mlp(eqx.Module):
    """A fully connected network on the coordinates of y: f = A_L σ(A_{L−1} … σ(A₁ y)), A_l affine, σ the activation.

    With `skip` a linear map of y is added, with `quadratic` quadratic forms of y, which begin at 0. All other entries
    start uniform on ±1/√inputs of their layer, as PyTorch's do.

    >>> network = Mlp(jax.random.key(0), (10,), 3, widths=(30, 20))
    >>> network(jnp.zeros(10)).shape
    (3,)
    """

    layers: tuple[Affine, ...]
    skip: Float[Array, "outputs inputs"] | None
    quadratic: Float[Array, "outputs inputs inputs"] | None
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
        quadratic: bool = False,
    ) -> None:
        require_smooth(activation)
        sizes = (math.prod(data_shape), *widths, num_outputs)
        if min(sizes) < 1:
            raise ValueError(
                f"The layers would have sizes {sizes} (data of shape {data_shape}, widths {tuple(widths)}, num_outputs "
                f"{num_outputs}), but every size must be at least 1. Give positive sizes."
            )
        self.layers, linear = _initial(key, sizes)
        self.skip = linear if skip else None
        self.quadratic = jnp.zeros((num_outputs, sizes[0], sizes[0])) if quadratic else None
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
        if self.skip is not None:
            outputs = outputs + self.skip @ inputs
        return outputs if self.quadratic is None else outputs + (self.quadratic @ inputs) @ inputs


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

    φ, `window`, is an `Mlp` of `widths` on the r + 1 steps of a window, with the maps beside it that `skip` and
    `quadratic` name; ρ₀, `first`, one on the first r steps, of `first_widths` (`widths` if not given). Order 0 has no
    ρ₀.

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
        quadratic: bool = False,
    ) -> None:
        series = _num_series(data_shape, order)
        window_key, first_key = jax.random.split(key)
        first_widths = widths if first_widths is None else first_widths
        first_shape = (order * series,)
        window_shape = ((order + 1) * series,)
        self.window = Mlp(
            window_key, window_shape, num_outputs, widths, activation=activation, skip=skip, quadratic=quadratic
        )
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
