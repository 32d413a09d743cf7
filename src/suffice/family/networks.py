"""What networks are made from: a smooth activation, affine layers, and the fully connected network `Mlp`."""

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float, PRNGKeyArray

Activation = Callable[[Float[Array, "..."]], Float[Array, "..."]]

# 2 artanh(v) = u⁹ + … for |v| ≤ 1/3, with u = scale · v, which makes the first coefficient 1. That saves a product, and
# with it the cost at which XLA's CPU compiler would share out even a small layer over threads, which takes longer.
_SCALE = 0.868719321
_ARTANH = (0.748841947, 0.808971018, 1.016876019, 2.302239583)


@jax.custom_jvp
def softplus(z: Float[Array, "..."]) -> Float[Array, "..."]:
    """σ(z) = log(1 + exp z) = max(z, 0) + log(1 + e) with e = exp(−|z|), exact to rounding and without overflow.

    In float32 the logarithm is 2 artanh(e / (2 + e)), by the odd polynomial of degree 9 of least relative error,
    4·10⁻⁹: half the time of `log1p`, as accurate. The derivative is the sigmoid itself, many times cheaper than what
    `jax.nn.softplus` leaves to XLA.

    >>> bool(jnp.allclose(softplus(jnp.array([-200.0, 0.0, 200.0])), jnp.array([0.0, jnp.log(2.0), 200.0])))
    True
    """
    z = jnp.asarray(z)
    e = jnp.exp(-jnp.abs(z))
    if z.dtype != jnp.float32:
        return jnp.maximum(z, 0.0) + jnp.log1p(e)
    u = e / (2.0 / _SCALE + e * (1.0 / _SCALE))
    polynomial = jnp.ones_like(u)
    for coefficient in _ARTANH:
        polynomial = polynomial * (u * u) + coefficient
    return jnp.maximum(z, 0.0) + u * polynomial


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
        require_shape(y, self.data_shape)
        return self.summed(y.reshape(-1)[:, None])

    def summed(self, inputs: Float[Array, "inputs columns"]) -> Float[Array, " m"]:
        """Σ f over the columns of `inputs`; the last layer, being linear, is taken of the sum."""
        *hidden, last = self.layers
        values = hidden_layers(self.activation)(tuple(hidden), inputs) @ jnp.ones(inputs.shape[1], inputs.dtype)
        outputs = last.weight @ values + inputs.shape[1] * last.bias
        if self.skip is not None:
            outputs = outputs + self.skip @ jnp.sum(inputs, axis=1)
        if self.quadratic is not None:
            outputs = outputs + jnp.tensordot(self.quadratic, inputs @ inputs.T, 2)
        return outputs


@lru_cache(maxsize=64)
def hidden_layers(activation: Activation) -> Callable[[tuple[Affine, ...], Array], Array]:
    """The map (layers, inputs) ↦ σ(A_L … σ(A₁ inputs)) of every column of `inputs`.

    Values of many inputs, vectorised in whatever way, are taken of one wide matrix with inputs as its columns, where
    products and activations run up to twice as fast on a CPU as with inputs as rows. Derivatives are taken by rows.
    """

    def by_rows(layers: tuple[Affine, ...], inputs: Array) -> Array:
        values = inputs.T
        for layer in layers:
            values = activation(layer(values))
        return values.T

    @custom_vmap
    def by_columns(layers: tuple[Affine, ...], inputs: Array) -> Array:
        values = inputs
        for layer in layers:
            values = activation(layer.weight @ values + layer.bias[:, None])
        return values

    @by_columns.def_vmap
    def _(size: int, batched: Any, layers: tuple[Affine, ...], inputs: Array) -> tuple[Array, bool]:
        if any(jax.tree.leaves(batched[0])) or not batched[1]:
            axes = jax.tree.map(lambda has: 0 if has else None, tuple(batched))
            return jax.vmap(by_rows, axes)(layers, inputs), True
        _, rows, columns = inputs.shape
        values = by_columns(layers, jnp.moveaxis(inputs, 0, 1).reshape(rows, size * columns))
        return jnp.moveaxis(values.reshape(len(values), size, columns), 1, 0), True

    @jax.custom_jvp
    def hidden(layers: tuple[Affine, ...], inputs: Array) -> Array:
        return by_columns(layers, inputs)

    @hidden.defjvp
    def _(primals: Any, tangents: Any) -> tuple[Array, Array]:
        return jax.jvp(by_rows, primals, tangents)

    return hidden


def require_shape(y: Float[Array, "..."], data_shape: tuple[int, ...]) -> None:
    """Raise a `ValueError` unless y is one y of this shape."""
    if y.shape != data_shape:
        raise ValueError(
            f"y has shape {y.shape}, but this network was made for one y of shape {data_shape}. "
            "Vectorise the network over several with jax.vmap."
        )
