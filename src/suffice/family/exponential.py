"""The neural conditional exponential family p(y|θ) = exp(η(θ)·f(y) + c(y)) / Z(θ) (Eq. expon_family_NNs).

y are the chart's coordinates of x: the family is a density of y, and knows its charts.
"""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree

from suffice.charts import Chart, Scaling
from suffice.family.architectures import default_network, default_sizes, paper_architecture
from suffice.family.natural import Natural, natural_support
from suffice.family.statistics import Innovations, Mlp
from suffice.model import Model

Network = Callable[[Float[Array, "..."]], Float[Array, " m"]]
Term = tuple[Network, Float[Array, " m"]]


class SharedBase(eqx.Module):
    """The base c is one more output of the statistics network, as in the paper: one pass gives both."""


class ExponentialFamily(eqx.Module):
    """s(y, θ) = η(θ)·f(y) + c(y), the log-density of y up to log Z(θ).

    Args:
        statistics: the network of f: one y → (d_s,), or (d_s + 1,) where the base is shared. `Mlp`, `DeepSet`,
            `AdditiveMarkov`, `PartiallyExchangeable`, or any equinox module.
        natural: η, a `Natural`.
        base: the network of c: one y → (1,); or `SharedBase()`.
        data_chart: the chart of x.

    Methods act on one y and one θ; vectorise them with `jax.vmap`.
    """

    statistics: Network
    natural: Natural
    base: Network | SharedBase
    data_chart: Chart

    @property
    def num_statistics(self) -> int:
        """d_s."""
        return self.natural.mean.shape[0]

    def statistics_of(self, y: Float[Array, "..."]) -> Float[Array, " s"]:
        """f(y)."""
        outputs = self.statistics(y)
        return outputs[:-1] if isinstance(self.base, SharedBase) else outputs

    def base_of(self, y: Float[Array, "..."]) -> Float[Array, ""]:
        """c(y)."""
        return self.statistics(y)[-1] if isinstance(self.base, SharedBase) else self.base(y)[0]

    def log_density(self, y: Float[Array, "..."], theta: Float[Array, " p"]) -> Float[Array, ""]:
        """s(y, θ), the log-density of y given θ up to log Z(θ)."""
        return self.given(theta)(y)

    def given(self, theta: Float[Array, " p"]) -> Callable[[Float[Array, "..."]], Float[Array, ""]]:
        """y ↦ s(y, θ), with η(θ) computed once."""
        terms = self.terms(self.natural(theta))
        return lambda y: sum((weights @ module(y) for module, weights in terms), start=jnp.zeros(()))

    def terms(self, eta: Float[Array, " s"]) -> tuple[Term, ...]:
        """Pairs (module, weights) with s = Σ weights·module(y): what derivatives and densities are made from."""
        one = jnp.ones(1, eta.dtype)
        if isinstance(self.base, SharedBase):
            return ((self.statistics, jnp.concatenate([eta, one])),)
        return ((self.statistics, eta), (self.base, one))

    def trainable(self) -> PyTree[bool]:
        """Which leaves are fitted: the networks' numbers, not the charts' nor the standardisation's."""
        nothing = jax.tree.map(lambda _: False, self)

        def networks(family: "ExponentialFamily") -> Sequence[PyTree]:
            return (family.statistics, family.natural.network, family.base)

        numbers = jax.tree.map(eqx.is_inexact_array, networks(self))
        return eqx.tree_at(networks, nothing, numbers)

    def frozen_on(self, theta: Float[Array, "n p"]) -> "ExponentialFamily":
        """The same family with η standardised over the rows of `theta`."""
        return eqx.tree_at(lambda family: family.natural, self, self.natural.standardised_on(theta))

    def with_charts(
        self, model: Model, theta: Float[ArrayLike, "n p"], x: Float[ArrayLike, "n ..."]
    ) -> "ExponentialFamily":
        """The same networks with the charts standardised on these training pairs."""
        if isinstance(self.statistics, Innovations):
            raise ValueError(
                "Innovations are statistics of a regression, which finds their prediction from training data. Use "
                "Regression.assemble(model, network) and fit by PosteriorMean()."
            )
        return eqx.tree_at(
            lambda family: (family.data_chart, family.natural.chart),
            self,
            (model.data_chart(x, self.data_chart), self.natural.chart.standardised_on(theta, what="theta")),
        )

    @classmethod
    def default(cls, key: PRNGKeyArray, model: Model, num_statistics: int | None = None) -> "ExponentialFamily":
        """Networks chosen by the shape of the model; as many statistics as `default_sizes` says, unless told."""
        most, natural_widths = default_sizes(model)
        num_statistics = most if num_statistics is None else num_statistics
        if num_statistics < 1:
            raise ValueError(f"num_statistics is {num_statistics}, but a family needs at least one statistic.")
        key_statistics, key_natural = jax.random.split(key)
        network = default_network(key_statistics, model, num_statistics + 1)
        return cls.assemble(model, network, Mlp(key_natural, (model.num_parameters,), num_statistics, natural_widths))

    @classmethod
    def paper(cls, key: PRNGKeyArray, model_name: str) -> "ExponentialFamily":
        """The paper's networks for its model of that name, such as "gamma" or "lorenz96-small"; d_s = p.

        Data and parameters are scaled as in the paper's released code: score matching is not the same on every scale.
        """
        architecture = paper_architecture(model_name)
        model = architecture.model()
        key_statistics, key_natural = jax.random.split(key)
        network = architecture.network(key_statistics, model.num_parameters + 1)
        return cls.assemble(model, network, architecture.natural(key_natural), scalings=architecture.scalings)

    @classmethod
    def assemble(
        cls,
        model: Model,
        statistics: Network,
        natural: Network,
        base: Network | SharedBase | None = None,
        *,
        scalings: tuple[Scaling, Scaling] = ("spread", "spread"),
    ) -> "ExponentialFamily":
        """A family of these networks, with charts of `model` that are not standardised yet: `fit` does that.

        `scalings` are those of x and of the θ that η's network sees.
        """
        p = model.num_parameters
        theta = jax.ShapeDtypeStruct((p,), jax.dtypes.canonicalize_dtype(float))
        num_statistics = jax.eval_shape(natural, theta).shape[0]
        zeros, ones = jnp.zeros(num_statistics), jnp.ones(num_statistics)
        chart = Chart.unscaled(natural_support(model.prior.support, p), (p,), scalings[1])
        return cls(
            statistics,
            Natural(natural, chart, zeros, ones),
            SharedBase() if base is None else base,
            Chart.unscaled(model.support, model.data_shape, scalings[0]),
        )
