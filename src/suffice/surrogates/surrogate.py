"""What every surrogate of a likelihood has in common: its settings, and how they lead to posteriors."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from numpy.typing import ArrayLike

from suffice.model import Model
from suffice.posterior import Posterior
from suffice.requiring import require_whole
from suffice.surrogates.likelihood import Estimator, Likelihood
from suffice.surrogates.metropolis import run_metropolis
from suffice.surrogates.population import run_populations
from suffice.surrogates.request import Plan, Request
from suffice.surrogates.summaries import Statistics, Summaries

Sampler = Literal["population", "metropolis"]


@dataclass(frozen=True, eq=False)
class Surrogate(ABC):
    """Settings of a surrogate likelihood and of the sampler that uses it; final classes say which surrogate."""

    model: Model
    statistics: Statistics
    simulations: int = 100
    sampler: Sampler = "population"
    particles: int = 1000
    iterations: int = 10
    warmup: int = 500
    thin: int = 3
    keep_history: bool = True
    executor: Any = None

    def __post_init__(self) -> None:
        if self.sampler not in ("population", "metropolis"):
            raise ValueError(f"sampler is {self.sampler!r}, but must be 'population' or 'metropolis'.")
        least = {"simulations": 2, "particles": 20, "iterations": 1, "warmup": 20, "thin": 1}
        for name, bound in least.items():
            require_whole(name, getattr(self, name), bound)
        needed, reason = self.needed_simulations(self.summaries)
        if self.simulations < needed:
            raise ValueError(
                f"simulations is {self.simulations}, but must be at least {needed}: {reason}. Give more simulations "
                "at each parameter, or fewer statistics."
            )

    @abstractmethod
    def needed_simulations(self, summaries: Summaries) -> tuple[int, str]:
        """The least number of simulations at each θ, and why."""

    @abstractmethod
    def estimator(self, key: PRNGKeyArray, summaries: Summaries) -> tuple[Estimator, int]:
        """The surrogate, ready to use, and how many simulations that took."""

    @cached_property
    def summaries(self) -> Summaries:
        """The statistics, with what is known of them."""
        return Summaries.of(self.model, self.statistics, self.executor)

    def observation(self, observed: ArrayLike, *, iid: bool) -> np.ndarray:
        """See `Method`."""
        return self.model.observation(observed, iid=iid)

    def sample_each(self, key: PRNGKeyArray, observations: Float[np.ndarray, "n ..."], run: Request) -> list[Posterior]:
        """See `Method`."""
        key_trial, key_estimator, key_run = jax.random.split(key, 3)
        summaries = self.summaries
        rows = observations if run.iid else observations[:, None]
        evidence = summaries(rows.reshape(-1, *self.model.data_shape)).reshape(*rows.shape[:2], -1)
        if not np.isfinite(evidence).all():
            where = np.flatnonzero(~np.isfinite(evidence).all(axis=(0, 1))).tolist()
            raise ValueError(f"Components {where} (counted from 0) of the observation's statistics are not finite.")
        summaries.require_sound(key_trial)
        estimator, spent = self.estimator(key_estimator, summaries)
        likelihood = Likelihood(summaries, estimator, self.simulations)
        plan = Plan(self.particles, self.iterations, self.warmup, self.thin, self.keep_history)
        call = (key, self, self.model.prior, observations, run.num_draws, run.num_chains)
        sampler = run_populations if self.sampler == "population" else run_metropolis
        posteriors = sampler(key_run, likelihood, evidence, plan, run, call)
        for posterior in posteriors:
            posterior.info.update(method=type(self).__name__, sampler=self.sampler, reference_simulations=spent)
        return posteriors
