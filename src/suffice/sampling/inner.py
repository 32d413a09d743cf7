"""Are the inner steps of exchange MCMC enough? Compare the posterior with the one of twice as many."""

from dataclasses import dataclass, replace

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from numpy.typing import ArrayLike

from suffice.posterior import Posterior
from suffice.sampling.exchange import Exchange
from suffice.sampling.kernels import KERNELS
from suffice.sampling.running import sample


@dataclass(frozen=True, eq=False)
class InnerDrift:
    """How the posterior moves when inner steps are doubled, for each parameter.

    Attributes:
        inner_steps: the number of inner steps, before doubling.
        mean_shift: the change of the posterior mean, in posterior standard deviations.
        mean_error: the Monte Carlo standard error of that.
        sd_ratio: the posterior sd with twice the steps over the one with as many as given.
        sd_error: the Monte Carlo standard error of that.
        posterior: the posterior with twice the steps.
    """

    inner_steps: int
    mean_shift: Float[np.ndarray, " p"]
    mean_error: Float[np.ndarray, " p"]
    sd_ratio: Float[np.ndarray, " p"]
    sd_error: Float[np.ndarray, " p"]
    posterior: Posterior

    @property
    def enough(self) -> bool:
        """Whether mean and sd move by less than a tenth of a posterior sd, or by no more than chance."""
        shifts, changes = np.abs(self.mean_shift), np.abs(self.sd_ratio - 1.0)
        steady_mean = (shifts < 0.1) | (shifts < 3 * self.mean_error)
        steady_sd = (changes < 0.1) | (changes < 3 * self.sd_error)
        return bool(np.all(steady_mean & steady_sd))

    def __str__(self) -> str:
        rows = zip(self.posterior.names, self.mean_shift, self.mean_error, self.sd_ratio, self.sd_error, strict=True)
        lines = [f"{name}: mean {a:+.3f} ± {b:.3f} sd, sd × {c:.3f} ± {d:.3f}" for name, a, b, c, d in rows]
        kernel = self.posterior.info["kernel"]  # a name, or the settings of a `Kernel`
        advice = f"kernel={repr(kernel) if kernel in KERNELS else kernel}, inner_steps={2 * self.inner_steps}"
        verdict = "enough" if self.enough else f"too few: use {advice} or more"
        return "\n".join([*lines, f"{self.inner_steps} inner steps are {verdict}."])


def diagnose_inner(
    key: PRNGKeyArray,
    method: Exchange,
    observed: ArrayLike,
    *,
    num_draws: int = 1000,
    num_chains: int = 4,
    iid: bool = False,
    progress: bool = True,
) -> InnerDrift:
    """The drift of the posterior between `method.inner_steps` and twice that; arguments as for `sample`."""
    method = method.settled(np.asarray(observed).size)
    keys, steps = jax.random.split(key), method.inner_steps
    assert steps is not None
    methods = (method, replace(method, inner_steps=2 * steps))
    before, after = (
        sample(key, method, observed, num_draws=num_draws, num_chains=num_chains, iid=iid, progress=progress)
        for key, method in zip(keys, methods, strict=True)
    )
    errors = (before.convergence, after.convergence)
    mean_error = np.hypot(errors[0].mcse_mean, errors[1].mcse_mean) / before.sd
    ratio = after.sd / before.sd
    sd_error = ratio * np.hypot(errors[0].mcse_sd / before.sd, errors[1].mcse_sd / after.sd)
    shift = (after.mean - before.mean) / before.sd
    return InnerDrift(steps, shift, mean_error, ratio, sd_error, after)
