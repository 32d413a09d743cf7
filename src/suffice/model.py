"""A model: what is inferred. Prior × simulator × support, with names, and nothing else."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray
from numpy.typing import ArrayLike as Values
from numpyro.distributions import Distribution, constraints

from suffice.charts import Chart, Support, describe, per_coordinate
from suffice.errors import ModelError

Simulator = Callable[[PRNGKeyArray, Float[Array, " p"]], Float[Array, "..."]]
LogLikelihood = Callable[[Float[Array, "..."], Float[Array, " p"]], Float[Array, ""]]


@dataclass(frozen=True, eq=False, init=False)
class Model:
    """A prior over θ and a simulator of x given θ.

    Args:
        prior: a numpyro distribution of a vector θ (event dim 1), such as `Uniform(low, high).to_event(1)`.
        simulator: `simulator(key, theta) -> x`, JAX code for one θ of shape `(p,)` and one x, which the library
            vectorises. x is a vector `(d,)`, a series `(T,)` or a multivariate series `(T, K)`.
        support: the numpyro constraint that every coordinate of x obeys, or a sequence of them, one for each
            coordinate along the last axis of x.
        names: the parameters' names; `theta1`, `theta2`, … if not given.
        log_likelihood: `log_likelihood(x, theta)`, where it is known.
        markov_order: r, if x is a series in which x_t depends on the past through its last r values only.
        exchangeable: whether the coordinates of x are iid given θ.
        sufficient_statistics: `sufficient_statistics(x)`, where they are known.
        natural_parameters: `natural_parameters(theta)`, the factor of those statistics in the log-likelihood.

    Shapes are found out by tracing the simulator, without running it, so mistakes show at construction.

    >>> import numpyro.distributions as dist
    >>> prior = dist.Uniform(jnp.array([-1.0, 0.5]), jnp.array([1.0, 2.0])).to_event(1)
    >>> model = Model(prior, lambda key, theta: theta[0] + theta[1] * jax.random.normal(key, (5,)))
    >>> model.num_parameters, model.data_shape, model.names
    (2, (5,), ('theta1', 'theta2'))
    """

    prior: Distribution
    simulator: Simulator
    support: Support
    names: tuple[str, ...]
    log_likelihood: LogLikelihood | None
    markov_order: int | None
    exchangeable: bool
    sufficient_statistics: Callable[[Float[Array, "..."]], Float[Array, " s"]] | None
    natural_parameters: Callable[[Float[Array, " p"]], Float[Array, " s"]] | None
    data_shape: tuple[int, ...]

    def __init__(
        self,
        prior: Distribution,
        simulator: Simulator,
        *,
        support: Support | Sequence[Support] = constraints.real,
        names: Sequence[str] | None = None,
        log_likelihood: LogLikelihood | None = None,
        markov_order: int | None = None,
        exchangeable: bool = False,
        sufficient_statistics: Callable[[Float[Array, "..."]], Float[Array, " s"]] | None = None,
        natural_parameters: Callable[[Float[Array, " p"]], Float[Array, " s"]] | None = None,
    ) -> None:
        _check_prior(prior)
        p = int(prior.event_shape[0])
        data_shape = _traced_shape(simulator, p)
        fields = {
            "prior": prior,
            "simulator": simulator,
            "support": _checked_support(support, data_shape),
            "names": _checked_names(names, p),
            "log_likelihood": log_likelihood,
            "markov_order": markov_order,
            "exchangeable": exchangeable,
            "sufficient_statistics": sufficient_statistics,
            "natural_parameters": natural_parameters,
            "data_shape": data_shape,
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        self._check_structure()

    def _check_structure(self) -> None:
        shape, order = self.data_shape, self.markov_order
        if order is not None and not 0 < order < shape[0]:
            raise ModelError(
                f"markov_order is {order}, but x has {shape[0]} time steps. Give an order between 1 and {shape[0] - 1}."
            )
        if self.exchangeable and (len(shape) != 1 or order is not None or isinstance(self.support, constraints.cat)):
            raise ModelError(
                "exchangeable=True means that the coordinates of a vector x are iid given theta, so x must be a vector "
                f"with one support for all and no markov_order; here x has shape {shape}, markov_order {order} and "
                f"support: {describe(self.support)}. Drop exchangeable=True."
            )
        if (self.sufficient_statistics is None) != (self.natural_parameters is None):
            raise ModelError("Give sufficient_statistics and natural_parameters together, or neither.")

    @property
    def num_parameters(self) -> int:
        """p, the length of θ."""
        return int(self.prior.event_shape[0])

    @property
    def traceable(self) -> bool:
        """Whether the simulator is JAX code, so that it may run inside compiled programs."""
        return True

    @property
    def data_size(self) -> int:
        """d, the number of coordinates of x."""
        return math.prod(self.data_shape)

    def data_chart(self, x: Float[ArrayLike, "n ..."]) -> Chart:
        """The chart of x, standardised on these rows; pooled over coordinates that the model treats alike."""
        pooled = (0,) if self.exchangeable or self.markov_order is not None else ()
        return Chart.fit(self.support, x, pooled=pooled, what="x")

    def parameter_chart(self, theta: Float[ArrayLike, "n p"]) -> Chart:
        """The chart of θ on the prior's support, standardised on these rows (but those on its very edge)."""
        rows, support = np.asarray(theta), self.prior.support
        inside = np.asarray(jax.vmap(Chart.unscaled(support, rows.shape[1:]).inside)(rows)).reshape(len(rows), -1)
        kept = rows[inside.all(axis=1)]
        return Chart.fit(support, kept if len(kept) else rows, what="theta")

    def observation(self, observed: Values, *, iid: bool = False) -> np.ndarray:
        """`observed` as an array of x's shape (one more leading axis if `iid`), finite and inside the support."""
        chart = Chart.unscaled(self.support, self.data_shape)
        return chart.require_observation(observed, self.data_shape, iid=iid)


def _check_prior(prior: Distribution) -> None:
    if not isinstance(prior, Distribution):
        raise ModelError(
            f"The prior is a {type(prior).__name__}, but must be a numpyro distribution, "
            "such as numpyro.distributions.Uniform(low, high).to_event(1)."
        )
    if prior.batch_shape != () or len(prior.event_shape) != 1:
        fix = (
            "Call .to_event(1) on it."
            if len(prior.batch_shape) == 1 and not prior.event_shape
            else ("Make it a distribution of one vector, for a single parameter too: .expand([1]).to_event(1).")
        )
        raise ModelError(
            f"The prior has batch shape {tuple(prior.batch_shape)} and event shape {tuple(prior.event_shape)}, "
            f"but must be a distribution of one vector theta: batch shape () and event shape (p,). {fix}"
        )
    if prior.support is None or prior.support.is_discrete:
        raise ModelError("The prior is discrete, but theta must be continuous. Use a continuous prior.")


def _checked_names(names: Sequence[str] | None, p: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"theta{i + 1}" for i in range(p))
    if isinstance(names, str) or len(names) != p or len(set(names)) != p:
        raise ModelError(
            f"names is {names!r}, but the prior has {p} parameter(s): give {p} different names, in theta's order."
        )
    return tuple(names)


def _traced_shape(simulator: Simulator, p: int) -> tuple[int, ...]:
    theta = jax.ShapeDtypeStruct((p,), jax.dtypes.canonicalize_dtype(float))
    try:
        x = jax.eval_shape(simulator, jax.random.key(0), theta)
    except Exception as error:
        raise ModelError(
            f"The simulator failed for a theta of shape ({p},), which is what the prior draws: "
            f"{type(error).__name__}: {error}. It must be JAX code simulator(key, theta) -> x for one theta; "
            "make prior and simulator agree on the number of parameters."
        ) from error
    if not isinstance(x, jax.ShapeDtypeStruct):
        raise ModelError(f"The simulator returns a {type(x).__name__}, but must return one array x.")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise ModelError(f"The simulator returns {x.dtype} values, but x must be floating. Cast it: x.astype(float).")
    if len(x.shape) not in (1, 2) or 0 in x.shape:
        raise ModelError(
            f"The simulator returns an x of shape {x.shape}, but x must be a vector (d,), a series (T,) or a "
            "multivariate series (T, K). Reshape it."
        )
    return x.shape


def _checked_support(support: Support | Sequence[Support], data_shape: tuple[int, ...]) -> Support:
    if isinstance(support, Sequence):
        if len(support) != data_shape[-1]:
            raise ModelError(
                f"support lists {len(support)} constraints, but the last axis of x has {data_shape[-1]} coordinates. "
                "Give one constraint for all of x, or one for each coordinate of its last axis."
            )
        support = per_coordinate([_checked_support(one, (1,)) for one in support])
    if not isinstance(support, constraints.Constraint) or support.is_discrete or support.event_dim != 0:
        raise ModelError(
            f"support is {support!r}, but must be a numpyro constraint on each coordinate: constraints.real, positive, "
            "greater_than(a), less_than(b), interval(a, b), or a list of such, one a coordinate."
        )
    return support
