"""Regression of θ on x: the statistics of Fearnhead and Prangle, the paper's rival to learned families."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray, PyTree
from numpyro.distributions import constraints

from suffice.charts import Chart
from suffice.family.architectures import default_network, paper_architecture
from suffice.family.statistics import Innovations, Mlp
from suffice.model import Model

Network = Callable[[Float[Array, "..."]], Float[Array, " m"]]

PREPARED = 1000  # training data from which a network finds what is not trained, at most


class Regression(eqx.Module):
    """s_β(y) ≈ E[θ|y]: a network of y that predicts θ, standardised.

    Args:
        network: one y → (p,).
        data_chart: the chart of x.
        mean: the mean of θ over training.
        scale: its standard deviation.
    """

    network: Network
    data_chart: Chart
    mean: Float[Array, " p"]
    scale: Float[Array, " p"]

    def standardised(self, y: Float[Array, "..."]) -> Float[Array, " p"]:
        """The prediction of standardised θ."""
        return self.network(y)

    def target(self, theta: Float[Array, " p"]) -> Float[Array, " p"]:
        """θ, standardised."""
        return (theta - self.mean) / self.scale

    def statistics_of(self, y: Float[Array, "..."]) -> Float[Array, " p"]:
        """The prediction of θ, in θ's own units."""
        return self.mean + self.scale * self.standardised(y)

    def trainable(self) -> PyTree[bool]:
        """Which leaves are fitted: the network's numbers."""
        nothing = jax.tree.map(lambda _: False, self)
        numbers = jax.tree.map(eqx.is_inexact_array, self.network)
        return eqx.tree_at(lambda regression: regression.network, nothing, numbers)

    def frozen_on(self, theta: Float[Array, "n p"]) -> "Regression":
        """The same regression: it has nothing that depends on the batch."""
        return self

    def with_charts(self, model: Model, theta: Float[ArrayLike, "n p"], x: Float[ArrayLike, "n ..."]) -> "Regression":
        """The same network, standardised on these training pairs; `Innovations` get their prediction from them."""
        theta, network = np.asarray(theta), self.network
        moments = (jnp.asarray(theta.mean(0)), jnp.asarray(theta.std(0)))
        chart = model.data_chart(x, self.data_chart, getattr(network, "shared_axes", None))
        if isinstance(network, Innovations):
            network = network.prepared(np.asarray(jax.jit(jax.vmap(chart.forward))(np.asarray(x)[:PREPARED])))
        return eqx.tree_at(
            lambda regression: (regression.network, regression.data_chart, regression.mean, regression.scale),
            self,
            (network, chart, *moments),
        )

    @classmethod
    def default(cls, key: PRNGKeyArray, model: Model) -> "Regression":
        """The network chosen by the shape of the model; not additive, since E[θ|x] is no sum."""
        return cls.assemble(model, default_network(key, model, model.num_parameters, additive=False))

    @classmethod
    def paper(cls, key: PRNGKeyArray, model_name: str) -> "Regression":
        """The paper's network s_β for its model of that name; it sees x without its bijection, as the released code."""
        architecture = paper_architecture(model_name)
        model = architecture.model()
        regression = cls.assemble(model, architecture.network(key, model.num_parameters))
        chart = Chart.unscaled(constraints.real, model.data_shape, architecture.scalings[0])
        return eqx.tree_at(lambda regression: regression.data_chart, regression, chart)

    @classmethod
    def assemble(cls, model: Model, network: Network) -> "Regression":
        """A regression by this network, not standardised yet: `fit` does that."""
        p = model.num_parameters
        return cls(network, Chart.unscaled(model.support, model.data_shape), jnp.zeros(p), jnp.ones(p))

    @classmethod
    def least_squares(cls, model: Model, theta: Float[ArrayLike, "n p"], x: Float[ArrayLike, "n ..."]) -> "Regression":
        """The linear regression of θ on the chart's coordinates of x, in closed form (ridge of 1e-6)."""
        empty = Mlp(jax.random.key(0), model.data_shape, model.num_parameters, widths=())
        regression = cls.assemble(model, empty).with_charts(model, theta, x)
        y = np.asarray(jax.vmap(regression.data_chart.forward)(jnp.asarray(x)), np.float64)
        y = y.reshape(len(y), -1)
        targets = np.asarray(jax.vmap(regression.target)(jnp.asarray(theta)), np.float64)
        features = np.column_stack([y, np.ones(len(y))])
        gram = features.T @ features + 1e-6 * len(y) * np.eye(features.shape[1])
        solution = np.linalg.solve(gram, features.T @ targets)
        (layer,) = empty.layers
        dtype = layer.weight.dtype
        return eqx.tree_at(
            lambda r: (r.network.layers[0].weight, r.network.layers[0].bias),
            regression,
            (jnp.asarray(solution[:-1].T, dtype), jnp.asarray(solution[-1], dtype)),
        )
