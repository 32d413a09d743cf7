"""Every engine against the trace of the dense Hessian, in double precision: values, and gradients in the weights."""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.family.statistics import Activation, AdditiveMarkov, DeepSet, Mlp, PartiallyExchangeable, softplus
from suffice.matching import Dense, DirectionByDirection, Engine, ForwardLaplacian, ScoreAndCurvature, sliced_curvature
from suffice.matching.derivatives import Network, activation_derivatives

pytestmark = pytest.mark.usefixtures("float64")


class UserWritten(eqx.Module):
    """A network of a type that no table knows."""

    matrix: jax.Array

    def __call__(self, y: jax.Array) -> jax.Array:
        return jnp.sin(self.matrix @ y.reshape(-1)) * jnp.exp(-0.1 * jnp.sum(y**2))


ENGINES: dict[str, Engine] = {
    "dense": Dense(),
    "forward": ForwardLaplacian(),
    "direction by direction": DirectionByDirection(chunk=3),
}
SHAPES: dict[str, tuple[int, ...]] = {
    "mlp": (5,),
    "mlp of more inputs than units": (9,),
    "mlp of a series": (4, 3),
    "additive": (9,),
    "additive multivariate": (6, 2),
    "additive with lags": (9,),
    "additive multivariate with lags": (6, 2),
    "pen": (9,),
    "pen multivariate": (6, 2),
    "deep set": (6,),
    "deep set with an outer network": (6,),
    "user-written": (6,),
}
BY_DIRECTION = ["mlp", "user-written"]
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # compiles in half the time


def network(name: str) -> Network:
    """A small network; in both coordinates that the forward engine knows where it is multivariate."""
    key, shape = jax.random.key(11), SHAPES[name]
    match name:
        case "mlp":
            return Mlp(key, shape, 2, (4, 6, 3))
        case "mlp of more inputs than units":
            return Mlp(key, shape, 2, (4, 6), skip=True, quadratic=True)
        case "mlp of a series":
            return Mlp(key, shape, 2, (7, 6), activation=jnp.tanh)
        case "additive":
            return AdditiveMarkov(key, shape, 2, 2, (6, 5))
        case "additive multivariate":
            return AdditiveMarkov(
                key, shape, 2, 2, (2, 5), first_widths=(4,), activation=jax.nn.silu, skip=True, quadratic=True
            )
        case "additive with lags":
            return AdditiveMarkov(key, shape, 2, 1, (4,), quadratic=True, lags=8)
        case "additive multivariate with lags":
            return AdditiveMarkov(key, shape, 2, 0, (4,), lags=3)
        case "pen":
            return PartiallyExchangeable(key, shape, 2, 2, (6, 5), 3, (5, 4))
        case "pen multivariate":
            return PartiallyExchangeable(key, shape, 2, 2, (2, 4), 5, (3, 4), skip=True)
        case "deep set":
            return DeepSet(key, shape, 2, (6, 5), skip=True)
        case "deep set with an outer network":
            deep_set = DeepSet(key, shape, 2, (6,), outer_widths=(5, 4), summed_outputs=3, skip=True, quadratic=True)
            outer = Mlp(key, (3,), 2, (5, 4), skip=True, quadratic=True)
            return eqx.tree_at(lambda network: network.outer, deep_set, outer)
        case _:
            return UserWritten(jax.random.normal(key, (2, 6)))


def loss(module: Network, engine: Engine, y: jax.Array, weights: jax.Array) -> tuple[jax.Array, ScoreAndCurvature]:
    """The score matching loss, the mean of ½ ‖∇s‖² + Δs, and what it is made of."""
    score = jax.vmap(lambda y, weights: engine(module, y, weights))(y, weights)
    return 0.5 * jnp.sum(score.gradient**2) / len(y) + jnp.mean(score.laplacian), score


def moved(module: Network) -> Network:
    """The module with every weight moved at random, away from weights that begin at 0."""
    leaves, structure = jax.tree.flatten(module)
    noise = np.random.default_rng(3)
    return jax.tree.unflatten(structure, [leaf + 0.2 * noise.normal(size=leaf.shape) for leaf in leaves])


@cache
def results(name: str) -> dict[str, tuple[ScoreAndCurvature, Network | None]]:
    """By engine: gradients and Laplacians at two y, and the gradient of the loss in the module's arrays.

    `DirectionByDirection` has no code of its own for any type, so its gradient is asked for few of them.
    """
    y = jax.random.normal(jax.random.key(1), (2, *SHAPES[name]))
    weights = jnp.array([[0.7, -1.9], [1.2, 0.4]])

    def every_engine() -> dict[str, tuple[ScoreAndCurvature, Network | None]]:
        module, found = moved(network(name)), {}
        for engine_name, engine in ENGINES.items():
            gradient = None
            if engine_name != "direction by direction" or name in BY_DIRECTION:
                gradient, score = jax.grad(loss, has_aux=True)(module, engine, y, weights)
            else:
                _, score = loss(module, engine, y, weights)
            found[engine_name] = (score, gradient)
        return found

    return jax.jit(every_engine, compiler_options=QUICK)()


def close(actual: jax.Array, expected: jax.Array | np.ndarray, relative: float) -> None:
    """Equal to `relative` of the largest entry."""
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0, atol=relative * max(float(np.abs(expected).max()), 1e-3))


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("engine", ["forward", "direction by direction"])
def test_engines_equal_the_dense_hessian(name: str, engine: str) -> None:
    (expected, _), (actual, _) = results(name)["dense"], results(name)[engine]
    assert np.abs(expected.laplacian).min() > 1e-4
    assert actual.gradient.shape == (2, *SHAPES[name])
    close(actual.gradient, expected.gradient, 1e-10)
    close(actual.laplacian, expected.laplacian, 1e-10)


@pytest.mark.parametrize(
    ("name", "engine"),
    [(name, "forward") for name in SHAPES] + [(name, "direction by direction") for name in BY_DIRECTION],
)
def test_gradients_in_the_weights_are_exact(name: str, engine: str) -> None:
    (_, expected), (_, actual) = results(name)["dense"], results(name)[engine]
    assert actual is not None
    assert sum(np.abs(leaf).max() > 1e-3 for leaf in jax.tree.leaves(expected)) > len(jax.tree.leaves(expected)) / 2
    for one, other in zip(jax.tree.leaves(actual), jax.tree.leaves(expected), strict=True):
        close(one, other, 1e-8)


@settings(max_examples=8, deadline=None, derandomize=True)
@given(
    steps=st.integers(2, 7),
    series=st.integers(1, 3),
    order=st.integers(0, 3),
    widths=st.lists(st.integers(1, 6), max_size=3),
    skip=st.booleans(),
    lags=st.none() | st.integers(0, 3),
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
    lags: int | None,
    activation: Activation,
    kind: type,
    seed: int,
) -> None:
    shape, order = (steps, series), min(order, steps - 1)

    def make(key: jax.Array) -> Network:
        if kind is Mlp:
            return Mlp(key, shape, 2, widths, activation=activation, skip=skip)
        if kind is AdditiveMarkov:
            steps_apart = None if lags is None else min(lags, steps - 1)
            return AdditiveMarkov(key, shape, 2, order, widths, activation=activation, skip=skip, lags=steps_apart)
        return PartiallyExchangeable(key, shape, 2, order, widths, 3, widths, activation=activation, skip=skip)

    def both(key: jax.Array) -> tuple[ScoreAndCurvature, ScoreAndCurvature]:
        module, y, weights = make(key), jax.random.normal(key, shape), jnp.array([1.3, -0.4])
        return Dense()(module, y, weights), ForwardLaplacian()(module, y, weights)

    expected, actual = jax.jit(both, compiler_options=QUICK)(jax.random.key(seed))
    close(actual.gradient, expected.gradient, 1e-10)
    close(actual.laplacian, expected.laplacian, 1e-10)


@pytest.mark.parametrize("activation", [softplus, jnp.tanh, jax.nn.silu])
def test_activation_derivatives(activation: Activation) -> None:
    z = jnp.linspace(-9.0, 9.0, 37)

    def derivatives(z: jax.Array) -> tuple[tuple[jax.Array, ...], jax.Array, tuple[jax.Array, ...]]:
        slope = jax.grad(lambda z: activation(z))
        bend = jax.grad(slope)
        third = jax.grad(lambda z: activation_derivatives(activation, z)[2])(z)
        return activation_derivatives(activation, z), third, (activation(z), slope(z), bend(z), jax.grad(bend)(z))

    found, third, expected = jax.jit(jax.vmap(derivatives), compiler_options=QUICK)(z)
    for actual, exact in zip((*found, third), expected, strict=True):
        np.testing.assert_allclose(actual, exact, rtol=1e-9, atol=1e-12)


def test_sliced_curvature_is_a_quadratic_form() -> None:
    shape = SHAPES["pen multivariate"]
    weights, directions = jnp.array([0.7, -1.9]), np.random.default_rng(0).normal(size=(5, *shape))

    def both(y: jax.Array) -> tuple[tuple[jax.Array, jax.Array], jax.Array, jax.Array]:
        module = network("pen multivariate")

        def value(y: jax.Array) -> jax.Array:
            return weights @ module(y)

        return sliced_curvature(module, y, weights, jnp.asarray(directions)), jax.grad(value)(y), jax.hessian(value)(y)

    (gradient, curvature), expected, hessian = jax.jit(both, compiler_options=QUICK)(
        jnp.linspace(-1, 1, 12).reshape(shape)
    )
    close(gradient, expected, 1e-10)
    close(curvature, np.einsum("mab,abcd,mcd->m", directions, hessian, directions), 1e-10)


def test_no_direction_at_a_time_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one direction"):
        DirectionByDirection(chunk=0)
