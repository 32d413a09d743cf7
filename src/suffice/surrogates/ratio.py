"""Ratio estimation: log p(x⁰|θ)/p(x⁰) by a classifier that tells simulations at θ from simulations of the marginal.

For each θ, logistic regression with a lasso penalty on the statistics, their squares and their products; its predictor
at x⁰ is the log-ratio. It contains the Gaussian synthetic likelihood: the log-ratio of Gaussians is such a function.
Thomas, Dutta, Corander, Kaski and Gutmann (2020), "Likelihood-free inference by ratio estimation".
"""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from suffice.requiring import require_whole
from suffice.surrogates.lasso import Rule, cross_validated_lasso
from suffice.surrogates.summaries import Summaries
from suffice.surrogates.surrogate import Surrogate


@dataclass(frozen=True, eq=False)
class RatioEstimation(Surrogate):
    """The posterior by a classifier at every θ, between simulations at θ and simulations of the marginal p(x).

    Args:
        model: prior and simulator.
        statistics: any callable of one x that gives a vector, such as `fit.statistics`.
        simulations: at each θ; and of the marginal, once for all θ and observations.
        sampler, particles, iterations, warmup, thin, keep_history, executor: as for `SyntheticLikelihood`.
        folds: of the cross-validation that chooses the penalty.
        penalties: how many are tried.
        rule: "minimum" (the penalty with the least held-out log loss) or "one-standard-error" (the largest whose loss
            is within one standard error of it: fewer features, as in the paper's code).
    """

    simulations: int = 1000
    folds: int = 10
    penalties: int = 20
    rule: Rule = "minimum"

    def __post_init__(self) -> None:
        require_whole("folds", self.folds, 2)
        require_whole("penalties", self.penalties, 2)
        if self.rule not in ("minimum", "one-standard-error"):
            raise ValueError(f"rule is {self.rule!r}, but must be 'minimum' or 'one-standard-error'.")
        super().__post_init__()

    def needed_simulations(self, summaries: Summaries) -> tuple[int, str]:
        """See `Surrogate`."""
        size = num_features(summaries.size)
        reason = f"there are {size} features (statistics, squares and products) and {self.folds} folds"
        return max(2 * size, 5 * self.folds), reason

    def estimator(self, key: PRNGKeyArray, summaries: Summaries) -> tuple["RatioEstimator", int]:
        """See `Surrogate`."""
        key_theta, key_x = jax.random.split(key)
        theta = summaries.model.prior.sample(key_theta, (self.simulations,))
        rows, good = summaries.simulated(key_x, theta)
        used = np.asarray(rows[good], np.float64)
        parts = (jnp.asarray(part, rows.dtype) for part in (rows, used.mean(axis=0), used.std(axis=0)))
        reference, mean, scale = parts
        settings = (self.folds, self.penalties, self.rule)
        return RatioEstimator(reference, jnp.asarray(good), mean, scale, *settings), self.simulations


class RatioEstimator(eqx.Module):
    """The log-ratio of the density at θ to the marginal's, as a classifier sees it; `reference`: from the marginal."""

    reference: Float[Array, "m s"]
    good: Bool[Array, " m"]
    mean: Float[Array, " s"]
    scale: Float[Array, " s"]
    folds: int = eqx.field(static=True)
    penalties: int = eqx.field(static=True)
    rule: Rule = eqx.field(static=True)

    def log_likelihood(
        self, rows: Float[Array, "n s"], good: Bool[Array, " n"], evidence: Float[Array, "r s"]
    ) -> Float[Array, ""]:
        """See `Estimator`."""
        both = jnp.concatenate([rows, self.reference])
        labels = jnp.concatenate([jnp.ones(len(rows)), jnp.zeros(len(self.reference))]).astype(rows.dtype)
        counted = jnp.concatenate([good, self.good])
        lasso, _ = cross_validated_lasso(
            self.features(both), labels, counted, num_folds=self.folds, num_penalties=self.penalties, rule=self.rule
        )
        predictor = lasso.intercept + self.features(evidence) @ lasso.coefficients
        number, others = jnp.sum(good), jnp.sum(self.good)
        # The classifier also knows how many of each there are: that is no part of the ratio.
        value = jnp.sum(predictor - jnp.log(jnp.maximum(number, 1) / others))
        return jnp.where((number >= 5 * self.folds) & jnp.isfinite(value), value, -jnp.inf)

    def features(self, rows: Float[Array, "n s"]) -> Float[Array, "n f"]:
        """Statistics standardised over the marginal, and all their products, squares among them."""
        standard = (rows - self.mean) / self.scale
        first, second = np.triu_indices(rows.shape[1])
        return jnp.concatenate([standard, standard[:, first] * standard[:, second]], axis=1)


def num_features(size: int) -> int:
    """How many features s statistics give: s, and s (s + 1) / 2 products."""
    return size + size * (size + 1) // 2
