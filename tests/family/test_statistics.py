"""Networks of statistics: shapes, the symmetries that they promise, smoothness."""

from collections.abc import Callable
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from suffice import zoo
from suffice.family.architectures import default_network, default_sizes
from suffice.family.statistics import (
    AdditiveMarkov,
    DeepSet,
    Mlp,
    PartiallyExchangeable,
    require_smooth,
    softplus,
    windows,
)

Network = Mlp | PartiallyExchangeable | AdditiveMarkov | DeepSet
Maker = Callable[[jax.Array], Network]
SHAPES = [(6,), (6, 3)]
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}  # compiles in half the time


def values(make: Maker, *ys: jax.Array) -> list[np.ndarray]:
    """What the network gives at each y; made and called in one program, which compiles faster than step by step."""

    def call(key: jax.Array, *ys: jax.Array) -> list[jax.Array]:
        network = make(key)
        return [network(y) for y in ys]

    return [np.asarray(value) for value in jax.jit(call, compiler_options=QUICK)(jax.random.key(5), *ys)]


def switch_blocks(series: jax.Array, first: tuple[int, int], second: tuple[int, int]) -> jax.Array:
    """The paper's T_b: exchange the blocks first = [i, j) and second = [k, end), i < j <= k < end."""
    (i, j), (k, end) = first, second
    return jnp.concatenate([series[:i], series[k:end], series[j:k], series[i:j], series[end:]])


def switchable(order: int, series: int) -> tuple[jax.Array, jax.Array]:
    """A series with two blocks, of different lengths, that share their leading and trailing `order` steps; switched."""
    steps = jax.random.normal(jax.random.key(3), (30, series))
    steps = steps.at[17 : 17 + order].set(steps[4 : 4 + order])
    steps = steps.at[25 - order : 25].set(steps[14 - order : 14])
    return steps, switch_blocks(steps, (4, 14), (17, 25))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("skip", [False, True])
def test_shapes(key: jax.Array, shape: tuple[int, ...], skip: bool) -> None:
    makers: list[Maker] = [
        lambda key: Mlp(key, shape, 4, (5, 3), skip=skip),
        lambda key: Mlp(key, shape, 4, (), skip=skip),
        lambda key: PartiallyExchangeable(key, shape, 4, 2, (5,), 7, (6,), skip=skip),
        lambda key: PartiallyExchangeable(key, shape, 4, 0, (5,), 7, (6,), skip=skip),
        lambda key: AdditiveMarkov(key, shape, 4, 2, (5, 3), skip=skip),
        lambda key: AdditiveMarkov(key, shape, 4, 0, (5, 3), skip=skip),
        lambda key: AdditiveMarkov(key, shape, 4, 1, (5, 3), skip=skip, lags=5),
    ]
    if len(shape) == 1:
        makers += [
            lambda key: DeepSet(key, shape, 4, (5,), skip=skip),
            lambda key: DeepSet(key, shape, 4, (5,), outer_widths=(6,), skip=skip),
        ]
    for make in makers:
        network = jax.eval_shape(make, key)
        assert network.num_outputs == 4
        assert network.data_shape == shape
        assert jax.eval_shape(lambda network, y: network(y), network, jnp.ones(shape)).shape == (4,)


def test_mlp_is_its_formula(key: jax.Array) -> None:
    network = Mlp(key, (2, 3), 2, (5, 4), activation=jnp.tanh, skip=True)
    y = np.arange(6.0, dtype=np.float32).reshape(2, 3) / 5
    first, second, last = network.layers
    hidden = np.tanh(first.weight @ y.ravel() + first.bias)
    hidden = np.tanh(second.weight @ hidden + second.bias)
    assert network.skip is not None
    expected = last.weight @ hidden + last.bias + network.skip @ y.ravel()
    np.testing.assert_allclose(network(jnp.asarray(y)), expected, rtol=1e-5)


@pytest.mark.usefixtures("float64")
def test_values_are_the_same_however_they_are_vectorised(key: jax.Array) -> None:
    """Rows, rows of rows, and networks of an ensemble, against a plain loop over layers in numpy."""
    networks = jax.vmap(lambda key: Mlp(key, (3,), 2, (5, 4), activation=jnp.tanh, skip=True))(jax.random.split(key, 6))
    y = jax.random.normal(key, (6, 7, 3))

    def by_hand(member: int, y: np.ndarray) -> np.ndarray:
        network = jax.tree.map(lambda leaf: np.asarray(leaf)[member], networks)
        *hidden, last = network.layers
        values = y
        for layer in hidden:
            values = np.tanh(layer.weight @ values + layer.bias)
        return last.weight @ values + last.bias + network.skip @ y

    first = jax.tree.map(lambda leaf: leaf[0], networks)
    rows = np.array([[by_hand(0, row) for row in part] for part in np.asarray(y)])
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.vmap(first)))(y), rows, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(jax.vmap(first), in_axes=1, out_axes=1))(y), rows, rtol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.vmap(first.summed))(y.swapaxes(1, 2)), rows.sum(axis=1), rtol=1e-11)
    members = np.array([by_hand(member, np.asarray(y)[0, 0]) for member in range(6)])
    np.testing.assert_allclose(jax.jit(jax.vmap(lambda network: network(y[0, 0])))(networks), members, rtol=1e-12)
    pairs = np.array([by_hand(member, np.asarray(y)[member, 0]) for member in range(6)])
    np.testing.assert_allclose(jax.jit(jax.vmap(lambda network, y: network(y)))(networks, y[:, 0]), pairs, rtol=1e-12)


def test_weights_start_uniform_on_the_inverse_root_of_the_inputs(key: jax.Array) -> None:
    layer = Mlp(key, (400,), 1, (300,)).layers[0]
    bound = 1 / np.sqrt(400)
    assert np.abs(layer.weight).max() <= bound
    assert np.abs(layer.bias).max() <= bound
    np.testing.assert_allclose(layer.weight.std(), bound / np.sqrt(3), rtol=0.01)
    np.testing.assert_allclose(layer.bias.std(), bound / np.sqrt(3), rtol=0.1)


def test_windows_hold_consecutive_steps() -> None:
    np.testing.assert_array_equal(windows(jnp.arange(4.0), 1), [[0, 1], [1, 2], [2, 3]])
    np.testing.assert_array_equal(windows(jnp.arange(6.0).reshape(3, 2), 1), [[0, 1, 2, 3], [2, 3, 4, 5]])
    np.testing.assert_array_equal(windows(jnp.arange(2.0), 0), [[0], [1]])


def markov_networks(shape: tuple[int, ...], order: int) -> list[Maker]:
    return [
        lambda key: PartiallyExchangeable(key, shape, 2, order, (8,), 5, (6,)),
        lambda key: AdditiveMarkov(key, shape, 2, order, (8,)),
    ]


@pytest.mark.parametrize(("order", "series"), [(1, 2), (3, 1)])
@pytest.mark.usefixtures("float64")
def test_markov_networks_are_invariant_to_block_switches(order: int, series: int) -> None:
    steps, switched = switchable(order, series)
    assert not np.allclose(steps, switched)
    for make in markov_networks(steps.shape, order):
        before, after = values(make, steps, switched)
        np.testing.assert_allclose(before, after, rtol=1e-12)


@pytest.mark.usefixtures("float64")
def test_a_longer_memory_sees_the_switch() -> None:
    steps, switched = switchable(1, 1)
    for make in markov_networks(steps.shape, 2):
        before, after = values(make, steps, switched)
        assert np.abs(before - after).max() > 1e-6


@pytest.mark.parametrize("outer_widths", [None, (6,)])
@pytest.mark.usefixtures("float64")
def test_deep_sets_do_not_see_the_order(outer_widths: tuple[int, ...] | None) -> None:
    y = jnp.linspace(-2.0, 1.0, 9)
    value, reversed_value, other = values(
        lambda key: DeepSet(key, (9,), 2, (8,), outer_widths=outer_widths), y, y[::-1], y.at[0].add(1.0)
    )
    np.testing.assert_allclose(value, reversed_value, rtol=1e-12)
    assert np.abs(value - other).max() > 1e-6


@pytest.mark.parametrize(("shape", "order"), [((6,), 0), ((6,), 3), ((6, 3), 1)])
@pytest.mark.usefixtures("float64")
def test_additive_is_a_loop_over_windows(key: jax.Array, shape: tuple[int, ...], order: int) -> None:
    @partial(jax.jit, compiler_options=QUICK)
    def both(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        network, y = AdditiveMarkov(key, shape, 3, order, (7, 5), skip=True), jax.random.normal(key, shape)
        expected = jnp.zeros(3) if network.first is None else network.first(y[:order].reshape(-1))
        for start in range(shape[0] - order):
            expected = expected + network.window(y[start : start + order + 1].reshape(-1))
        return network(y), expected

    actual, expected = both(key)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("float64")
def test_lags_add_a_linear_map_of_autocovariances(key: jax.Array, shape: tuple[int, ...]) -> None:
    @partial(jax.jit, compiler_options=QUICK)
    def both(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        network, y = AdditiveMarkov(key, shape, 3, 1, (4,), lags=5), jax.random.normal(key, shape)
        without = eqx.tree_at(lambda network: network.lagged, network, None)
        assert network.lagged is not None
        expected = without(y)
        for lag in range(6):
            products = y[: len(y) - lag] * y[lag:]
            expected = expected + network.lagged[:, :, lag] @ jnp.atleast_1d(jnp.sum(products, axis=0))
        return network(y), expected

    actual, expected = both(key)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.usefixtures("float64")
def test_pen_is_its_equation(key: jax.Array, shape: tuple[int, ...]) -> None:
    @partial(jax.jit, compiler_options=QUICK)
    def both(key: jax.Array) -> tuple[jax.Array, jax.Array]:
        network, y = PartiallyExchangeable(key, shape, 3, 2, (7,), 4, (5,)), jax.random.normal(key, shape)
        summed = jnp.zeros(4)
        for start in range(shape[0] - 2):
            summed = summed + network.window(y[start : start + 3].reshape(-1))
        return network(y), network.outer(jnp.concatenate([y[:2].reshape(-1), summed]))

    actual, expected = both(key)
    np.testing.assert_allclose(actual, expected, rtol=1e-12)


@pytest.mark.parametrize(("name", "order", "lags"), [("ar2", 2, None), ("ma2", 0, 30), ("lorenz96", 2, None)])
def test_a_long_markov_order_is_read_as_a_memory_that_fades(
    key: jax.Array, name: str, order: int, lags: int | None
) -> None:
    model = getattr(zoo, name)()
    num_statistics, natural_widths = default_sizes(model)
    network = jax.eval_shape(lambda key: default_network(key, model, num_statistics + 1), key)
    assert network.order == order
    assert (network.lagged is None) == (lags is None)
    if lags is not None:
        assert network.lagged.shape == (num_statistics + 1, 1, lags + 1)
        assert num_statistics > 2 * model.num_parameters + 1
        assert min(natural_widths) > 50


PIECEWISE_LINEAR = [jax.nn.relu, jax.nn.leaky_relu, jax.nn.relu6, jax.nn.hard_tanh, jnp.abs, lambda z: z]
KINKED = [jax.nn.selu, jax.nn.hard_swish]


@pytest.mark.parametrize("activation", PIECEWISE_LINEAR + KINKED)
def test_activations_without_a_second_derivative_are_refused(
    key: jax.Array, activation: Callable[[jax.Array], jax.Array]
) -> None:
    with pytest.raises(ValueError, match=r"score matching needs a second derivative.*softplus"):
        require_smooth(activation)
    with pytest.raises(ValueError, match="softplus"):
        Mlp(key, (3,), 1, activation=activation)


@pytest.mark.parametrize("activation", [softplus, jax.nn.softplus, jnp.tanh, jax.nn.gelu, jax.nn.silu, jnp.sin])
def test_smooth_activations_are_accepted(activation: Callable[[jax.Array], jax.Array]) -> None:
    require_smooth(activation)


def test_networks_can_be_made_and_called_inside_compiled_code(key: jax.Array) -> None:
    def make(key: jax.Array) -> Mlp:
        return Mlp(key, (3,), 2, (4,), activation=jax.nn.silu)

    ensemble = jax.jit(jax.vmap(make))(jax.random.split(key, 5))
    outputs = jax.jit(jax.vmap(lambda network: network(jnp.ones(3))))(ensemble)
    np.testing.assert_allclose(outputs[2], make(jax.random.split(key, 5)[2])(jnp.ones(3)), rtol=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda key: Mlp(key, (3,), 0), "at least 1"),
        (lambda key: Mlp(key, (3,), 1, (4, 0)), "at least 1"),
        (lambda key: PartiallyExchangeable(key, (5,), 2, 5), "between 0 and 4"),
        (lambda key: AdditiveMarkov(key, (5,), 2, -1), "between 0 and 4"),
        (lambda key: AdditiveMarkov(key, (5, 2, 2), 2, 1), r"\(T, K\)"),
        (lambda key: AdditiveMarkov(key, (5,), 2, 1, lags=5), "lags between 0 and 4"),
        (lambda key: AdditiveMarkov(key, (5,), 2, 1, lags=-1), "lags between 0 and 4"),
        (lambda key: DeepSet(key, (5, 2), 2), "iid coordinates of a vector"),
        (lambda key: Mlp(key, (3,), 1)(jnp.ones((7, 3))), r"shape \(7, 3\).*vmap"),
    ],
)
def test_wrong_sizes_are_explained(key: jax.Array, make: Callable[[jax.Array], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(key)


def test_softplus_is_accurate_in_single_precision() -> None:
    z = jnp.linspace(-80.0, 80.0, 4001, dtype=jnp.float32)
    exact = np.logaddexp(np.asarray(z, np.float64), 0.0)
    np.testing.assert_allclose(jax.jit(softplus)(z), exact, rtol=5e-7)
    slope, bend = jax.grad(softplus), jax.grad(jax.grad(softplus))
    np.testing.assert_allclose(jax.jit(jax.vmap(slope))(z), np.exp(np.asarray(z) - exact), rtol=1e-4)
    assert np.isfinite(jax.jit(jax.vmap(bend))(jnp.array([-1e4, 0.0, 1e4]))).all()


@pytest.mark.usefixtures("float64")
def test_softplus_is_accurate_in_double_precision() -> None:
    z = jnp.linspace(-80.0, 80.0, 401)
    np.testing.assert_allclose(softplus(z), np.logaddexp(z, 0.0), rtol=1e-14)
    second = jax.jit(jax.vmap(jax.grad(jax.grad(softplus))))(z)
    np.testing.assert_allclose(second, jax.nn.sigmoid(z) * jax.nn.sigmoid(-z), rtol=1e-9, atol=1e-15)
