"""Direct posteriors: with the amortised normaliser A(θ) ≈ log Z(θ), the posterior is known up to one constant.

    log π(θ|x⁰) = log π(θ) + η(θ)·Σᵢ f(yᵢ⁰) − n A(θ) + const    (n iid replicates; one unless told)

No inner chain and no further simulation, whatever the dimension of x. The data enter through Σf and n alone, so one
compiled program serves any observation. For a regression (`PosteriorMean`), the density of its statistics given θ takes
that place (`suffice.family.gaussian`).

What stands on blackjax is imported where it is used: its import starts JAX's backend, too early to choose devices.
"""

import time
from dataclasses import dataclass
from typing import Any, Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution

from suffice.charts import bounds
from suffice.family.gaussian import ConditionalGaussian
from suffice.family.normaliser import Normaliser
from suffice.fitting import Fit
from suffice.grid import GridPosterior
from suffice.posterior import Posterior
from suffice.sampling.assembling import posteriors
from suffice.sampling.chains import Run, run_chains
from suffice.sampling.target import Target

Sampler = Literal["nuts", "smc", "grid"]
STARTS = 200  # prior draws that a chain begins from one of, where polynomial moments can make ridges far from the mode


@dataclass(frozen=True, eq=False)
class Direct:
    """The posterior by the amortised normaliser of a fit: milliseconds for a new observation, no simulation.

    Args:
        fit: a fitted family, or a regression by a network.
        sampler: "nuts" (No-U-Turn, tuned by window adaptation); "smc" (adaptive tempered sequential Monte Carlo, for
            posteriors with several modes: as many particles as draws in each chain); "grid" (p ≤ 2: independent draws
            from a tabulated density).
        warmup: NUTS: first steps of every chain, in which it is tuned; thrown away.
        max_doublings: NUTS: of a trajectory, at most.
        prior: another prior than the one of the training simulations, of the same support.
    """

    fit: Fit
    sampler: Sampler = "nuts"
    warmup: int = 300
    max_doublings: int = 8
    prior: Distribution | None = None

    def __post_init__(self) -> None:
        for name, least in (("warmup", 20), ("max_doublings", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}, but must be a whole number of at least {least}.")
        if self.sampler not in ("nuts", "smc", "grid"):
            raise ValueError(f"sampler is {self.sampler!r}, but must be 'nuts', 'smc' or 'grid'.")
        from suffice.sampling.exchange import require_sound

        require_sound(self.fit, self.prior)
        if self.fit.normaliser is None:
            raise ValueError(
                "The fit has no normaliser. A regression gets one where it is by a network (not linear=True), its "
                "statistics vary and hundreds of pairs are held out: simulate more, or raise validation_fraction. A "
                "family needs none for Exchange(fit)."
            )
        if self.sampler == "grid" and len(self.fit.names) > 2:
            raise ValueError(f"A grid holds at most 2 parameters, not {len(self.fit.names)}. Use 'nuts' or 'smc'.")

    @property
    def target(self) -> Target:
        """The log-posterior that these settings describe."""
        return Target.of(self.fit, self.prior)

    def observation(self, observed: ArrayLike, *, iid: bool) -> np.ndarray:
        """See `Method`."""
        return self.fit.observation(observed, iid=iid)

    def evidence(self, observations: np.ndarray, *, iid: bool) -> Float[np.ndarray, "n m"]:
        """What the normaliser gathers of each observation's statistics, Σf of a family, and n."""
        assert self.fit.normaliser is not None
        rows = observations if iid else observations[:, None]
        flat = self.fit.statistics(rows.reshape(-1, *self.fit.data_shape))
        gathered = np.asarray(_gathered(self.fit.normaliser, flat.reshape(*rows.shape[:2], -1)))
        return np.concatenate([gathered, np.full((len(rows), 1), rows.shape[1])], axis=1).astype(flat.dtype)

    def sample_each(self, key: PRNGKeyArray, observations: Float[np.ndarray, "n ..."], run: Run) -> list[Posterior]:
        """See `Method`."""
        evidence, target, began = self.evidence(observations, iid=run.iid), self.target, time.monotonic()
        numbers: dict[str, np.ndarray] = {}
        if self.sampler == "grid":
            draws = self._from_grids(key, evidence, run)
        elif self.sampler == "smc":
            from suffice.sampling.tempering import temper

            draws, numbers = temper(key, target, evidence, run)
        else:
            from suffice.sampling.nuts import NutsChain

            starts = STARTS if isinstance(target.normaliser, ConditionalGaussian) else 1
            chain = NutsChain(target, self.warmup, self.max_doublings, starts=starts)
            chains = run_chains(key, chain, evidence, run)
            draws, numbers = chains.draws, chains.info
        common: dict[str, Any] = {"method": "Direct", "sampler": self.sampler, "seconds": time.monotonic() - began}
        if self.fit.held_out is not None and self.prior is None:
            common["held_out_coverage"] = float(self.fit.held_out.coverage.min())
        numbers = numbers | {"convex": _convexity(target, draws, evidence)}
        return posteriors(self.fit, observations, draws, numbers, common)

    def grid(self, observed: ArrayLike, *, iid: bool = False) -> GridPosterior:
        """The posterior tabulated on a grid (p ≤ 2)."""
        return self._grid(self.evidence(self.observation(observed, iid=iid)[None], iid=iid)[0])

    def log_prob(self, theta: ArrayLike, observed: ArrayLike, *, iid: bool = False) -> Any:
        """The log-density of the posterior at rows of θ; normalised for p ≤ 2, otherwise up to a constant."""
        if len(self.fit.names) <= 2:
            return self.grid(observed, iid=iid).log_prob(np.asarray(theta))
        evidence = jnp.asarray(self.evidence(self.observation(observed, iid=iid)[None], iid=iid)[0])
        rows = jnp.asarray(theta, evidence.dtype)
        values = _log_posteriors(self.target, jnp.atleast_2d(rows), evidence)
        return np.asarray(values[0] if rows.ndim == 1 else values)

    def _grid(self, evidence: Float[np.ndarray, " m"]) -> GridPosterior:
        target, p = self.target, len(self.fit.names)
        limits = np.stack(bounds(target.prior.support, (p,)))
        draws = np.asarray(target.prior.sample(jax.random.key(0), (1000,)))
        box = np.where(np.isfinite(limits), limits, np.stack([draws.min(0), draws.max(0)]))
        data = jnp.asarray(evidence)

        def log_density(theta: Array) -> Array:
            return target.prior.log_prob(theta) + target.log_likelihood(theta.astype(data.dtype), data)

        return GridPosterior.tabulate(log_density, self.fit.names, box, limits)

    def _from_grids(
        self, key: PRNGKeyArray, evidence: Float[np.ndarray, "n m"], run: Run
    ) -> Float[np.ndarray, "n chain draw p"]:
        keys, num = jax.random.split(key, len(evidence)), run.num_draws * run.num_chains
        flat = [self._grid(row).resample(key, num).flat for key, row in zip(keys, evidence, strict=True)]
        return np.stack(flat).reshape(len(evidence), run.num_chains, run.num_draws, -1)


@eqx.filter_jit
def _gathered(normaliser: Normaliser | ConditionalGaussian, statistics: Array) -> Array:
    return jax.vmap(normaliser.gather)(statistics)


@eqx.filter_jit
def _log_posteriors(target: Target, theta: Array, evidence: Array) -> Array:
    def one(theta: Array) -> Array:
        return target.prior.log_prob(theta) + target.log_likelihood(theta, evidence)

    return jax.vmap(one)(theta)


@eqx.filter_jit
def _curvatures(target: Target, theta: Array, evidence: Array) -> Array:
    return jax.vmap(lambda rows, data: jax.vmap(lambda row: target.curvature(row, data))(rows))(theta, evidence)


def _convexity(
    target: Target, draws: Float[np.ndarray, "n chain draw p"], evidence: Float[np.ndarray, "n m"]
) -> Float[np.ndarray, " n"]:
    """The share of the posterior's mass where its log-density is convex in some direction."""
    rows = draws.reshape(len(draws), -1, draws.shape[-1])
    some = rows[:, np.linspace(0, rows.shape[1] - 1, min(100, rows.shape[1])).astype(int)]
    return np.mean(np.asarray(_curvatures(target, jnp.asarray(some), jnp.asarray(evidence))) > 0, axis=1)
