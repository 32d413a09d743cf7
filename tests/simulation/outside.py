"""Models of simulators that are no JAX code."""

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from tests.simulation import simulators

import suffice as sf

PRIOR = dist.Uniform(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])).to_event(1)


def jax_normal(key: jax.Array, theta: jax.Array) -> jax.Array:
    return theta[0] + theta[1] * jax.random.normal(key, (4,))


def outside(function: Any = simulators.normal, **settings: Any) -> sf.Model:
    return sf.Model.external(PRIOR, function, names=("mean", "sd"), **({"data_shape": (4,)} | settings))
