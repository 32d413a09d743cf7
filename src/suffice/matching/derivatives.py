"""The gradient and the Laplacian of one scalar s(y) = w·f(y), which is all that score matching needs of a network.

`ForwardLaplacian` carries (z, J, L) through the layers, with J_ik = ∂_i z_k and L = Σ_i ∂_i² z:

    affine layer       z ← A z + b,   J ← J Aᵀ,             L ← A L
    activation σ       z ← σ(z),      J ← J diag(σ'(z)),    L ← σ'(z) L + σ''(z) Σ_i J_i²

and folds w into the last layer. Three savings keep it exact. Where the inputs outnumber the first layer's units, J is
taken along an orthonormal basis of the directions that this layer sees, which depends on the weights alone: past the
first layer nothing grows with d. A sum over windows has window-local J, and autocovariances have a closed one. And no
per-coordinate ∂_i² is ever kept.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from suffice.family.networks import Activation, Mlp, softplus
from suffice.family.statistics import AdditiveMarkov, DeepSet, PartiallyExchangeable, both_neighbours, windows

Network = Callable[[Float[Array, "..."]], Float[Array, " m"]]

_CROSSOVER = 2  # inputs a unit of the first layer from which that layer's coordinates are the cheaper ones, as measured


class ScoreAndCurvature(NamedTuple):
    """∇s, of y's shape, and Δs."""

    gradient: Float[Array, "..."]
    laplacian: Float[Array, ""]


@runtime_checkable
class Engine(Protocol):
    """A way to differentiate s(y) = weights·module(y) at one y."""

    def __call__(self, module: Network, y: Float[Array, "..."], weights: Float[Array, " m"]) -> ScoreAndCurvature:
        """∇s(y) and Δs(y)."""
        ...


@dataclass(frozen=True)
class ForwardLaplacian:
    """The derivatives carried forward through the layers, for the module types in the table `forward_laplacian`.

    Modules of other types are differentiated by `DirectionByDirection`.

    >>> network = Mlp(jax.random.key(0), (5,), 2)
    >>> ForwardLaplacian()(network, jnp.ones(5), jnp.array([1.0, -1.0])).gradient.shape
    (5,)
    """

    def __call__(self, module: Network, y: Float[Array, "..."], weights: Float[Array, " m"]) -> ScoreAndCurvature:
        """∇s(y) and Δs(y)."""
        return forward_laplacian(module, y, weights)


@dataclass(frozen=True)
class DirectionByDirection:
    """For any module: ∇s in reverse mode, Δs = Σ_i e_iᵀ ∇²s e_i in forward over reverse mode, `chunk` e_i at a time."""

    chunk: int = 16

    def __post_init__(self) -> None:
        if self.chunk < 1:
            raise ValueError(
                f"chunk is {self.chunk}, but at least one direction must be taken at a time. Give 1 or more."
            )

    def __call__(self, module: Network, y: Float[Array, "..."], weights: Float[Array, " m"]) -> ScoreAndCurvature:
        """∇s(y) and Δs(y)."""
        gradient, hessian_times = jax.linearize(jax.grad(_scalar(module, weights)), y)

        def second_derivative(index: Array) -> Array:
            direction = jax.nn.one_hot(index, y.size, dtype=y.dtype)
            return hessian_times(direction.reshape(y.shape)).reshape(-1)[index]

        seconds = jax.lax.map(second_derivative, jnp.arange(y.size), batch_size=min(self.chunk, y.size))
        return ScoreAndCurvature(gradient, jnp.sum(seconds))


@dataclass(frozen=True)
class Dense:
    """The trace of the whole Hessian: d² memory, for tests and small d."""

    def __call__(self, module: Network, y: Float[Array, "..."], weights: Float[Array, " m"]) -> ScoreAndCurvature:
        """∇s(y) and Δs(y)."""
        scalar = _scalar(module, weights)
        hessian = jax.hessian(scalar)(y).reshape(y.size, y.size)
        return ScoreAndCurvature(jax.grad(scalar)(y), jnp.trace(hessian))


def sliced_curvature(
    module: Network,
    y: Float[Array, "..."],
    weights: Float[Array, " m"],
    directions: Float[Array, "slices ..."],
) -> tuple[Float[Array, "..."], Float[Array, " slices"]]:
    """∇s(y) and vᵀ ∇²s(y) v for every v in `directions`, each of y's shape: what sliced score matching needs."""
    gradient, hessian_times = jax.linearize(jax.grad(_scalar(module, weights)), y)
    return gradient, jax.vmap(lambda direction: jnp.sum(direction * hessian_times(direction)))(directions)


def _scalar(module: Network, weights: Array) -> Callable[[Array], Array]:
    return lambda y: weights @ module(y)


def activation_derivatives(activation: Activation, z: Float[Array, "..."]) -> tuple[Array, Array, Array]:
    """(σ(z), σ'(z), σ''(z)) of an elementwise activation, in one go; closed for softplus and tanh."""
    if activation is softplus or activation is jax.nn.softplus:
        sigmoid = jax.nn.sigmoid(z)
        return softplus(z), sigmoid, sigmoid * (1.0 - sigmoid)
    if activation is jnp.tanh or activation is jax.nn.tanh:
        value = jnp.tanh(z)
        slope = 1.0 - value * value
        return value, slope, -2.0 * value * slope
    ones = jnp.ones_like(z)

    def value_and_slope(z: Array) -> tuple[Array, Array]:
        return jax.jvp(activation, (z,), (ones,))

    (value, slope), (_, bend) = jax.jvp(value_and_slope, (z,), (ones,))
    return value, slope, bend


@singledispatch
def forward_laplacian(module: Network, y: Float[Array, "..."], weights: Float[Array, " m"]) -> ScoreAndCurvature:
    """The table of `ForwardLaplacian`: one rule a module type; `forward_laplacian.register` adds one."""
    return DirectionByDirection()(module, y, weights)


@forward_laplacian.register(Mlp)
def _mlp(module: Mlp, y: Float[Array, "..."], weights: Float[Array, " m"]) -> ScoreAndCurvature:
    gradient, laplacian = _weighted(module, weights, y.reshape(-1))
    return ScoreAndCurvature(gradient.reshape(y.shape), laplacian)


@forward_laplacian.register(AdditiveMarkov)
def _additive(module: AdditiveMarkov, y: Float[Array, "..."], weights: Float[Array, " m"]) -> ScoreAndCurvature:
    order = module.order
    local, laplacians = jax.vmap(lambda window: _weighted(module.window, weights, window))(windows(y, order))
    gradient = _overlap_add(local, order).reshape(y.shape)
    laplacian = jnp.sum(laplacians)
    if module.first is not None:
        first = _mlp(module.first, y[:order].reshape(-1), weights)
        gradient = gradient.at[:order].add(first.gradient.reshape(y[:order].shape))
        laplacian = laplacian + first.laplacian
    if module.lagged is not None:
        form = jnp.tensordot(weights, module.lagged, 1)
        slopes = jnp.einsum("tkh,kh->tk", both_neighbours(y, form.shape[1] - 1), form)
        gradient = gradient + slopes.reshape(y.shape)
        laplacian = laplacian + 2 * len(y) * jnp.sum(form[:, 0])
    return ScoreAndCurvature(gradient, laplacian)


@forward_laplacian.register(PartiallyExchangeable)
def _partially_exchangeable(
    module: PartiallyExchangeable, y: Float[Array, "..."], weights: Float[Array, " m"]
) -> ScoreAndCurvature:
    return _of_a_sum(module.window, module.outer, module.order, y, weights)


@forward_laplacian.register(DeepSet)
def _deep_set(module: DeepSet, y: Float[Array, " d"], weights: Float[Array, " m"]) -> ScoreAndCurvature:
    if module.outer is not None:
        return _of_a_sum(module.each, module.outer, 0, y, weights)
    gradient, laplacians = jax.vmap(lambda each: _weighted(module.each, weights, each))(y[:, None])
    return ScoreAndCurvature(gradient[:, 0], jnp.sum(laplacians))


def _of_a_sum(window: Mlp, outer: Mlp, order: int, y: Array, weights: Array) -> ScoreAndCurvature:
    """For s = w·ρ(u) with u = (y_{1:r}, Σ_t φ(y_{t:t+r})) and J = ∂u/∂y: ∇s = J ∇ρ and Δs = tr(∇²ρ JᵀJ) + ∇ρ·Δu."""
    value, local, laplacian = jax.vmap(lambda inputs: _outputs(window, inputs))(windows(y, order))
    leading = y[:order].reshape(-1)
    identity = jnp.eye(y.size, leading.size, dtype=y.dtype)
    jacobian = jnp.concatenate([identity, _overlap_add(local, order)], axis=1)
    inputs = jnp.concatenate([leading, jnp.sum(value, axis=0)])
    partials, curvature = _weighted(outer, weights, inputs, metric=jacobian.T @ jacobian)
    curvature = curvature + partials[leading.size :] @ jnp.sum(laplacian, axis=0)
    return ScoreAndCurvature((jacobian @ partials).reshape(y.shape), curvature)


class _Carried(NamedTuple):
    """z, J and L after a layer; J's rows are derivatives along coordinates whose derivatives in the inputs are `basis`.

    `basis` is None where the coordinates are the inputs themselves.
    """

    value: Array
    jacobian: Array
    laplacian: Array
    basis: Array | None

    def in_inputs(self, derivatives: Array) -> Array:
        """Derivatives along the coordinates as derivatives in the inputs."""
        return derivatives if self.basis is None else self.basis @ derivatives


def _hidden(network: Mlp, inputs: Array, metric: Array | None) -> _Carried:
    """(z, J, L) after the last activation, where L = tr(∇²z `metric`), and the metric is the identity if None."""
    hidden = network.layers[:-1]
    if not hidden:
        return _Carried(inputs, jnp.eye(inputs.size, dtype=inputs.dtype), jnp.zeros_like(inputs), None)
    first, *rest = hidden
    value, jacobian, basis = first(inputs), first.weight.T, None
    if inputs.size > value.size and metric is None:
        basis, jacobian = _orthonormal(jacobian)
    elif inputs.size > _CROSSOVER * value.size and metric is not None:
        basis, metric = jacobian, jacobian.T @ metric @ jacobian
        jacobian = jnp.eye(value.size, dtype=inputs.dtype)
    value, jacobian, laplacian = _activate(network.activation, value, jacobian, jnp.zeros_like(value), metric)
    for layer in rest:
        value, jacobian, laplacian = layer(value), jacobian @ layer.weight.T, laplacian @ layer.weight.T
        value, jacobian, laplacian = _activate(network.activation, value, jacobian, laplacian, metric)
    return _Carried(value, jacobian, laplacian, basis)


def _orthonormal(matrix: Array) -> tuple[Array, Array]:
    """Q with orthonormal columns and square R with `matrix` = Q R, by Cholesky: of weights alone, so once for all y."""
    gram = matrix.T @ matrix
    jitter = 4 * jnp.finfo(gram.dtype).eps * jnp.trace(gram)
    lower = jnp.linalg.cholesky(gram + jitter * jnp.eye(len(gram), dtype=gram.dtype))
    return jax.scipy.linalg.solve_triangular(lower, matrix.T, lower=True).T, lower.T


def _activate(
    activation: Activation, value: Array, jacobian: Array, laplacian: Array, metric: Array | None
) -> tuple[Array, Array, Array]:
    """(z, J, L) after the activation."""
    value, slope, bend = activation_derivatives(activation, value)
    squares = jnp.sum(jacobian * (jacobian if metric is None else metric @ jacobian), axis=0)
    return value, jacobian * slope, slope * laplacian + bend * squares


def _weighted(network: Mlp, weights: Array, inputs: Array, metric: Array | None = None) -> tuple[Array, Array]:
    """∇s and tr(∇²s `metric`) in the inputs of s = weights·network."""
    carried = _hidden(network, inputs, metric)
    last = weights @ network.layers[-1].weight
    gradient = carried.in_inputs(carried.jacobian @ last)
    if network.skip is not None:
        gradient = gradient + weights @ network.skip
    laplacian = carried.laplacian @ last
    if network.quadratic is not None:
        form = jnp.tensordot(weights, network.quadratic, 1)
        form = form + form.T
        gradient = gradient + form @ inputs
        laplacian = laplacian + (jnp.trace(form) if metric is None else jnp.sum(form * metric))
    return gradient, laplacian


def _outputs(network: Mlp, inputs: Array) -> tuple[Array, Array, Array]:
    """(z, J, L) of all outputs."""
    carried = _hidden(network, inputs, None)
    last = network.layers[-1]
    value, jacobian, laplacian = (
        last(carried.value),
        carried.jacobian @ last.weight.T,
        carried.laplacian @ last.weight.T,
    )
    jacobian = carried.in_inputs(jacobian)
    if network.skip is not None:
        value, jacobian = value + network.skip @ inputs, jacobian + network.skip.T
    if network.quadratic is not None:
        forms = network.quadratic + network.quadratic.transpose(0, 2, 1)
        slopes = forms @ inputs
        value, jacobian = value + 0.5 * slopes @ inputs, jacobian + slopes.T
        laplacian = laplacian + jnp.trace(forms, axis1=1, axis2=2)
    return value, jacobian, laplacian


def _overlap_add(local: Array, order: int) -> Array:
    """Derivatives in the coordinates of each window, (windows, (order + 1) K, …), as derivatives in y, (T K, …)."""
    number, size, *rest = local.shape
    lags = local.reshape(number, order + 1, size // (order + 1), *rest)
    summed = jnp.zeros((number + order, *lags.shape[2:]), local.dtype)
    for lag in range(order + 1):
        summed = summed.at[lag : lag + number].add(lags[:, lag])
    return summed.reshape(-1, *rest)
