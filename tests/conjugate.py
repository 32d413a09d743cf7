"""A model whose posterior is known in closed form, and methods that draw from it: right, and wrong on purpose."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpy.typing import ArrayLike

import suffice as sf

SIZE = 5  # observations in one x, of unit variance


def model() -> sf.Model:
    """Two means with standard normal priors; x holds `SIZE` values of each, in turn."""
    prior = dist.Normal(jnp.zeros(2), 1.0).to_event(1)
    return sf.Model(
        prior, lambda key, theta: jnp.tile(theta, SIZE) + jax.random.normal(key, (2 * SIZE,)), names=("a", "b")
    )


def exact(observed: np.ndarray, num: int, seed: int = 0) -> sf.Posterior:
    """Independent draws of the posterior, in four chains."""
    mean, sd = moments(observed)
    draws = mean + sd * np.random.default_rng(seed).normal(size=(4, num, 2))
    return sf.Posterior(draws.astype(np.float32), ("a", "b"))


def moments(observed: np.ndarray) -> tuple[np.ndarray, float]:
    """The mean and sd of the posterior."""
    return observed.reshape(SIZE, 2).sum(0) / (SIZE + 1), (SIZE + 1) ** -0.5


@dataclass(frozen=True)
class Sampler:
    """A method that draws from the posterior, `width` times too wide and `shift` of its spreads too high."""

    width: float = 1.0
    shift: float = 0.0

    def observation(self, observed: ArrayLike, *, iid: bool) -> np.ndarray:
        """See `Method`."""
        return np.asarray(observed)

    def sample_each(self, key: jax.Array, observations: np.ndarray, run: Any) -> list[sf.Posterior]:
        """See `Method`."""
        found = []
        for i, row in enumerate(observations):
            mean, sd = moments(row)
            noise = jax.random.normal(jax.random.fold_in(key, i), (run.num_chains, run.num_draws, 2))
            draws = mean + sd * (self.shift + self.width * np.asarray(noise))
            found.append(sf.Posterior(draws.astype(np.float32), ("a", "b"), info={"method": "Sampler", "seconds": 0.0}))
        return found
