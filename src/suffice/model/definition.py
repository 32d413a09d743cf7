"""A model: what is inferred. Prior × simulator × support, with names, and nothing else."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray
from numpy.typing import ArrayLike as Values
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.transforms import biject_to

from suffice.charts import Chart, Support, describe, per_coordinate
from suffice.errors import ModelError
from suffice.model.external import External, not_traceable, require_shape, stand_in_shape, trial_shape
from suffice.model.worker import inside_child
from suffice.requiring import require_kind

Simulator = Callable[[PRNGKeyArray, Float[Array, " p"]], Float[Array, "..."]]
LogLikelihood = Callable[[Float[Array, "..."], Float[Array, " p"]], Float[Array, ""]]


@dataclass(frozen=True, eq=False, init=False)
class Model:
    """A prior over θ and a simulator of x given θ.

    Args:
        prior: a numpyro distribution of a vector θ (event dim 1), such as `Uniform(low, high).to_event(1)`; for
            parameters of different kinds a `TransformedDistribution` with a `CatTransform`.
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

    Shapes are found out by tracing the simulator, without running it, so mistakes show at construction. A simulator
    that is no JAX code is handed over by `Model.external` or `Model.command`.

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
    outside: External | None

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
        self._assign(
            prior=prior,
            simulator=simulator,
            support=support,
            names=_checked_names(names, int(prior.event_shape[0])),
            log_likelihood=log_likelihood,
            markov_order=markov_order,
            exchangeable=exchangeable,
            sufficient_statistics=sufficient_statistics,
            natural_parameters=natural_parameters,
            data_shape=_traced_shape(simulator, int(prior.event_shape[0])),
            outside=None,
        )

    @classmethod
    def external(
        cls,
        prior: Distribution,
        function: Callable[[dict[str, float], np.random.Generator], Any],
        *,
        support: Support | Sequence[Support] = constraints.real,
        names: Sequence[str] | None = None,
        data_shape: tuple[int, ...] | None = None,
        time_limit: float | None = None,
        retries: int = 0,
        log_likelihood: LogLikelihood | None = None,
        markov_order: int | None = None,
        exchangeable: bool = False,
    ) -> "Model":
        """A model whose simulator is any Python: `function(theta, rng) -> x`, run in processes of its own.

        A simulation that raises, crashes, hangs, or gives a wrong shape is marked as failed, and the others go on.

        Args:
            prior: as for `Model`.
            function: is given θ as a dictionary by name and a numpy generator, the only source of its randomness, and
                gives one x. Anything that cloudpickle can send will do: a lambda, a closure, a function of a notebook.
            support: as for `Model`.
            names: the parameters' names; `theta1`, `theta2`, … if not given.
            data_shape: the shape of x; if not given, a trial simulation or two find it out.
            time_limit: seconds after which a simulation is ended; none if not given.
            retries: how often a simulation that raised, crashed or hung is tried again, with the same seed.
            log_likelihood: as for `Model`.
            markov_order: as for `Model`.
            exchangeable: as for `Model`.

        >>> import numpyro.distributions as dist
        >>> prior = dist.Uniform(jnp.zeros(1), jnp.ones(1)).to_event(1)
        >>> model = Model.external(prior, lambda theta, rng: rng.normal(theta["mean"], 1.0, 5), names=["mean"])
        >>> model.data_shape, model.traceable
        ((5,), False)
        """
        outside = External(function, (), time_limit, retries)
        optional = (log_likelihood, markov_order, exchangeable)
        return cls._outside(prior, outside, support, names, data_shape, optional)

    @classmethod
    def command(
        cls,
        prior: Distribution,
        argv: Sequence[str],
        *,
        support: Support | Sequence[Support] = constraints.real,
        names: Sequence[str] | None = None,
        data_shape: tuple[int, ...] | None = None,
        time_limit: float | None = None,
        retries: int = 0,
        log_likelihood: LogLikelihood | None = None,
        markov_order: int | None = None,
        exchangeable: bool = False,
    ) -> "Model":
        """A model whose simulator is a program in any language, started once a simulation.

        It reads `{"theta": {"name": value, …}, "seed": 12345}` from standard input and writes `{"x": [...]}`, or the
        array alone, to standard output. The seed has 31 bits and must be the only source of randomness. Anything else
        than exit code 0 and such an answer is a failed simulation, which keeps the program's standard error.

        Args:
            prior: as for `Model`.
            argv: the program and its arguments, such as `["Rscript", "simulator.R"]`; no shell reads them.
            support: as for `Model`.
            names: as for `Model`, and so are `log_likelihood`, `markov_order` and `exchangeable`.
            data_shape: as for `Model.external`, and so are `time_limit` and `retries`.
            time_limit: see there.
            retries: see there.
            log_likelihood: see `Model`.
            markov_order: see `Model`.
            exchangeable: see `Model`.
        """
        outside = External(None, tuple(argv) if not isinstance(argv, str) else (argv,), time_limit, retries)
        optional = (log_likelihood, markov_order, exchangeable)
        return cls._outside(prior, outside, support, names, data_shape, optional)

    @classmethod
    def _outside(
        cls,
        prior: Distribution,
        outside: External,
        support: Support | Sequence[Support],
        names: Sequence[str] | None,
        data_shape: tuple[int, ...] | None,
        optional: tuple[LogLikelihood | None, int | None, bool],
    ) -> "Model":
        _check_prior(prior)
        known = _checked_names(names, int(prior.event_shape[0]))
        if data_shape is not None:
            shape = require_shape(tuple(data_shape))
        else:
            shape = stand_in_shape(support, optional[1]) if inside_child() else trial_shape(prior, known, outside)
        model = object.__new__(cls)
        model._assign(
            prior=prior,
            simulator=not_traceable,
            support=support,
            names=known,
            log_likelihood=optional[0],
            markov_order=optional[1],
            exchangeable=optional[2],
            sufficient_statistics=None,
            natural_parameters=None,
            data_shape=shape,
            outside=outside,
        )
        return model

    def _assign(self, **fields: Any) -> None:
        fields["support"] = _checked_support(fields["support"], fields["data_shape"])
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
        return self.outside is None

    @property
    def data_size(self) -> int:
        """d, the number of coordinates of x."""
        return math.prod(self.data_shape)

    def data_chart(
        self, x: Float[ArrayLike, "n ..."], chart: Chart | None = None, pooled: tuple[int, ...] | None = None
    ) -> Chart:
        """The chart of x (another than its support's, if given), standardised on these rows.

        It is pooled over coordinates that the model treats alike, or along the axes `pooled`, if given.
        """
        if pooled is None:
            pooled = (0,) if self.exchangeable or self.markov_order is not None else ()
        chart = Chart.unscaled(self.support, self.data_shape) if chart is None else chart
        return chart.standardised_on(x, pooled=pooled)

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


def require_model(model: Any) -> None:
    """Refuse what is no model, such as its simulator alone."""
    require_kind(model, Model, "model", "a Model: suffice.Model(prior, simulator), or one of suffice.zoo")


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
    _check_taken_apart(prior)


def _check_taken_apart(prior: Distribution) -> None:
    """Refuse a prior that JAX cannot take apart and put together again, as it does for every compiled program."""
    theta = jax.ShapeDtypeStruct(prior.event_shape, jax.dtypes.canonicalize_dtype(float))
    try:
        jax.eval_shape(prior.log_prob, theta)
    except Exception:
        return  # it has no density to begin with, and some methods need none
    try:
        leaves, structure = jax.tree.flatten(prior)
        again = jax.tree.unflatten(structure, leaves)
        jax.eval_shape(again.log_prob, theta)
        jax.eval_shape(again.sample, jax.random.key(0))
        biject_to(again.support)
    except Exception as error:
        raise ModelError(
            f"The prior, a {type(prior).__name__}, loses what it is made of when JAX takes it apart and puts it "
            f"together again, as it does to compile its density: {type(error).__name__}: {error}. Write it as a "
            "numpyro TransformedDistribution, with a CatTransform for parameters of different kinds (see 'Bounded "
            "data' in the documentation), or name the attributes that it is made of in its class's pytree_data_fields."
        ) from error


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
    return require_shape(x.shape)


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
