"""Models whose ABC posteriors are known by quadrature, and what is compared with them."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy.stats import expon, norm

import suffice as sf

SIZE = 4  # values in x; their mean has standard deviation 1/2


def mean_of(x: jax.Array) -> jax.Array:
    return jnp.mean(x)[None]


TRACES: list[int] = []


def noisy(key: jax.Array, theta: jax.Array) -> jax.Array:
    TRACES.append(1)
    return theta[0] + jax.random.normal(key, (SIZE,))


@cache
def conjugate() -> sf.Model:
    """θ ~ N(0, 4), x ~ N(θ, 1): everything Gaussian."""
    return sf.Model(dist.Normal(jnp.zeros(1), 2.0).to_event(1), noisy)


@cache
def edged() -> sf.Model:
    """θ ~ Exponential(1): a prior that is not uniform and has an edge, where its density is highest."""
    return sf.Model(dist.Exponential(jnp.ones(1)).to_event(1), noisy)


def data_with_mean(mean: float) -> np.ndarray:
    return np.array([-1.0, -0.2, 0.4, 0.8], np.float32) + np.float32(mean)


def abc_posterior(model: sf.Model, mean: float, tolerance: float) -> tuple[float, float]:
    """Mean and sd of π(θ) P(|x̄ − mean| ≤ tolerance | θ), by quadrature; at tolerance 0, the posterior."""
    grid = np.linspace(-12.0, 12.0, 24_000)  # 0, an edge, is between two points
    sd = 1.0 / np.sqrt(SIZE)
    prior = expon.pdf(grid) if model is edged() else norm.pdf(grid, scale=2.0)
    if tolerance:
        inside = norm.cdf((mean + tolerance - grid) / sd) - norm.cdf((mean - tolerance - grid) / sd)
    else:
        inside = norm.pdf((mean - grid) / sd)
    density = prior * inside
    density /= density.sum()
    centre = float(density @ grid)
    return centre, float(np.sqrt(density @ (grid - centre) ** 2))


def errors(posterior: sf.Posterior, truth: tuple[float, float], effective: float) -> tuple[float, float]:
    """Errors of mean and sd in their standard errors, given how many independent draws there are."""
    mean, sd = truth
    return (
        abs(float(posterior.mean[0]) - mean) / (sd / np.sqrt(effective)),
        abs(float(posterior.sd[0]) - sd) / (sd / np.sqrt(effective)),
    )
