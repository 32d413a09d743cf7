"""Exchange MCMC on a fitted family (Murray et al., 2012; Section 4.2 and the appendix on ExchangeMCMC of the paper).

The posterior π(θ|x⁰) ∝ π(θ) exp(s(y⁰, θ)) / Z(θ) has an intractable Z(θ). A proposal θ' comes with auxiliary data y'
from the family at θ', made by an inner chain that starts at y⁰; in the acceptance

    log α = log π(θ')/π(θ) + s(y⁰, θ') − s(y⁰, θ) + s(y', θ) − s(y', θ')

all Z cancel; where θ' comes from a guide (`suffice.sampling.outer`), the ratio of the proposals' densities joins it.
Bridges move y' from θ' to θ in K steps that leave s_k = β_k s(·, θ') + (1 − β_k) s(·, θ) invariant, β_k =
(K − k + 1)/(K + 1), and the last two terms become their mean over y'_0, …, y'_K. Both y and θ are in their charts: the
family is a density of y, so no Jacobian belongs to the data; that of θ belongs to its prior.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution

from suffice.charts import Chart, bounds, describe
from suffice.family.envelope import Envelope, features
from suffice.family.exponential import ExponentialFamily
from suffice.fitting import Fit
from suffice.posterior import Posterior
from suffice.sampling.adaptation import Shape, Tuned
from suffice.sampling.assembling import posteriors
from suffice.sampling.chains import Draw, Run, run_chains
from suffice.sampling.kernels import KERNELS, Kernel, KernelName, LogDensity, run_kernel
from suffice.sampling.outer import WALKED, Guide, Proposal, walk
from suffice.sampling.target import Target

Start = Literal["prior", "centre"]
Outer = Literal["guided", "adaptive", "random-walk"]
MOST_WALKED = 20  # numbers in an observation up to which a random walk serves: it does for 10, and not for 100


class ExchangeState(NamedTuple):
    """What the next step needs: θ in its chart, and what is tuned."""

    position: Float[Array, " p"]
    outer: Tuned
    inner: Tuned
    bridge: Tuned
    shape: Shape


class ExchangeChain(eqx.Module):
    """The chain on θ for one y⁰ (or for iid rows of them)."""

    family: ExponentialFamily
    prior: Distribution
    chart: Chart
    envelope: Envelope
    guide: Guide | None
    sizes: tuple[float, float, float] = eqx.field(static=True)
    inner_steps: int = eqx.field(static=True)
    bridges: int = eqx.field(static=True)
    kernel: Kernel = eqx.field(static=True)
    outer: Outer = eqx.field(static=True)
    start: Start = eqx.field(static=True)
    warmup: int = eqx.field(static=True)
    thin: int = eqx.field(static=True)
    window: int = eqx.field(static=True)
    iid: bool = eqx.field(static=True)

    def init(self, key: PRNGKeyArray, observation: Float[Array, "..."]) -> ExchangeState:
        """A draw from the prior, or the centre of its chart."""
        centre = jnp.zeros_like(self.chart.shift)
        position = centre if self.start == "centre" else self.chart.finite(self.prior.sample(key))
        outer, inner, bridge = (Tuned.begin(size) for size in self.sizes)
        return ExchangeState(position, outer, inner, bridge, Shape.begin(position.size))

    def step(
        self, key: PRNGKeyArray, observation: Float[Array, "..."], state: ExchangeState, index: Array
    ) -> tuple[ExchangeState, Draw]:
        """One step of Algorithm ExchangeMCMC with inner MCMC and bridging, then tuning while in warm-up."""
        key_outer, key_inner, key_bridges, key_accept = jax.random.split(key, 4)
        proposal, plain = self._propose(key_outer, state, observation, index)
        proposed = proposal.position
        new, old = self._density(proposed), self._density(state.position)
        first, inner_rate = run_kernel(self.kernel, key_inner, new, observation, state.inner.size, self.inner_steps)
        ratio, bridge_rate = self._bridge(key_bridges, old, new, first, state.bridge.size)
        log_accept = self.chart.log_prob(self.prior, proposed) - self.chart.log_prob(self.prior, state.position)
        log_accept += new(observation) - old(observation) + ratio + proposal.log_ratio
        acceptance = jnp.exp(jnp.minimum(jnp.nan_to_num(log_accept, nan=-jnp.inf), 0.0))
        accepted = jnp.log(jax.random.uniform(key_accept)) < log_accept
        info = {
            "acceptance": acceptance,
            "inner_acceptance": inner_rate,
            "bridge_acceptance": bridge_rate,
            "auxiliary_tail": self._tail(first),
        }
        position = jnp.where(accepted, proposed, state.position)
        rates = {"outer": acceptance, "inner": inner_rate, "bridge": bridge_rate}
        state = self._tuned(state._replace(position=position), rates, plain, index)
        return state, Draw(self.chart.inverse(position), info)

    def _propose(
        self, key: PRNGKeyArray, state: ExchangeState, observation: Array, index: Array
    ) -> tuple[Proposal, Array]:
        """A new θ, and whether it is one of a plain step, as all are in the first half of warm-up."""
        factor = state.outer.size * state.shape.factor
        plain = walk(key, state.position, factor)
        if self.guide is None:
            return plain, jnp.ones((), bool)
        key_guide, key_choice = jax.random.split(jax.random.fold_in(key, 1))
        evidence = self.guide.evidence(self.family, observation if self.iid else observation[None])
        guided = self.guide.propose(key_guide, state.position, factor, evidence)
        walked = (jax.random.uniform(key_choice) < WALKED) | (index < self.warmup // 2)
        return jax.tree.map(lambda one, other: jnp.where(walked, one, other), plain, guided), walked

    def _density(self, position: Array) -> LogDensity:
        given = self.family.given(self.chart.inverse(position))
        return (lambda rows: jnp.sum(jax.vmap(given)(rows))) if self.iid else given

    def _bridge(
        self, key: PRNGKeyArray, old: LogDensity, new: LogDensity, first: Array, size: Array
    ) -> tuple[Array, Array]:
        """The mean of s(y'_k, θ) − s(y'_k, θ') over k = 0 … K, and the bridges' acceptance."""
        number = self.bridges

        def step(carried: tuple[Array, Array, Array], inputs: Any) -> tuple[tuple[Array, Array, Array], None]:
            (y, ratio, rate), (noise, beta) = carried, inputs

            def between(y: Array) -> Array:
                return beta * new(y) + (1.0 - beta) * old(y)

            moved = self.kernel.step(noise, self.kernel.init(y, between), between, size)
            y = moved.state.position
            return (y, ratio + old(y) - new(y), rate + moved.acceptance), None

        betas = (number - jnp.arange(1, number + 1) + 1.0) / (number + 1.0)
        start = (first, old(first) - new(first), jnp.zeros((), first.dtype))
        noise = self.kernel.noise(key, number, first)
        (_, ratio, rate), _ = jax.lax.scan(step, start, (noise, betas.astype(first.dtype)))
        return ratio / (number + 1), rate / max(number, 1)

    def _tail(self, auxiliary: Array) -> Array:
        """How many training data are farther out than the auxiliary ones (the farthest of iid rows)."""
        rows = auxiliary if self.iid else auxiliary[None]
        return jnp.min(jax.vmap(lambda y: self.envelope.tail(features(self.family, y)))(rows))

    def _tuned(self, state: ExchangeState, rates: dict[str, Array], plain: Array, index: Array) -> ExchangeState:
        """What is tuned, after step `index`; as it is once warm-up is over. Plain steps alone tune the outer size."""
        tuned = {name: getattr(state, name).seen(rate) for name, rate in rates.items()}
        tuned["outer"] = jax.tree.map(lambda one, other: jnp.where(plain, one, other), tuned["outer"], state.outer)
        shape = state.shape.seen(state.position)
        warming = index < self.warmup

        def adjust() -> tuple[dict[str, Tuned], Shape]:
            intervals = {"outer": (0.2, 0.5), "inner": self.kernel.acceptance, "bridge": self.kernel.acceptance}
            sizes = {name: tuned[name].adjusted(interval) for name, interval in intervals.items()}
            return sizes, shape if self.outer == "random-walk" else shape.adjusted()

        at_end = warming & ((index + 1) % self.window == 0)
        tuned, shape = jax.lax.cond(at_end, adjust, lambda: (tuned, shape))
        early = (index + 1 == self.warmup // 4) | (index + 1 == self.warmup // 2)
        shape = jax.tree.map(lambda one, other: jnp.where(early, one, other), shape.forgotten(), shape)
        new = state._replace(**tuned, shape=shape)
        return jax.tree.map(lambda one, other: jnp.where(warming, one, other), new, state)


@dataclass(frozen=True, eq=False)
class Exchange:
    """Exchange MCMC: a posterior from a fitted family, with no further simulation.

    Args:
        fit: a fitted family.
        inner_steps: steps of the inner chain that makes auxiliary data, from the observation on; too few bias the
            posterior towards wide ones (`diagnose_inner` measures that). If not given, 10 of "hmc", 100 of others.
        bridges: K, steps between the two θ in which the auxiliary data follow; 0 for none.
        kernel: how data move: "random-walk", "mala" or "hmc", or a `Kernel`. If neither it nor `inner_steps` is given,
            a random walk for observations of up to 20 numbers (of all iid replicates together) and HMC for larger ones,
            where a walk would take too long.
        outer: the proposal for θ: "guided" (a walk on the posterior of `Direct`, corrected for it, so that the result
            is as exact as by the others), "adaptive" (a random walk with the covariance of draws in warm-up) or
            "random-walk" (with a ball). If not given, "guided" where the fit has a normaliser, else "adaptive".
        warmup: first steps of every chain, in which it is tuned; thrown away.
        thin: steps to one draw that is kept.
        window: steps after which step sizes are tuned, each by its own acceptance.
        outer_size: the first step size in the chart of θ, where the prior has spread 1.
        inner_size: the first step size in the chart of y, where training data have spread 1.
        bridge_size: the same for bridges.
        start: where chains begin: at draws from the "prior", or all at the "centre" of its chart.
        prior: another prior than the one of the training simulations, of the same support.
    """

    fit: Fit
    inner_steps: int | None = None
    bridges: int = 0
    kernel: KernelName | Kernel | None = None
    outer: Outer | None = None
    warmup: int = 1000
    thin: int = 5
    window: int = 100
    outer_size: float = 0.5
    inner_size: float = 0.1
    bridge_size: float = 0.1
    start: Start = "prior"
    prior: Distribution | None = None

    def __post_init__(self) -> None:
        for name, least in (("inner_steps", 1), ("bridges", 0), ("warmup", 0), ("thin", 1), ("window", 1)):
            value = getattr(self, name)
            if value is None and name == "inner_steps":
                continue
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} is {value!r}, but must be a whole number of at least {least}.")
        for name in ("outer_size", "inner_size", "bridge_size"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)!r}, but a step size must be positive.")
        if isinstance(self.kernel, str) and self.kernel not in KERNELS:
            raise ValueError(f"kernel is {self.kernel!r}, but must be one of {', '.join(map(repr, KERNELS))}.")
        if self.outer not in (None, "guided", "adaptive", "random-walk"):
            raise ValueError(f"outer is {self.outer!r}, but must be 'guided', 'adaptive' or 'random-walk'.")
        if self.start not in ("prior", "centre"):
            raise ValueError(f"start is {self.start!r}, but must be 'prior' or 'centre'.")
        if not isinstance(self.fit.module, ExponentialFamily):
            raise TypeError(
                "This fit is a regression (PosteriorMean), without the density of x that Exchange needs. Use "
                "Direct(fit), or fit by ScoreMatching()."
            )
        require_sound(self.fit, self.prior)
        if self.outer == "guided" and self.fit.normaliser is None:
            raise ValueError("The fit has no normaliser that could guide proposals. Use outer='adaptive'.")

    @classmethod
    def paper(cls, model_name: str, fit: Fit) -> "Exchange":
        """The paper's settings for its model of that name; it keeps 10,000 draws of one chain after the warm-up."""
        if model_name not in _PAPER:
            raise ValueError(f"The paper has no settings for {model_name!r}: it has {', '.join(_PAPER)}.")
        inner_steps, bridges, inner_size = _PAPER[model_name]
        return cls(
            fit,
            inner_steps=inner_steps,
            bridges=bridges,
            kernel="random-walk",
            outer="random-walk",
            warmup=10_000,
            thin=1,
            inner_size=inner_size,
            bridge_size=inner_size,
            start="centre",
        )

    def settled(self, numbers: int) -> "Exchange":
        """The same with what was left open decided for an observation of so many numbers."""
        following = self.inner_steps is None and numbers > MOST_WALKED
        kernel = self.kernel or ("hmc" if following else "random-walk")
        steps = self.inner_steps or (10 if kernel == "hmc" else 100)
        outer = self.outer or ("adaptive" if self.fit.normaliser is None else "guided")
        return replace(self, kernel=kernel, inner_steps=steps, outer=outer)

    def chain(self, *, iid: bool = False) -> ExchangeChain:
        """The Markov chain that these settings describe; they must be `settled`."""
        fit = self.fit
        prior = fit.prior if self.prior is None else self.prior
        assert self.inner_steps is not None
        assert self.kernel is not None
        assert self.outer is not None
        assert prior is not None
        assert fit.parameter_chart is not None
        assert fit.envelope is not None
        return ExchangeChain(
            fit.family,
            prior,
            fit.parameter_chart,
            fit.envelope,
            Guide(Target.of(fit, prior)) if self.outer == "guided" else None,
            (self.outer_size, self.inner_size, self.bridge_size),
            self.inner_steps,
            self.bridges,
            KERNELS[self.kernel] if isinstance(self.kernel, str) else self.kernel,
            self.outer,
            self.start,
            self.warmup,
            self.thin,
            self.window,
            iid,
        )

    def observation(self, observed: ArrayLike, *, iid: bool) -> np.ndarray:
        """See `Method`."""
        return self.fit.observation(observed, iid=iid)

    def sample_each(self, key: PRNGKeyArray, observations: Float[np.ndarray, "n ..."], run: Run) -> list[Posterior]:
        """See `Method`."""
        settled = self.settled(observations[0].size)
        forward = jax.vmap(self.fit.family.data_chart.forward)
        y = np.asarray(jax.vmap(forward)(observations) if run.iid else forward(observations))
        chains = run_chains(key, settled.chain(iid=run.iid), y, run)
        sizes = {f"{name}_size": np.asarray(getattr(chains.states, name).size) for name in ("outer", "inner", "bridge")}
        numbers = {
            name: values for name, values in (chains.info | sizes).items() if self.bridges or "bridge" not in name
        }
        common: dict[str, Any] = {
            "method": "Exchange",
            "inner_steps": settled.inner_steps,
            "bridges": self.bridges,
            "kernel": settled.kernel if isinstance(settled.kernel, str) else repr(settled.kernel),
            "outer": settled.outer,
            "seconds": chains.seconds,
        }
        if self.fit.held_out is not None and self.prior is None:
            common["held_out_coverage"] = self.fit.held_out.unrefined
        return posteriors(self.fit, observations, chains.draws, numbers, common)


def require_sound(fit: Fit, prior: Distribution | None) -> None:
    """Raise unless the fit has finite weights and knows its prior, and `prior`, if given, agrees."""
    arrays = [leaf for leaf in jax.tree.leaves(fit.module) if eqx.is_inexact_array(leaf)]
    if not all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in arrays):
        raise ValueError("The fit has weights that are not finite, so it has no density. Fit again.")
    if fit.parameter_chart is None or fit.envelope is None or (fit.prior is None and prior is None):
        raise ValueError(
            "The fit has no prior, because it could not be written to its file. Give it again: prior=model.prior."
        )
    if prior is None:
        return
    support, shape = fit.parameter_chart.support, (len(fit.names),)
    same_shape = tuple(prior.event_shape) == shape
    same = same_shape and all(
        np.allclose(one, other) for one, other in zip(bounds(prior.support, shape), bounds(support, shape), strict=True)
    )
    if not same:
        raise ValueError(
            f"The prior is of shape {tuple(prior.event_shape)} on {describe(prior.support)}, but the fit was made for "
            f"parameters of shape {shape} on {describe(support)}. Give a prior of the same support, or fit anew."
        )


_PAPER = {  # inner steps, bridges, first inner step size
    "gaussian": (30, 0, 0.1),
    "gamma": (30, 0, 0.1),
    "beta": (30, 0, 0.1),
    "ar2": (100, 0, 0.2),
    "ma2": (100, 0, 0.2),
    "lorenz96-small": (500, 200, 0.1),
}
