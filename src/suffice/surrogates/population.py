"""Population Monte Carlo: particles drawn again and again from a mixture around the last ones, and weighted rightly.

Iteration 1 draws from the prior π. Every later one draws from the mixture q(θ) = Σⱼ vⱼ N(θ; θⱼ, C) around the last
particles, with C their weighted covariance, and weights a draw by

    w ∝ π(θ) L̂(θ) / q(θ).

A draw outside the prior's support is drawn anew, particle and step together: that restricts q to the support, and its
constant cancels. (A new step from the same particle would not do: each particle has a constant of its own.)
Cappé, Guillin, Marin and Robert (2004).
"""

import time
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from suffice.charts import Chart
from suffice.checkpoint import Checkpoint
from suffice.errors import SamplingError
from suffice.model import Model
from suffice.posterior import Posterior
from suffice.progress import bar
from suffice.surrogates.likelihood import Likelihood
from suffice.surrogates.request import Plan, Request

ROUNDS = 1000  # of drawing anew before a proposal is given up
ROWS = 500  # of the mixture's density that are computed at once
COLLAPSED = 2.0  # effective particles below which there is no posterior


def run_populations(
    key: PRNGKeyArray,
    likelihood: Likelihood,
    evidence: Float[np.ndarray, "n r s"],
    plan: Plan,
    run: Request,
    call: Any,
) -> list[Posterior]:
    """A posterior for each observation, one after another; `call` identifies the run in a checkpoint."""
    model = likelihood.summaries.model
    saved = Checkpoint.open(run.checkpoint, call)
    history = saved.others or _empty(len(evidence), plan, model.num_parameters)
    steps = [(i, t) for i in range(len(evidence)) for t in range(plan.iterations)]
    done = saved.reached.get("iterations", 0)
    with bar(len(steps) * plan.particles, "population Monte Carlo", show=run.progress) as advance:
        advance(done * plan.particles)
        for count, (i, t) in enumerate(steps[done:], done + 1):
            began = time.monotonic()
            key_draw, key_simulate = jax.random.split(jax.random.fold_in(jax.random.fold_in(key, i), t))
            theta, correction = _drawn(key_draw, model, history, i, t)
            found = likelihood.at(key_simulate, theta, evidence[i], advance)
            weights = correction + found.values
            history["theta"][i, t], history["log_weights"][i, t] = theta, _normalised(weights)
            history["failed"][i, t], history["seconds"][i, t] = found.failed.sum(), time.monotonic() - began
            saved.write({"iterations": count}, (), **history)
    _require_any(history, plan.particles, plan.particles * likelihood.simulations)
    return [
        _posterior(model, {name: values[i] for name, values in history.items()}, likelihood.simulations, plan)
        for i in range(len(evidence))
    ]


def _empty(observations: int, plan: Plan, p: int) -> dict[str, np.ndarray]:
    shape = (observations, plan.iterations)
    return {
        "theta": np.zeros((*shape, plan.particles, p), jax.dtypes.canonicalize_dtype(float)),
        "log_weights": np.zeros((*shape, plan.particles)),
        "failed": np.zeros(shape, np.int64),
        "seconds": np.zeros(shape),
    }


def _drawn(
    key: PRNGKeyArray, model: Model, history: dict[str, np.ndarray], i: int, t: int
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, " n"]]:
    """The particles of iteration t of observation i, and log π(θ) − log q(θ) of each, up to a constant."""
    num = history["theta"].shape[2]
    if t == 0:
        return np.asarray(model.prior.sample(key, (num,))), np.zeros(num)
    proposal = Mixture.around(history["theta"][i, t - 1], history["log_weights"][i, t - 1])
    theta = proposal.sample_inside(key, model, num)
    prior = np.asarray(model.prior.log_prob(theta), np.float64)
    return theta, prior - proposal.log_density(theta)


@dataclass(frozen=True, eq=False)
class Mixture:
    """Gaussians of one covariance (its triangular factor) around weighted centres."""

    centres: Float[np.ndarray, "n p"]
    log_weights: Float[np.ndarray, " n"]
    factor: Float[np.ndarray, "p p"]

    @classmethod
    def around(cls, theta: Float[np.ndarray, "n p"], log_weights: Float[np.ndarray, " n"]) -> "Mixture":
        """The mixture around particles, with their covariance.

        Where fewer than 5 (p + 1) particles carry the weight, it is spread over that many by a power of the weights:
        a proposal may be any, and a narrow one would never widen again. Where p or fewer carry any, all count alike.
        """
        p = theta.shape[1]
        log_weights = log_weights if np.isfinite(log_weights).sum() > p else np.zeros(len(theta))
        spread = flattened(log_weights, min(5 * (p + 1), len(theta)))
        centres = np.asarray(theta, np.float64)
        covariance = np.atleast_2d(np.cov(centres, rowvar=False, aweights=np.exp(spread)))
        floor = 1e-10 * np.diag(np.maximum(np.diag(covariance), 1e-300))
        return cls(centres, spread, np.linalg.cholesky(covariance + floor))

    def sample_inside(self, key: PRNGKeyArray, model: Model, num: int) -> Float[np.ndarray, "num p"]:
        """`num` draws from the mixture restricted to the support of the prior, in the precision of the model."""
        dtype, kept, found = jax.dtypes.canonicalize_dtype(float), [], 0
        for turn in range(ROUNDS):
            key_centre, key_step = jax.random.split(jax.random.fold_in(key, turn))
            chosen = pick(key_centre, self.log_weights, num)
            steps = np.asarray(jax.random.normal(key_step, (num, len(self.factor))), np.float64)
            theta = (self.centres[chosen] + steps @ self.factor.T).astype(dtype)
            kept.append(theta[inside_prior(model, theta)])
            found += len(kept[-1])
            if found >= num:
                return np.concatenate(kept)[:num]
        raise SamplingError(
            f"Of {ROUNDS * num} proposals only {found} lie inside the prior: the particles sit in a corner of its "
            "support. Give a prior whose support is not that thin there."
        )

    def log_density(self, theta: Float[np.ndarray, "m p"]) -> Float[np.ndarray, " m"]:
        """log Σⱼ vⱼ N(θ; θⱼ, C) at rows of θ."""
        white = np.linalg.solve(self.factor, np.asarray(theta, np.float64).T).T
        centres = np.linalg.solve(self.factor, self.centres.T).T
        constant = 0.5 * centres.shape[1] * np.log(2 * np.pi) + np.log(np.diag(self.factor)).sum()
        blocks = [white[start : start + ROWS] for start in range(0, len(white), ROWS)]
        return np.concatenate([self._log_sum(rows, centres) for rows in blocks]) - constant

    def _log_sum(self, rows: Float[np.ndarray, "m p"], centres: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " m"]:
        exponents = cdist(rows, centres, "sqeuclidean")
        exponents *= -0.5
        exponents += self.log_weights
        peak = exponents.max(axis=1)
        exponents -= peak[:, None]
        return peak + np.log(np.exp(exponents, out=exponents).sum(axis=1))


def pick(key: PRNGKeyArray, log_weights: Float[np.ndarray, " n"], num: int) -> Int[np.ndarray, " num"]:
    """Indices drawn with replacement by normalised weights."""
    sums = np.cumsum(np.exp(log_weights))
    return np.searchsorted(sums, np.asarray(jax.random.uniform(key, (num,)), np.float64) * sums[-1], side="right")


def inside_prior(model: Model, theta: Float[Array | np.ndarray, "n p"]) -> Bool[np.ndarray, " n"]:
    """Whether rows of θ lie inside the support of the prior."""
    chart = Chart.unscaled(model.prior.support, (model.num_parameters,))
    return np.all(np.asarray(_inside(chart, jnp.asarray(theta))).reshape(len(theta), -1), axis=1)


@eqx.filter_jit
def _inside(chart: Chart, theta: Array) -> Array:
    return jax.vmap(chart.inside)(theta)


def effective(log_weights: Float[np.ndarray, "*n m"]) -> Float[np.ndarray, "*n"]:
    """1 / Σ w² of normalised weights: how many equal ones they are worth."""
    return np.asarray(np.exp(-logsumexp(2.0 * log_weights, axis=-1)))


def flattened(log_weights: Float[np.ndarray, " n"], least: int | float) -> Float[np.ndarray, " n"]:
    """The weights, or the greatest power of them, normalised, that is worth at least `least` particles."""

    def powered(power: float) -> Float[np.ndarray, " n"]:
        values = np.where(np.isfinite(log_weights), power * log_weights, -np.inf)
        return values - logsumexp(values)

    if effective(powered(1.0)) >= least:
        return powered(1.0)
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if effective(powered(middle)) >= least else (low, middle)
    return powered(low)


def _normalised(log_weights: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
    """Weights that sum to 1; where none is above zero, one particle has it all, which counts as a collapse."""
    usable = np.where(np.isfinite(log_weights), log_weights, -np.inf)
    if not np.isfinite(usable).any():
        usable[0] = 0.0
    return usable - logsumexp(usable)


def _require_any(history: dict[str, np.ndarray], particles: int, simulations: int) -> None:
    """Refuse if weights collapsed for every observation; where they did for some, their doubts tell."""
    ess = effective(history["log_weights"])
    if np.any(ess[:, -1] >= COLLAPSED):
        return
    best = int(np.argmax(ess[:, -1]))
    raise SamplingError(
        f"The weights collapsed: {particles} particles are worth {ess[best, -1]:.2g} (by iteration: "
        f"{', '.join(f'{size:.3g}' for size in ess[best])}), and {history['failed'][best, -1]} of the last "
        f"{simulations} simulations failed. The estimates of the likelihood are too noisy, or the posterior too narrow "
        "for so few: give more simulations, more particles, or fewer statistics; or no particle can make such an "
        "observation: try suffice.check(model), and simulations from the prior."
    )


def _posterior(model: Model, history: dict[str, np.ndarray], simulations: int, plan: Plan) -> Posterior:
    """The last particles, and what is known of all iterations."""
    ess = effective(history["log_weights"])
    weights = np.exp(history["log_weights"])
    weights /= weights.sum(axis=1, keepdims=True)
    used = plan.particles * simulations * np.arange(1, plan.iterations + 1)
    info: dict[str, Any] = {
        "simulations": int(used[-1]),
        "failed": int(history["failed"].sum()),
        "seconds": float(history["seconds"].sum()),
        "ess": float(ess[-1]),
        "history_ess": ess,
        "history_simulations": used,
        "history_seconds": np.cumsum(history["seconds"]),
        "history_failed": history["failed"],
    }
    if plan.keep_history:
        info |= {"history_theta": history["theta"], "history_weights": weights}
    return Posterior(history["theta"][-1][None], model.names, weights[-1][None], info)
