"""The prior of every model of the paper: uniform on a box."""

from collections.abc import Sequence

import jax.numpy as jnp
import numpyro.distributions as dist


def uniform(low: Sequence[float], high: Sequence[float]) -> dist.Distribution:
    """θ uniform on the box from `low` to `high`."""
    return dist.Uniform(jnp.asarray(low, jnp.float32), jnp.asarray(high, jnp.float32)).to_event(1)
