"""From draws to posteriors: what every sampler of a fit knows of its observations and writes down with the draws."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from suffice.family.region import Region
from suffice.fitting import Fit
from suffice.posterior import Posterior

EDGE = 0.95  # of the way to the farthest training parameter, from where on a draw counts as beyond them


def posteriors(
    fit: Fit,
    observations: Float[np.ndarray, "n ..."],
    draws: Float[np.ndarray, "n chain draw p"],
    numbers: dict[str, np.ndarray],
    common: dict[str, Any],
) -> list[Posterior]:
    """One posterior for each observation; `numbers` have a row for each of them, `common` is the same for all."""
    tails = fit.outside_training(observations.reshape(-1, *fit.data_shape)).reshape(len(observations), -1).min(axis=1)
    common = common | {"observations": len(observations)}
    if fit.region is not None:
        numbers = numbers | {"beyond_training": _beyond(fit.region, draws)}
    return [
        Posterior(
            draws[i],
            fit.names,
            info=common
            | {name: values[i] if values.ndim > 1 else float(values[i]) for name, values in numbers.items()}
            | {"outside_training": float(tails[i])},
        )
        for i in range(len(observations))
    ]


def _beyond(region: Region, draws: Float[np.ndarray, "n chain draw p"]) -> Float[np.ndarray, " n"]:
    """The share of each observation's draws at the edge of what the fit was trained on, or beyond."""
    return np.asarray(_far_out(region, jnp.asarray(draws.reshape(len(draws), -1, draws.shape[-1])))).mean(axis=1)


@eqx.filter_jit
def _far_out(region: Region, theta: Float[Array, "n m p"]) -> Array:
    return jax.vmap(jax.vmap(lambda row: region.distance(row) > EDGE))(theta)
