"""Defects of the released code, as switches, against what they do in numpy."""

import jax
import jax.numpy as jnp
import numpy as np

from suffice import zoo
from suffice.experiments.methods import method_of
from suffice.experiments.released import with_defect
from suffice.experiments.scales import SCALES
from suffice.family import ExponentialFamily
from suffice.family.regression import Regression
from suffice.fitting import Fit, History
from suffice.simulation import simulate


def _fit(module: ExponentialFamily | Regression) -> Fit:
    return Fit(module, zoo.gamma().names, History.empty(), {})


def test_d1_puts_relu_where_the_network_was_trained_with_softplus() -> None:
    sims = simulate(jax.random.key(0), zoo.gamma(), 50)
    regression = Regression.paper(jax.random.key(1), "gamma").with_charts(zoo.gamma(), sims.theta, sims.x)
    fit = _fit(regression)
    layers = regression.network.layers  # type: ignore[attr-defined]
    values = np.asarray(jax.vmap(regression.data_chart.forward)(sims.x))
    for layer in layers[:-1]:
        values = np.maximum(values @ np.asarray(layer.weight).T + np.asarray(layer.bias), 0.0)
    values = values @ np.asarray(layers[-1].weight).T + np.asarray(layers[-1].bias)
    expected = np.asarray(regression.mean) + np.asarray(regression.scale) * values
    np.testing.assert_allclose(with_defect("ABC-FP-D1", fit).statistics(sims.x), expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(fit.statistics(sims.x), expected, rtol=1e-2)
    method, _ = method_of(SCALES["smoke"], "gamma", "ABC-FP-D1", fit, None)
    np.testing.assert_allclose(method.statistics(sims.x[0]), expected[0], rtol=1e-4, atol=1e-5)  # type: ignore[attr-defined]


def test_d2_adds_the_jacobian_of_the_logarithm() -> None:
    sims = simulate(jax.random.key(0), zoo.gamma(), 50)
    family = ExponentialFamily.paper(jax.random.key(1), "gamma").with_charts(zoo.gamma(), sims.theta, sims.x)
    released = with_defect("Exc-SM-D2", _fit(family)).family
    y, theta = jax.vmap(family.data_chart.forward)(sims.x), jnp.asarray(sims.theta)
    gained = jax.vmap(released.log_density)(y, theta) - jax.vmap(family.log_density)(y, theta)
    logarithms = np.log(sims.x).sum(axis=1)  # log |dx/dy| of y = log x, up to the constant of its scaling
    np.testing.assert_allclose(np.asarray(gained) - gained[0], logarithms - logarithms[0], atol=1e-3)
    np.testing.assert_allclose(released.statistics_of(y[0]), family.statistics_of(y[0]), rtol=1e-6)


def test_other_labels_leave_the_fit_as_it_is() -> None:
    fit = _fit(ExponentialFamily.paper(jax.random.key(1), "gamma"))
    assert with_defect("Exc-SM", fit) is fit
