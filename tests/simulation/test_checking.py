"""`check` finds what is wrong with a model and says it in sentences."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints

import suffice as sf

PRIOR = dist.Uniform(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])).to_event(1)


def normal(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta[0] + theta[1] * jax.random.normal(key, (5,))


def numpy_noise(key: jax.Array, theta: jax.Array) -> jax.Array:
    return normal(key, theta) + np.random.default_rng().normal(size=5).astype(np.float32)


def test_a_sound_model() -> None:
    found = sf.check(sf.Model(PRIOR, normal, names=("mean", "sd")))
    assert found.ok
    assert "The prior draws 2 parameters: mean, sd." in str(found)
    assert str(found).endswith("The model is ready.")


@pytest.mark.parametrize(
    ("simulator", "words"),
    [
        (lambda key, theta: normal(key, theta) + theta[2], "reads an entry of theta that the prior does not draw"),
        (lambda key, theta: jnp.where(theta[0] > 0.5, jnp.nan, normal(key, theta)), "simulations are not finite"),
        (lambda key, theta: normal(jax.random.key(0), theta), "Different keys give the same x"),
        (lambda key, theta: normal(key, theta).at[3].set(theta[0]), "1 of 5 coordinates of x do not vary"),
        (lambda key, theta: theta[0] + jax.random.normal(key, (5,)), "x does not change with theta2"),
        (numpy_noise, "draws random numbers elsewhere than from its key"),
    ],
)
def test_problems_are_found(simulator: Callable[[jax.Array, jax.Array], jax.Array], words: str) -> None:
    found = sf.check(sf.Model(PRIOR, simulator))
    assert not found.ok
    assert any(words in problem for problem in found.problems), str(found)
    assert str(found).splitlines()[-1].endswith("to mend first.")


def test_support_and_likelihood() -> None:
    found = sf.check(sf.Model(PRIOR, normal, support=constraints.positive, log_likelihood=lambda x, theta: x))
    assert any("on or outside its support, greater than 0" in problem for problem in found.problems)
    assert any("must be a scalar" in problem for problem in found.problems)
    found = sf.check(sf.Model(PRIOR, normal, log_likelihood=lambda x, theta: jnp.log(x[0] * 0.0)))
    assert any("log_likelihood is not finite" in problem for problem in found.problems)
