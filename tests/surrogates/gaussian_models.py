"""Models whose statistics are exactly Gaussian, with closed posteriors; and a surrogate without noise."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import suffice as sf

DESIGN = np.array([[1.0, 0.0], [1.0, 1.0], [0.5, -1.0]])
NOISE = np.array([[0.5, 0.0, 0.0], [0.3, 0.6, 0.0], [-0.2, 0.1, 0.7]])  # triangular factor of the covariance
PRIOR_MEAN, PRIOR_SD = np.array([0.5, -0.5]), np.array([1.0, 1.5])


def linear_model() -> sf.Model:
    """x ~ N(A θ, Σ) in three dimensions, θ ~ N(m, diag) in two; the statistics are x itself."""
    prior = dist.Normal(jnp.asarray(PRIOR_MEAN), jnp.asarray(PRIOR_SD)).to_event(1)

    def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
        return jnp.asarray(DESIGN, theta.dtype) @ theta + jnp.asarray(NOISE, theta.dtype) @ jax.random.normal(key, (3,))

    return sf.Model(prior, simulator)


def identity(x: jax.Array) -> jax.Array:
    return x


def exact_posterior(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of the posterior given iid rows of x."""
    precision = np.linalg.inv(NOISE @ NOISE.T)
    covariance = np.linalg.inv(np.diag(PRIOR_SD**-2.0) + len(rows) * DESIGN.T @ precision @ DESIGN)
    mean = covariance @ (PRIOR_MEAN / PRIOR_SD**2 + DESIGN.T @ precision @ rows.sum(axis=0))
    return mean, covariance


def edge_model() -> sf.Model:
    """θ ~ Beta(1, 3), whose density is greatest at its edge 0; x is θ itself."""
    prior = dist.Beta(jnp.array([1.0]), jnp.array([3.0])).to_event(1)
    return sf.Model(prior, lambda key, theta: theta)


class Noiseless(eqx.Module):
    """A likelihood known exactly where x is θ: N(evidence; θ, sd²)."""

    sd: jax.Array

    def log_likelihood(self, rows: jax.Array, good: jax.Array, evidence: jax.Array) -> jax.Array:
        return -0.5 * jnp.sum(((evidence - jnp.mean(rows)) / self.sd) ** 2)


class Bounded(eqx.Module):
    """The same, uniform within `reach` of θ and zero beyond."""

    reach: jax.Array

    def log_likelihood(self, rows: jax.Array, good: jax.Array, evidence: jax.Array) -> jax.Array:
        return jnp.where(jnp.abs(jnp.sum(evidence - jnp.mean(rows))) < self.reach, 0.0, -jnp.inf)


def edge_moments(observed: float, sd: float) -> tuple[float, float]:
    """Mean and standard deviation of the posterior of the edge model, by quadrature."""
    theta = (np.arange(200_000) + 0.5) / 200_000
    density = (1 - theta) ** 2 * np.exp(-0.5 * ((observed - theta) / sd) ** 2)
    density /= density.sum()
    mean = density @ theta
    return float(mean), float(np.sqrt(density @ (theta - mean) ** 2))
