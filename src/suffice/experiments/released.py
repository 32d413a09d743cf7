"""Defects of the code released with the paper, as switches: methods that have one, to be held against right ones."""

from dataclasses import replace

import equinox as eqx
import jax
from jaxtyping import Array, Float

from suffice.charts import Chart
from suffice.family.exponential import Network
from suffice.family.regression import Regression
from suffice.family.statistics import Affine, Mlp
from suffice.fitting import Fit

RELEASED_SAID = (
    "As released: ABC-FP-D1 is ABC-FP with ReLU in place of the activation its network was trained with, Exc-SM-D2 is "
    "Exc-SM with the Jacobian of the data's transformation once too often."
)


class Rectified(eqx.Module):
    """The layers of a trained network with ReLU between them, whatever they were trained with."""

    layers: tuple[Affine, ...]

    def __call__(self, y: Float[Array, "..."]) -> Float[Array, " m"]:
        """The last layer's values."""
        values = y.reshape(-1)
        *hidden, last = self.layers
        for layer in hidden:
            values = jax.nn.relu(layer(values))
        return last(values)


class WithJacobian(eqx.Module):
    """Statistics whose last one, the base c, has log |dx/dy| added, as if the family were a density of x."""

    network: Network
    chart: Chart

    def __call__(self, y: Float[Array, "..."]) -> Float[Array, " m"]:
        """f(y), and c(y) + log |dx/dy|."""
        return self.network(y).at[-1].add(self.chart.log_det(y))


def with_defect(label: str, fit: Fit) -> Fit:
    """The fit as the released code uses it for the method of that label; as it is if the label names no defect."""
    if label.endswith("-D1"):
        assert isinstance(fit.module, Regression)
        assert isinstance(fit.module.network, Mlp)
        rectified = Rectified(fit.module.network.layers)
        return replace(fit, module=eqx.tree_at(lambda regression: regression.network, fit.module, rectified))
    if label.endswith("-D2"):
        wrapped = WithJacobian(fit.family.statistics, fit.family.data_chart)
        return replace(fit, module=eqx.tree_at(lambda family: family.statistics, fit.family, wrapped))
    return fit
