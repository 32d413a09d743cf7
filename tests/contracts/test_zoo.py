"""What every model of the zoo promises."""

import jax
import numpy as np
import pytest

import suffice as sf
from suffice.cli.models import MODELS

SHAPES = {
    "gaussian": (10,),
    "gamma": (10,),
    "beta": (10,),
    "ar2": (100,),
    "ma2": (100,),
    "lorenz96-small": (45, 8),
    "lorenz96-large": (120, 40),
}
BOUNDS: dict[str, dict[str, tuple[float, float]]] = {  # the paper's Table of priors
    "gaussian": {"mu": (-10, 10), "sigma": (1, 10)},
    "gamma": {"k": (1, 3), "theta": (1, 3)},
    "beta": {"alpha": (1, 3), "beta": (1, 3)},
    "ar2": {"theta1": (-1, 1), "theta2": (-1, 0)},
    "ma2": {"theta1": (-1, 1), "theta2": (0, 1)},
    "lorenz96-small": {"b0": (1.4, 2.2), "b1": (0, 1), "sigma_e": (1.5, 2.5), "phi": (0, 1)},
    "lorenz96-large": {"b0": (1.4, 2.2), "b1": (0, 1), "sigma_e": (1.5, 2.5), "phi": (0, 1)},
}
IID = ("gaussian", "gamma", "beta")
pytestmark = pytest.mark.parametrize("name", list(MODELS))


def test_shape_and_prior(name: str) -> None:
    model = MODELS[name]()
    assert model.data_shape == SHAPES[name]
    assert model.names == tuple(BOUNDS[name])
    support = model.prior.support.base_constraint
    np.testing.assert_allclose(support.lower_bound, [low for low, _ in BOUNDS[name].values()], rtol=1e-6)
    np.testing.assert_allclose(support.upper_bound, [high for _, high in BOUNDS[name].values()], rtol=1e-6)
    assert model.exchangeable == (name in IID)
    assert (model.markov_order is None) == (name in IID)
    assert MODELS[name]() is model


def test_check_finds_nothing(name: str) -> None:
    found = sf.check(MODELS[name]())
    assert found.ok, str(found)


def test_simulations_and_charts(name: str, key: jax.Array) -> None:
    model = MODELS[name]()
    sims = sf.simulate(key, model, 200)
    assert sims.num_good == 200
    chart, parameter_chart = model.data_chart(sims.x), model.parameter_chart(sims.theta)
    y = np.asarray(jax.vmap(chart.forward)(sims.x))
    assert y.shape == sims.x.shape
    assert abs(y.mean()) < 1e-3
    again = np.asarray(jax.vmap(chart.inverse)(y))
    np.testing.assert_allclose(again, sims.x, rtol=1e-3, atol=1e-3)
    u = jax.vmap(parameter_chart.forward)(sims.theta)
    np.testing.assert_allclose(np.asarray(jax.vmap(parameter_chart.inverse)(u)), sims.theta, rtol=1e-3, atol=1e-4)


def test_exact_family(name: str, key: jax.Array) -> None:
    model = MODELS[name]()
    known = model.sufficient_statistics is not None and model.natural_parameters is not None
    assert known == (name in IID)
    assert (model.log_likelihood is None) == name.startswith("lorenz")
