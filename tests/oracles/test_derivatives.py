"""Every engine against the trace of the dense Hessian, in double precision: values, and gradients in the weights."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.family.statistics import Activation, AdditiveMarkov, DeepSet, Mlp, PartiallyExchangeable, softplus
from suffice.matching import Dense, DirectionByDirection, Engine, ForwardLaplacian, sliced_curvature
from suffice.matching.derivatives import Network, activation_derivatives

pytestmark = pytest.mark.usefixtures("float64")


class UserWritten(eqx.Module):
    """A network of a type that no table knows."""

    matrix: jax.Array

    def __call__(self, y: jax.Array) -> jax.Array:
        return jnp.sin(self.matrix @ y.reshape(-1)) * jnp.exp(-0.1 * jnp.sum(y**2))


ENGINES: dict[str, Engine] = {
    "forward": ForwardLaplacian(),
    "chunks of 4": DirectionByDirection(chunk=4),
    "chunks of 100": DirectionByDirection(chunk=100),
}


def network(name: str) -> Network:
    """One small network of every type and shape; made inside a test, so in double precision."""
    key = jax.random.key(11)
    match name:
        case "mlp":
            return Mlp(key, (5,), 2, (4, 6, 3))
        case "mlp wide":
            return Mlp(key, (13,), 2, (4, 6), skip=True)
        case "mlp of a series":
            return Mlp(key, (5, 3), 2, (8, 6), activation=jnp.tanh)
        case "mlp one layer":
            return Mlp(key, (9,), 2, (4,), activation=jax.nn.silu)
        case "mlp linear":
            return Mlp(key, (4,), 2, (), skip=True)
        case "additive":
            return AdditiveMarkov(key, (9,), 2, 2, (6, 5))
        case "additive of order 0":
            return AdditiveMarkov(key, (6, 2), 2, 0, (5,))
        case "additive multivariate":
            return AdditiveMarkov(key, (6, 2), 2, 3, (6, 5), first_widths=(4,), skip=True)
        case "additive narrow":
            return AdditiveMarkov(key, (5, 3), 2, 2, (3, 4))
        case "pen":
            return PartiallyExchangeable(key, (9,), 2, 2, (6, 5), 3, (5, 4))
        case "pen of order 0":
            return PartiallyExchangeable(key, (9,), 2, 0, (6,), 3, (5,))
        case "pen multivariate":
            return PartiallyExchangeable(key, (6, 2), 2, 1, (6,), 4, (3, 5), skip=True)
        case "pen narrow":
            return PartiallyExchangeable(key, (6, 2), 2, 2, (2, 4), 5, (3, 4), activation=jnp.tanh)
        case "deep set":
            return DeepSet(key, (7,), 2, (6, 5), skip=True)
        case "deep set with an outer network":
            return DeepSet(key, (7,), 2, (6,), outer_widths=(5, 4), summed_outputs=3)
        case "user-written":
            return UserWritten(jax.random.normal(key, (2, 6)))
    raise KeyError(name)


SHAPES: dict[str, tuple[int, ...]] = {
    "mlp": (5,),
    "mlp wide": (13,),
    "mlp of a series": (5, 3),
    "mlp one layer": (9,),
    "mlp linear": (4,),
    "additive": (9,),
    "additive of order 0": (6, 2),
    "additive multivariate": (6, 2),
    "additive narrow": (5, 3),
    "pen": (9,),
    "pen of order 0": (9,),
    "pen multivariate": (6, 2),
    "pen narrow": (6, 2),
    "deep set": (7,),
    "deep set with an outer network": (7,),
    "user-written": (6,),
}


def close(actual: jax.Array, expected: jax.Array, relative: float) -> None:
    """Equal to `relative` of the largest entry."""
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=relative * max(float(np.abs(expected).max()), 1e-3))


def loss(module: Network, engine: Engine, y: jax.Array, weights: jax.Array) -> jax.Array:
    """The score matching loss: the mean of ½ ‖∇s‖² + Δs."""
    gradient, laplacian = jax.vmap(lambda y, weights: engine(module, y, weights))(y, weights)
    return 0.5 * jnp.sum(gradient**2) / len(y) + jnp.mean(laplacian)


@eqx.filter_jit
def loss_gradients(module: Network, y: jax.Array, weights: jax.Array) -> dict[str, Network]:
    """The gradient of the loss in the module's arrays, by engine; compiled as one program."""
    engines = {"dense": Dense(), **ENGINES}
    return {name: eqx.filter_grad(loss)(module, engine, y, weights) for name, engine in engines.items()}


@pytest.mark.parametrize("name", SHAPES)
def test_engines_equal_the_dense_hessian(name: str) -> None:
    module, y = network(name), jax.random.normal(jax.random.key(1), SHAPES[name])
    weights = jnp.array([0.7, -1.9])
    expected = Dense()(module, y, weights)
    assert name == "mlp linear" or abs(expected.laplacian) > 1e-4
    for engine in ENGINES.values():
        actual = eqx.filter_jit(engine)(module, y, weights)
        close(actual.gradient, expected.gradient, 1e-10)
        close(actual.laplacian, expected.laplacian, 1e-10)


@pytest.mark.parametrize("name", SHAPES)
def test_gradients_in_the_weights_are_exact(name: str) -> None:
    module, y = network(name), jax.random.normal(jax.random.key(1), (3, *SHAPES[name]))
    gradients = loss_gradients(module, y, jax.random.normal(jax.random.key(2), (3, 2)))
    expected = jax.tree.leaves(gradients.pop("dense"))
    for gradient in gradients.values():
        for one, other in zip(jax.tree.leaves(gradient), expected, strict=True):
            close(one, other, 1e-8)


@settings(max_examples=12, deadline=None)
@given(
    steps=st.integers(2, 7),
    series=st.integers(1, 3),
    order=st.integers(0, 3),
    widths=st.lists(st.integers(1, 6), max_size=3),
    skip=st.booleans(),
    activation=st.sampled_from([softplus, jnp.tanh, jnp.sin]),
    kind=st.sampled_from([Mlp, AdditiveMarkov, PartiallyExchangeable]),
    seed=st.integers(0, 1000),
)
def test_forward_laplacian_equals_the_dense_hessian_at_any_size(
    steps: int,
    series: int,
    order: int,
    widths: list[int],
    skip: bool,
    activation: Activation,
    kind: type,
    seed: int,
) -> None:
    key, shape, order = jax.random.key(seed), (steps, series), min(order, steps - 1)
    module: Network
    if kind is Mlp:
        module = Mlp(key, shape, 2, widths, activation=activation, skip=skip)
    elif kind is AdditiveMarkov:
        module = AdditiveMarkov(key, shape, 2, order, widths, activation=activation, skip=skip)
    else:
        module = PartiallyExchangeable(key, shape, 2, order, widths, 3, widths, activation=activation, skip=skip)
    y, weights = jax.random.normal(key, shape), jnp.array([1.3, -0.4])
    expected, actual = Dense()(module, y, weights), ForwardLaplacian()(module, y, weights)
    close(actual.gradient, expected.gradient, 1e-10)
    close(actual.laplacian, expected.laplacian, 1e-10)


@pytest.mark.parametrize("activation", [softplus, jax.nn.softplus, jnp.tanh, jax.nn.silu])
def test_activation_derivatives(activation: Activation) -> None:
    z = jnp.linspace(-9.0, 9.0, 37)
    slope = jax.grad(lambda z: activation(z))
    expected = activation(z), jax.vmap(slope)(z), jax.vmap(jax.grad(slope))(z)
    for actual, exact in zip(activation_derivatives(activation, z), expected, strict=True):
        np.testing.assert_allclose(actual, exact, rtol=1e-9, atol=1e-12)
    bend_slope = jax.vmap(jax.grad(lambda z: activation_derivatives(activation, z)[2]))(z)
    np.testing.assert_allclose(bend_slope, jax.vmap(jax.grad(jax.grad(slope)))(z), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["pen multivariate", "user-written"])
def test_sliced_curvature_is_a_quadratic_form(name: str) -> None:
    module, y = network(name), jax.random.normal(jax.random.key(1), SHAPES[name])
    weights = jnp.array([0.7, -1.9])
    directions = jax.random.normal(jax.random.key(3), (5, *y.shape))
    hessian = jax.hessian(lambda y: weights @ module(y))(y).reshape(y.size, y.size)
    gradient, curvature = sliced_curvature(module, y, weights, directions)
    flat = directions.reshape(5, -1)
    close(gradient, Dense()(module, y, weights).gradient, 1e-10)
    close(curvature, jnp.einsum("mi,ij,mj->m", flat, hessian, flat), 1e-10)


def test_no_direction_at_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one direction"):
        DirectionByDirection(chunk=0)
