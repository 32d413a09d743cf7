"""The normalised likelihood of a fit, used as a likelihood: its maximum, standard errors and profiles."""

from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.optimize import minimize
from jaxtyping import Array, Float
from numpy.typing import ArrayLike

from suffice.charts import is_product
from suffice.sampling.direct import Direct
from suffice.sampling.target import Target

STARTS = 16  # draws of the prior from which the maximum is sought


@dataclass(frozen=True, eq=False)
class MaximumLikelihood:
    """The θ of the highest likelihood inside the prior's support.

    Attributes:
        names: the parameters' names.
        theta: the estimate.
        standard_error: from the curvature of the log-likelihood; nan where the maximum is at an edge.
        log_likelihood: there, up to a constant that is the same for all θ.
    """

    names: tuple[str, ...]
    theta: Float[np.ndarray, " p"]
    standard_error: Float[np.ndarray, " p"]
    log_likelihood: float


def maximum_likelihood(method: Direct, observed: ArrayLike, *, iid: bool = False) -> MaximumLikelihood:
    """The maximum-likelihood estimate, sought from several draws of the prior."""
    target, evidence = _prepared(method, observed, iid=iid)
    positions, values = _climb(target, evidence, _starts(target), *_nothing_held(method))
    best = int(np.nanargmin(values))
    theta, information = _information(target, evidence, positions[best])
    variances, axes = np.linalg.eigh(np.asarray(information, np.float64))
    inverse = (axes / variances) @ axes.T if np.all(variances > 0) else np.full_like(axes, np.nan)
    return MaximumLikelihood(method.fit.names, np.asarray(theta), np.sqrt(np.diag(inverse)), -float(values[best]))


def profile(
    method: Direct, observed: ArrayLike, name: str, values: ArrayLike, *, iid: bool = False
) -> Float[np.ndarray, " n"]:
    """The profile log-likelihood of one parameter, relative to its maximum: over all others at each of `values`."""
    names = method.fit.names
    if name not in names:
        raise ValueError(f"There is no parameter {name!r}: there are {', '.join(names)}.")
    target, evidence = _prepared(method, observed, iid=iid)
    if not is_product(target.chart.support):
        raise ValueError("A profile needs parameters that vary freely of each other.")
    starts, (nothing, _) = _starts(target), _nothing_held(method)
    held = nothing.at[names.index(name)].set(True)

    def highest(held: Array, value: float) -> float:
        return -float(np.nanmin(_climb(target, evidence, starts, held, jnp.asarray(value, starts.dtype))[1]))

    return np.array([highest(held, value) for value in np.asarray(values)]) - highest(nothing, 0.0)


def _prepared(method: Direct, observed: ArrayLike, *, iid: bool) -> tuple[Target, Array]:
    observation = method.observation(observed, iid=iid)
    return method.target, jnp.asarray(method.evidence(observation[None], iid=iid)[0])


def _starts(target: Target) -> Float[Array, "starts p"]:
    return jax.vmap(target.chart.finite)(target.prior.sample(jax.random.key(0), (STARTS,)))


def _nothing_held(method: Direct) -> tuple[Array, Array]:
    return jnp.zeros(len(method.fit.names), bool), jnp.zeros(())


@eqx.filter_jit
def _information(target: Target, evidence: Array, position: Array) -> tuple[Array, Array]:
    """θ at this position of its chart, and minus the second derivatives of the log-likelihood there."""
    theta = target.chart.inverse(position)
    return theta, -jax.hessian(lambda theta: target.log_likelihood(theta, evidence))(theta)


@eqx.filter_jit
def _climb(target: Target, evidence: Array, starts: Array, held: Array, value: Array) -> tuple[Array, Array]:
    """Where BFGS leads from each start, and minus the log-likelihood there; parameters `held` are kept at `value`."""

    def loss(position: Array) -> Array:
        theta = jnp.where(held, value, target.chart.inverse(position))
        edge = 1e-4 * jnp.sum(position**2)  # keeps an estimate at the edge from running away in its chart
        return edge - target.log_likelihood(theta, evidence)

    def climb(start: Array) -> tuple[Array, Array]:
        end = minimize(loss, start, method="BFGS", options={"maxiter": 200}).x
        return end, loss(end) - 1e-4 * jnp.sum(end**2)

    return jax.vmap(climb)(starts)
