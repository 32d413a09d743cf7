"""Families with the exact statistics and natural parameters of a zoo model in place of networks, charts on."""

from dataclasses import replace
from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import suffice as sf
from suffice.family.envelope import envelope_of
from suffice.family.normaliser import fit_normaliser
from suffice.fitting import Fit, History


class ExactStatistics(eqx.Module):
    """f(y): the sufficient statistics of x."""

    model: sf.Model = eqx.field(static=True)
    chart: sf.Chart

    def __call__(self, y: jax.Array) -> jax.Array:
        assert self.model.sufficient_statistics is not None
        return self.model.sufficient_statistics(self.chart.inverse(y))


class ExactBase(eqx.Module):
    """c(y) = log h(x(y)) + `jacobians` log |dx/dy|, with log h(x) = log p(x|θ₀) − η(θ₀)·f(x) at some θ₀."""

    model: sf.Model = eqx.field(static=True)
    chart: sf.Chart
    reference: jax.Array
    jacobians: int = 1

    def __call__(self, y: jax.Array) -> jax.Array:
        model, x = self.model, self.chart.inverse(y)
        assert model.log_likelihood is not None
        assert model.natural_parameters is not None
        assert model.sufficient_statistics is not None
        tilt = model.natural_parameters(self.reference) @ model.sufficient_statistics(x)
        value = model.log_likelihood(x, self.reference) - tilt + self.jacobians * self.chart.log_det(y)
        return value[None]


class ExactNatural(eqx.Module):
    """η(θ) of the coordinates that a natural network sees."""

    model: sf.Model = eqx.field(static=True)
    chart: sf.Chart

    def __call__(self, coordinates: jax.Array) -> jax.Array:
        assert self.model.natural_parameters is not None
        return self.model.natural_parameters(self.chart.inverse(coordinates))


@cache
def exact_fit(name: str, jacobians: int = 1, *, normalised: bool = False) -> Fit:
    """A `Fit` of the model of that name, as if score matching had found the truth."""
    model = getattr(sf.zoo, name)()
    sims = sf.simulate(jax.random.key(99), model, 5000, progress=False)
    plain = sf.ExponentialFamily.default(jax.random.key(0), model, num_statistics=model.num_parameters)
    charts = plain.with_charts(model, sims.theta, sims.x)
    data_chart = charts.data_chart
    reference = jnp.asarray(np.median(sims.theta, axis=0))
    family = eqx.tree_at(
        lambda family: (family.statistics, family.natural.network, family.base),
        charts,
        (
            ExactStatistics(model, data_chart),
            ExactNatural(model, charts.natural.chart),
            ExactBase(model, data_chart, reference, jacobians),
        ),
    )
    y = jax.vmap(data_chart.forward)(jnp.asarray(sims.x))
    chart = model.parameter_chart(sims.theta)
    fit = Fit(family, model.names, History.empty(), {}, model.prior, chart, envelope_of(family, y))
    if not normalised:
        return fit
    normaliser = fit_normaliser(family, chart, sims.theta[:4500], y[:4500], sims.theta[4500:], y[4500:])
    return replace(fit, normaliser=normaliser)
