"""A model says what is wrong with it when it is built."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints, transforms

from suffice import Model, ModelError, SupportError, zoo
from suffice.charts import describe

PRIOR = dist.Uniform(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])).to_event(1)


def normal(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta[0] + theta[1] * jax.random.normal(key, (5,))


class Stack(dist.Distribution):
    """A prior that does not tell JAX what it is made of."""

    support = constraints.independent(constraints.positive, 1)

    def __init__(self, parts: list[dist.Distribution]) -> None:
        self.parts = parts
        super().__init__((), (len(parts),))

    def sample(self, key: jax.Array, sample_shape: tuple[int, ...] = ()) -> jax.Array:
        keys = jax.random.split(key, len(self.parts))
        return jnp.stack([part.sample(k, sample_shape) for part, k in zip(self.parts, keys, strict=True)], -1)

    def log_prob(self, value: jax.Array) -> jax.Array:
        return sum(part.log_prob(value[..., i]) for i, part in enumerate(self.parts))


class Told(Stack):
    """The same prior, which does."""

    pytree_data_fields = ("parts",)


PARTS = [dist.LogNormal(0.0, 0.3), dist.Gamma(2.0, 1.0)]
KINDS = [transforms.ExpTransform(), transforms.IdentityTransform(), transforms.SigmoidTransform()]


def three_parameters(key: jax.Array, theta: jax.Array) -> jax.Array:
    a, b, c = theta
    return a + b * jax.random.normal(key, (5,)) + c


def test_defaults() -> None:
    model = Model(PRIOR, normal)
    assert (model.num_parameters, model.data_shape, model.data_size) == (2, (5,), 5)
    assert model.names == ("theta1", "theta2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prior": dist.Uniform(0.0, 1.0)}, r"event shape \(\).*expand\(\[1\]\)"),
        ({"prior": dist.Uniform(jnp.zeros(2), jnp.ones(2))}, r"Call \.to_event\(1\)"),
        ({"prior": "uniform"}, "must be a numpyro distribution"),
        ({"prior": dist.Poisson(jnp.ones(2)).to_event(1)}, "discrete"),
        ({"prior": Stack(PARTS)}, r"a Stack, loses .*no attribute 'parts'\. Write it as .* CatTransform"),
        ({"simulator": three_parameters}, r"theta of shape \(2,\).*agree on the number of parameters"),
        ({"simulator": lambda key, theta: (theta, theta)}, "must return one array"),
        ({"simulator": lambda key, theta: jax.random.poisson(key, theta)}, "Cast it"),
        ({"simulator": lambda key, theta: theta[0]}, r"shape \(\).*\(T, K\)"),
        ({"simulator": lambda key, theta: jnp.zeros((2, 3, 4))}, r"shape \(2, 3, 4\)"),
        ({"simulator": lambda key, theta: np.asarray(theta)}, "must be JAX code"),
        ({"names": ("a",)}, "2 different names"),
        ({"names": ("a", "a")}, "2 different names"),
        ({"names": "ab"}, "2 different names"),
        ({"support": [constraints.real]}, "1 constraints, but the last axis of x has 5"),
        ({"support": constraints.simplex}, "must be a numpyro constraint on each coordinate"),
        ({"support": constraints.positive_integer}, "must be a numpyro constraint on each coordinate"),
        ({"markov_order": 5}, "between 1 and 4"),
        ({"markov_order": 0}, "between 1 and 4"),
        ({"exchangeable": True, "markov_order": 1}, "Drop exchangeable"),
        ({"exchangeable": True, "support": [constraints.real] * 5}, "Drop exchangeable"),
        ({"sufficient_statistics": lambda x: x}, "together"),
    ],
)
def test_mistakes_are_sentences(arguments: dict[str, Any], words: str, unchecked_types: None) -> None:
    arguments = {"prior": PRIOR, "simulator": normal} | arguments
    with pytest.raises(ModelError, match=words):
        Model(**arguments)


def test_priors_of_several_kinds_of_parameters(key: jax.Array) -> None:
    base = dist.MultivariateNormal(jnp.zeros(3), jnp.eye(3))
    prior = dist.TransformedDistribution(base, transforms.CatTransform(KINDS, dim=-1))
    chart = Model(prior, three_parameters).parameter_chart(prior.sample(key, (100,)))
    assert describe(chart.support) == "one support a coordinate (greater than 0, any real number, between 0 and 1)"
    assert Model(Told(PARTS), normal).num_parameters == 2


def test_a_support_for_each_variable_of_a_series(key: jax.Array) -> None:
    def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
        noise = theta[1] * jax.random.normal(key, (20, 2))
        return jnp.stack([noise[:, 0], jnp.exp(noise[:, 1])], axis=-1)

    model = Model(PRIOR, simulator, support=[constraints.real, constraints.positive], markov_order=1)
    x = np.asarray(jax.vmap(model.simulator)(jax.random.split(key, 200), model.prior.sample(key, (200,))))
    chart = model.data_chart(x)
    y = np.asarray(jax.vmap(chart.forward)(x))
    np.testing.assert_allclose(y.std((0, 1)), 1.0, rtol=1e-4)
    assert np.all(np.asarray(chart.scale) == np.asarray(chart.scale)[:1])


def test_observations_are_checked() -> None:
    model = Model(PRIOR, lambda key, theta: jnp.exp(normal(key, theta)), support=constraints.positive)
    assert model.observation([1, 2, 3, 4, 5]).dtype == np.float32
    assert model.observation(np.ones((3, 5)), iid=True).shape == (3, 5)
    with pytest.raises(ModelError, match=r"shape \(3, 5\), but this model's x has shape \(5,\).*iid=True"):
        model.observation(np.ones((3, 5)))
    with pytest.raises(ModelError, match=r"after one leading axis"):
        model.observation(np.ones(5), iid=True)
    with pytest.raises(SupportError, match=r"coordinate 4 of the observation is 0\.0"):
        model.observation([1, 2, 3, 4, 0])
    with pytest.raises(SupportError, match="the observation is nan"):
        model.observation([1, 2, np.nan, 4, 5])
    unmasked = np.ma.masked_array(np.arange(1.0, 6.0), np.zeros(5, bool))
    np.testing.assert_array_equal(model.observation(unmasked), unmasked.data)


def test_models_are_compared_by_identity_and_cannot_be_changed() -> None:
    model = Model(PRIOR, normal)
    assert model != Model(PRIOR, normal)
    assert hash(model) == hash(model)
    with pytest.raises(AttributeError):
        model.names = ("a", "b")  # type: ignore[misc]


def test_the_chart_of_the_parameters_leaves_out_draws_on_the_edge_of_the_prior() -> None:
    model = zoo.gamma()
    theta = np.array([[1.0, 2.0], [1.5, 2.5], [2.0, 1.2], [2.5, 3.0], [1.2, 1.7]], np.float32)
    chart, inner = model.parameter_chart(theta), model.parameter_chart(theta[[1, 2, 4]])
    np.testing.assert_array_equal(chart.shift, inner.shift)
    assert np.all(np.isfinite(jax.vmap(chart.finite)(theta)))
