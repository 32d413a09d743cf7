"""Direct posteriors: exact where family and normaliser are, by every sampler."""

from dataclasses import replace
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import suffice as sf
from suffice.family.envelope import envelope_of
from suffice.family.exponential import ExponentialFamily
from suffice.family.normaliser import fit_normaliser
from suffice.fitting import Fit, History
from suffice.grid import GridPosterior
from suffice.sampling.nuts import NutsChain
from tests.exact_families import exact_fit

quiet = pytest.mark.filterwarnings("ignore::suffice.SamplingWarning")


@cache
def data(name: str) -> np.ndarray:
    """Fresh data of a zoo model."""
    return sf.simulate(jax.random.key(5), getattr(sf.zoo, name)(), 10, progress=False).x


class Square(eqx.Module):
    """η(θ) = (θ₁², θ₂): data say nothing of the sign of θ₁."""

    chart: sf.Chart

    def __call__(self, coordinates: jax.Array) -> jax.Array:
        theta = self.chart.inverse(coordinates)
        return jnp.array([theta[0] ** 2, theta[1]])


class Identity(eqx.Module):
    """f(y) = y."""

    def __call__(self, y: jax.Array) -> jax.Array:
        return y


class Bell(eqx.Module):
    """c(y) = −½ ‖y‖²."""

    def __call__(self, y: jax.Array) -> jax.Array:
        return -0.5 * jnp.sum(y**2)[None]


@cache
def two_sided_fit() -> tuple[sf.Model, Fit]:
    """x₁ ~ N(θ₁², 1), x₂ ~ N(θ₂, 1): two modes, known exactly."""
    prior = dist.Uniform(jnp.full(2, -3.0), jnp.full(2, 3.0)).to_event(1)

    def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
        return jnp.array([theta[0] ** 2, theta[1]]) + jax.random.normal(key, (2,))

    model = sf.Model(prior, simulator)
    sims = sf.simulate(jax.random.key(0), model, 4000, progress=False)
    chart = sf.ExponentialFamily.default(jax.random.key(0), model, 2).natural.chart
    family = ExponentialFamily.assemble(model, Identity(), Square(chart), Bell())
    return model, fit_of(model, family, sims)


def fit_of(model: sf.Model, family: ExponentialFamily, sims: sf.Simulations) -> Fit:
    """A fit of an exact family with plain charts, its normaliser from these simulations."""
    y, chart = jnp.asarray(sims.x), model.parameter_chart(sims.theta)
    normaliser = fit_normaliser(family, chart, sims.theta[:3600], y[:3600], sims.theta[3600:], y[3600:])
    envelope = envelope_of(family, y)
    return Fit(family, model.names, History.empty(), {}, model.prior, chart, envelope, normaliser)


def errors(posterior: sf.Posterior, exact: GridPosterior) -> np.ndarray:
    """Errors of mean and sd in posterior standard deviations."""
    return np.concatenate([(posterior.mean - exact.mean) / exact.sd, posterior.sd / exact.sd - 1])


@pytest.mark.parametrize("name", ["gaussian"])
def test_posteriors_are_exact_with_exact_statistics(name: str) -> None:
    model, method = getattr(sf.zoo, name)(), sf.Direct(exact_fit(name, normalised=True))
    posteriors = sf.sample_each(jax.random.key(0), method, data(name), progress=False)
    found = [errors(post, sf.zoo.exact_posterior(model, row)) for post, row in zip(posteriors, data(name), strict=True)]
    assert np.sqrt(np.mean(np.square(found))) < 0.07
    assert all(post.info["doubts"] == [] for post in posteriors)
    assert np.mean([post.info["diverging"].mean() for post in posteriors]) < 0.01


def test_every_sampler_draws_from_the_same_posterior() -> None:
    method, row = sf.Direct(exact_fit("gamma", normalised=True)), data("gamma")[0]
    exact = method.grid(row)
    for sampler in ("nuts", "smc", "grid"):
        chosen = replace(method, sampler=sampler)
        posterior = sf.sample(jax.random.key(1), chosen, row, progress=False)
        measures = posterior.convergence
        assert posterior.draws.shape == (4, 1000, 2)
        assert np.all(np.abs(posterior.mean - exact.mean) < 4 * measures.mcse_mean)
        assert np.all(np.abs(posterior.sd - exact.sd) < 4 * measures.mcse_sd)


def test_the_density_is_normalised_and_the_grids() -> None:
    method, row = sf.Direct(exact_fit("gamma", normalised=True)), data("gamma")[0]
    axis = 1.0 + (np.arange(200) + 0.5) / 100
    nodes = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2).astype(np.float32)
    values = method.log_prob(nodes, row)
    assert abs(np.exp(values).sum() * 1e-4 - 1) < 0.01
    exact = sf.zoo.exact_posterior(sf.zoo.gamma(), row).log_prob(nodes)
    assert 0.5 * np.sum(np.abs(np.exp(values) - np.exp(exact))) * 1e-4 < 0.05


def test_another_prior_of_the_same_support_reweights_the_posterior() -> None:
    fit, row = exact_fit("gamma", normalised=True), data("gamma")[0]
    assert fit.prior is not None
    prior = dist.TruncatedNormal(jnp.array([1.0, 3.0]), 0.3, low=1.0, high=3.0).to_event(1)
    flat = sf.Direct(fit).grid(row)
    nodes = np.stack(np.meshgrid(*flat.axes, indexing="ij"), axis=-1)
    weights = flat.density * np.exp(prior.log_prob(jnp.asarray(nodes, jnp.float32)))
    expected = np.sum(nodes * weights[..., None], axis=(0, 1)) / weights.sum()
    found = sf.Direct(fit, prior=prior).grid(row).mean
    np.testing.assert_allclose(found, expected, atol=0.01)
    assert np.all(np.abs(found - flat.mean) > 0.05)


def test_iid_replicates_add_up() -> None:
    model, rows = sf.zoo.gaussian(), data("gaussian")[:1] + 0.1 * data("gaussian")[1:5]
    log_likelihood = model.log_likelihood
    assert log_likelihood is not None
    box = np.array([[-10.0, 1.0], [10.0, 10.0]])
    exact = GridPosterior.tabulate(
        lambda theta: jnp.sum(jax.vmap(lambda row: log_likelihood(row, theta))(jnp.asarray(rows))),
        model.names,
        box,
        box,
    )
    method = sf.Direct(exact_fit("gaussian", normalised=True))
    posterior = sf.sample(jax.random.key(0), method, rows, iid=True, progress=False)
    assert np.abs(errors(posterior, exact)).max() < 0.2
    single = sf.sample(jax.random.key(0), method, rows[0], progress=False)
    assert np.all(posterior.sd < single.sd)


def test_chains_in_different_modes_are_told_of_and_tempering_finds_both() -> None:
    _, fit = two_sided_fit()
    observed = np.array([5.5, 0.5])
    with pytest.warns(sf.SamplingWarning, match=r"settled in different places .* sampler='smc'"):
        sf.sample(jax.random.key(5), sf.Direct(fit), observed, num_draws=300, progress=False)
    method = sf.Direct(fit, sampler="smc")
    posterior = sf.sample(jax.random.key(3), method, observed, num_draws=2000, progress=False)
    share = np.mean(posterior.draws[..., 0] > 0, axis=1)
    assert np.all(np.abs(share - 0.5) < 0.1)
    assert posterior.info["doubts"] == []
    grid = method.grid(observed)
    assert np.all(np.abs(posterior.sd - grid.sd) < 0.05 * grid.sd)


@quiet
def test_a_new_observation_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    traced, step = [], NutsChain.step

    def counting(self: NutsChain, *arguments: Any) -> Any:
        traced.append(1)
        return step(self, *arguments)

    monkeypatch.setattr(NutsChain, "step", counting)
    method = sf.Direct(exact_fit("gamma", normalised=True), warmup=50)
    for row in data("gamma")[:3]:
        sf.sample(jax.random.key(2), method, row, num_draws=20, progress=False)
    first = len(traced)
    sf.sample(jax.random.key(2), method, data("gamma")[3], num_draws=30, progress=False)
    assert len(traced) == first


def test_the_maximum_of_the_likelihood_and_its_profile() -> None:
    """Against the sample mean and sd, and the closed profile −n/2 log(1 + (μ − x̄)²/s²)."""
    row = data("gaussian")[np.argmin(np.abs(np.std(data("gaussian"), axis=1) - 4))]
    mean, sd = row.mean(), row.std()
    found = sf.maximum_likelihood(sf.Direct(exact_fit("gaussian", normalised=True)), row)
    assert np.abs(found.theta - [mean, sd]).max() < 0.15 * sd
    np.testing.assert_allclose(found.standard_error, [sd / np.sqrt(10), sd / np.sqrt(20)], rtol=0.3)
    values = mean + sd * np.array([-0.8, -0.4, 0.0, 0.4, 0.8])
    curve = sf.profile(sf.Direct(exact_fit("gaussian", normalised=True)), row, "mu", values)
    np.testing.assert_allclose(curve, -5 * np.log1p((values - mean) ** 2 / sd**2), atol=0.25)
    with pytest.raises(ValueError, match="no parameter 'nu'"):
        sf.profile(sf.Direct(exact_fit("gaussian", normalised=True)), row, "nu", values)


def test_observations_far_from_training_are_told_of() -> None:
    with pytest.warns(sf.SamplingWarning, match="unlike the training data"):
        sf.sample(
            jax.random.key(0), sf.Direct(exact_fit("gamma", normalised=True)), 1e4 * data("gamma")[0], progress=False
        )


class Fourfold(eqx.Module):
    """η(θ) = 4 θ, of the coordinates that a natural network sees."""

    chart: sf.Chart

    def __call__(self, coordinates: jax.Array) -> jax.Array:
        return 4.0 * self.chart.inverse(coordinates)


def test_three_parameters_have_a_density_up_to_a_constant() -> None:
    """x ~ N(θ, 1/4), θ ~ N(0, I): the posterior is N(0.8 x, 0.2)."""
    prior = dist.Normal(jnp.zeros(3), 1.0).to_event(1)
    model = sf.Model(prior, lambda key, theta: theta + 0.5 * jax.random.normal(key, (3,)), names=("a", "b", "c"))
    sims = sf.simulate(jax.random.key(0), model, 4000, progress=False)
    chart = sf.ExponentialFamily.default(jax.random.key(0), model, 3).natural.chart
    fit = fit_of(model, ExponentialFamily.assemble(model, Identity(), Fourfold(chart), Bell()), sims)
    observed = np.array([0.5, -0.5, 1.0])
    posterior = sf.sample(jax.random.key(2), sf.Direct(fit), observed, progress=False)
    assert np.all(np.abs(posterior.mean - 0.8 * observed) < 0.06)
    assert np.all(np.abs(posterior.sd - np.sqrt(0.2)) < 0.03)
    rows = np.array([[0.4, -0.4, 0.8], [0.0, 0.0, 0.0]])
    found = sf.Direct(fit).log_prob(rows, observed)
    exact = -0.5 * np.sum((rows - 0.8 * observed) ** 2, axis=1) / 0.2
    assert abs((found[0] - found[1]) - (exact[0] - exact[1])) < 0.15
    with pytest.raises(ValueError, match="at most 2 parameters, not 3"):
        sf.Direct(fit, sampler="grid")


def test_the_mean_score_of_a_right_normaliser_is_nothing() -> None:
    sims = sf.simulate(jax.random.key(6), sf.zoo.gamma(), 2000, progress=False)
    residual = exact_fit("gamma", normalised=True).residual(sims.theta, sims.x)
    assert residual.mean.shape == (2, 10, 2)
    assert residual.excess < 2.5


@pytest.mark.usefixtures("unchecked_types")
def test_bad_input_is_refused() -> None:
    fit = exact_fit("gamma", normalised=True)
    with pytest.raises(ValueError, match="sampler is 'gibbs'"):
        sf.Direct(fit, sampler="gibbs")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="warmup is 3"):
        sf.Direct(fit, warmup=3)
    with pytest.raises(ValueError, match="has no normaliser"):
        sf.Direct(replace(fit, normaliser=None))
    with pytest.raises(ValueError, match=r"this model's x has shape \(10,\)"):
        sf.sample(jax.random.key(0), sf.Direct(fit), np.ones(3))
