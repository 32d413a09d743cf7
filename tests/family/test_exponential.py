"""The family: the networks it chooses, the paper's, what is trained, and its agreement with itself."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import suffice as sf
from suffice.family import ExponentialFamily, Regression, SharedBase
from suffice.family.statistics import AdditiveMarkov, DeepSet, Mlp, PartiallyExchangeable


def layer_sizes(network: Mlp) -> list[tuple[int, int]]:
    return [(layer.weight.shape[1], layer.weight.shape[0]) for layer in network.layers]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("gaussian", DeepSet),
        ("gamma", DeepSet),
        ("ar2", AdditiveMarkov),
        ("ma2", AdditiveMarkov),
        ("lorenz96", AdditiveMarkov),
    ],
)
def test_default_networks_have_the_symmetry_of_the_model(name: str, kind: type, key: jax.Array) -> None:
    model = getattr(sf.zoo, name)()
    family = ExponentialFamily.default(key, model)
    assert isinstance(family.statistics, kind)
    assert family.num_statistics == (25 if name == "ma2" else 2 * model.num_parameters + 1)
    assert ExponentialFamily.default(key, model, num_statistics=3).num_statistics == 3
    y = jnp.zeros(model.data_shape)
    assert family.statistics_of(y).shape == (family.num_statistics,)
    assert family.base_of(y).shape == ()


def test_a_vector_without_symmetry_gets_an_mlp(key: jax.Array) -> None:
    prior = dist.Normal(jnp.zeros(2), 1.0).to_event(1)
    model = sf.Model(prior, lambda key, theta: jnp.tile(theta, 3) + jax.random.normal(key, (6,)))
    assert isinstance(ExponentialFamily.default(key, model).statistics, Mlp)
    with pytest.raises(ValueError, match="at least one statistic"):
        ExponentialFamily.default(key, model, num_statistics=0)


IID = [(10, 30), (30, 50), (50, 50), (50, 20), (20, 3)]
NATURAL = [(2, 15), (15, 30), (30, 30), (30, 15), (15, 2)]
LORENZ_NATURAL = [(4, 30), (30, 50), (50, 50), (50, 30), (30, 4)]
TABLES = {  # the paper's Tables of architectures: φ (if any), ρ or f, η
    "gaussian": (None, IID, NATURAL),
    "gamma": (None, IID, NATURAL),
    "beta": (None, IID, NATURAL),
    "ar2": ([(3, 50), (50, 50), (50, 30), (30, 20)], [(22, 50), (50, 50), (50, 3)], NATURAL),
    "ma2": ([(11, 50), (50, 50), (50, 30), (30, 20)], [(30, 50), (50, 50), (50, 3)], NATURAL),
    "lorenz96-small": (
        [(16, 50), (50, 100), (100, 50), (50, 20)],
        [(28, 40), (40, 90), (90, 35), (35, 5)],
        LORENZ_NATURAL,
    ),
    "lorenz96-large": (
        [(80, 120), (120, 160), (160, 120), (120, 20)],
        [(60, 80), (80, 100), (100, 80), (80, 5)],
        LORENZ_NATURAL,
    ),
}


@pytest.mark.parametrize("name", list(TABLES))
def test_the_papers_networks(name: str, key: jax.Array) -> None:
    window, outer, natural = TABLES[name]
    family = ExponentialFamily.paper(key, name)
    regression = Regression.paper(key, name)
    p = family.num_statistics
    assert isinstance(family.base, SharedBase)
    assert isinstance(family.natural.network, Mlp)
    assert layer_sizes(family.natural.network) == natural
    for network, outputs in ((family.statistics, p + 1), (regression.network, p)):
        expected = [*outer[:-1], (outer[-1][0], outputs)]
        if window is None:
            assert isinstance(network, Mlp)
            assert layer_sizes(network) == expected
        else:
            assert isinstance(network, PartiallyExchangeable)
            assert layer_sizes(network.window) == window
            assert layer_sizes(network.outer) == expected
    with pytest.raises(ValueError, match="The paper has no model 'lorenz'"):
        ExponentialFamily.paper(key, "lorenz")


def test_the_log_density_is_its_definition(key: jax.Array) -> None:
    model = sf.zoo.gamma()
    sims = sf.simulate(key, model, 50)
    theta = jnp.asarray(sims.theta)
    family = ExponentialFamily.default(key, model).with_charts(model, sims.theta, sims.x).frozen_on(theta)
    y = family.data_chart.forward(sims.x[0])
    expected = family.natural(theta[0]) @ family.statistics_of(y) + family.base_of(y)
    np.testing.assert_allclose(float(family.log_density(y, theta[0])), float(expected), rtol=1e-5)
    eta = np.asarray(jax.vmap(family.natural)(theta))
    np.testing.assert_allclose(eta.mean(0), 0.0, atol=1e-4)
    np.testing.assert_allclose(eta.std(0), 1.0, atol=1e-3)


def test_standardisation_is_differentiable(key: jax.Array) -> None:
    """η over its own rows does not change when its network is scaled: the gradient along the scale vanishes."""
    model = sf.zoo.gamma()
    theta = model.prior.sample(key, (30,))
    natural = ExponentialFamily.default(key, model).natural

    def first_moment(scale: jax.Array) -> jax.Array:
        scaled = eqx.tree_at(lambda n: n.network, natural, lambda u: scale * natural.network(u))
        return jnp.sum(jax.vmap(scaled.standardised_on(theta))(theta)[:5] ** 2)

    value, slope = jax.value_and_grad(first_moment)(jnp.asarray(3.0))
    assert float(value) > 0.1
    assert abs(float(slope)) < 1e-3 * float(value)


def test_only_networks_are_trained(key: jax.Array) -> None:
    family = ExponentialFamily.default(key, sf.zoo.gamma())
    trained, fixed = eqx.partition(family, family.trainable())
    assert trained.data_chart.shift is None
    assert trained.natural.mean is None
    assert trained.natural.chart.scale is None
    assert fixed.natural.mean is not None
    assert len(jax.tree.leaves(trained)) == len(jax.tree.leaves((family.statistics, family.natural.network)))


def test_one_sided_parameters_reach_the_network_by_their_logarithm(key: jax.Array) -> None:
    prior = dist.LogNormal(jnp.zeros(2), 2.0).to_event(1)
    model = sf.Model(prior, lambda key, theta: theta[0] + theta[1] * jax.random.normal(key, (4,)))
    theta = np.asarray(prior.sample(key, (200,)))
    family = ExponentialFamily.default(key, model).with_charts(
        model, theta, np.asarray(jax.random.normal(key, (200, 4)))
    )
    u = np.asarray(jax.vmap(family.natural.chart.forward)(theta))
    standardised = (np.log(theta) - np.log(theta).mean(0)) / np.log(theta).std(0)
    np.testing.assert_allclose(u, standardised, atol=1e-3)
