"""Population Monte Carlo with a likelihood without noise: only its own error is left, and quadrature knows the rest."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import suffice as sf
from suffice.errors import SamplingError
from suffice.sampling.chains import Run
from suffice.surrogates.likelihood import Likelihood
from suffice.surrogates.metropolis import run_metropolis
from suffice.surrogates.population import Mixture, effective, flattened, pick, run_populations
from suffice.surrogates.request import Plan
from suffice.surrogates.summaries import Summaries

from .gaussian_models import Bounded, Noiseless, edge_model, edge_moments, identity

SD, OBSERVED = 0.3, -0.1
PLAN = Plan(particles=500, iterations=3, warmup=300, thin=3, keep_history=True)


SUMMARIES = Summaries.of(edge_model(), identity)


def edge(sd: float = SD) -> Likelihood:
    return Likelihood(SUMMARIES, Noiseless(jnp.asarray(sd)), 1)


def test_weights_are_right_at_the_edge_of_a_prior_that_is_not_uniform(key: jax.Array) -> None:
    """Fails if the prior enters twice, or if steps out of the support are drawn anew from the same particle."""
    repeats = 25
    evidence = np.full((repeats, 1, 1), OBSERVED, np.float32)
    found = run_populations(key, edge(), evidence, PLAN, Run(1, 1, progress=False), None)
    mean, sd = edge_moments(OBSERVED, SD)
    means, sds = (np.array([getattr(post, name)[0] for post in found]) for name in ("mean", "sd"))
    assert abs(means.mean() - mean) < 3 * means.std(ddof=1) / repeats**0.5
    assert abs(sds.mean() - sd) < 3 * sds.std(ddof=1) / repeats**0.5
    assert means.std(ddof=1) < 3 * sd / np.sqrt(PLAN.particles), "the test must be able to see a small bias"
    assert np.mean([post.info["ess"] for post in found]) > 250


def test_metropolis_at_the_edge(key: jax.Array) -> None:
    evidence = np.full((1, 1, 1), OBSERVED, np.float32)
    post = run_metropolis(key, edge(), evidence, PLAN, Run(1000, 8, progress=False), None)[0]
    mean, sd = edge_moments(OBSERVED, SD)
    measures = post.convergence
    assert post.draws.shape == (8, 1000, 1)
    assert measures.rhat[0] < 1.02
    assert abs(post.mean[0] - mean) < 3 * measures.mcse_mean[0]
    assert abs(post.sd[0] - sd) < 3 * measures.mcse_sd[0]
    assert measures.mcse_mean[0] < 0.05 * sd
    assert 0.1 < post.info["acceptance"].mean() < 0.4
    assert post.info["simulations"] == PLAN.particles + 8 * (PLAN.warmup + 3 * 1000)


def test_mixture_density_and_draws(key: jax.Array) -> None:
    generator = np.random.default_rng(0)
    centres, weights = generator.normal(size=(60, 2)) * [1.0, 5.0], generator.dirichlet(np.ones(60))
    mixture = Mixture.around(centres, np.log(weights))
    covariance = np.cov(centres, rowvar=False, aweights=weights)
    np.testing.assert_allclose(mixture.factor @ mixture.factor.T, covariance, rtol=1e-6)
    points = generator.normal(size=(7, 2))
    parts = np.stack([multivariate_normal(centre, covariance).pdf(points) for centre in centres])
    np.testing.assert_allclose(mixture.log_density(points), np.log(weights @ parts), rtol=1e-6)
    box = sf.Model(sf.zoo.gaussian().prior, lambda key, theta: theta)
    draws = mixture.sample_inside(key, box, 5000)
    assert ((draws[:, 1] > 1) & (draws[:, 1] < 10)).all()
    grid = np.stack(np.meshgrid(np.linspace(-10, 10, 200), np.linspace(1, 10, 200), indexing="ij"), -1).reshape(-1, 2)
    density = np.exp(mixture.log_density(grid))
    expected = density @ grid / density.sum()
    np.testing.assert_allclose(draws.mean(axis=0), expected, atol=4 * draws.std(axis=0).max() / 5000**0.5)


def test_flattened_weights() -> None:
    log_weights = np.log(np.random.default_rng(0).dirichlet(np.ones(50)))
    np.testing.assert_allclose(flattened(log_weights, 10), log_weights, atol=1e-12)
    steep = 200.0 * log_weights
    assert effective(steep - steep.max()) < 2
    flat = flattened(steep, 10)
    assert np.exp(flat).sum() == pytest.approx(1.0)
    assert float(effective(flat)) == pytest.approx(10, rel=1e-3)
    np.testing.assert_array_equal(np.argsort(flat), np.argsort(steep))
    assert np.isneginf(flattened(np.array([0.0, -np.inf, -1.0]), 1.5)[1])


def test_pick_goes_by_weight(key: jax.Array) -> None:
    weights = np.array([0.1, 0.0, 0.6, 0.3])
    counts = np.bincount(pick(key, np.log(np.maximum(weights, 1e-300)), 20_000), minlength=4)
    np.testing.assert_allclose(counts / 20_000, weights, atol=4 * 0.5 / 20_000**0.5)
    assert counts[1] == 0


def test_a_narrow_posterior_is_found_nevertheless(key: jax.Array) -> None:
    """A posterior a thousand times narrower than the prior: two or three particles of the first draw see it."""
    plan = Plan(500, 8, 20, 1, keep_history=False)
    post = run_populations(key, edge(1e-3), np.full((1, 1, 1), 0.4, np.float32), plan, Run(1, 1, progress=False), None)[
        0
    ]
    assert post.info["history_ess"][0] < 5
    assert post.info["ess"] > 200
    assert abs(post.mean[0] - 0.4) < 3e-4
    assert post.sd[0] == pytest.approx(1e-3, rel=0.2)
    assert "history_theta" not in post.info


def test_collapse_and_nowhere(key: jax.Array) -> None:
    evidence, run = np.full((1, 1, 1), 0.4, np.float32), Run(1, 1, progress=False)
    once = Plan(500, 1, 20, 1, keep_history=True)
    with pytest.raises(SamplingError, match=r"weights collapsed: 500 particles are worth 1.*give more simulations"):
        run_populations(key, edge(1e-5), evidence, once, run, None)
    two = np.array([0.4, 3.0], np.float32).reshape(2, 1, 1)  # the second is beyond what the prior can give
    good, collapsed = run_populations(key, edge(0.02), two, once, run, None)
    assert collapsed.info["ess"] < 2.0 < 10.0 < good.info["ess"], "one that collapses does not cost the others"
    with pytest.raises(SamplingError, match=r"are worth 1 .*and 0 of the last 500 simulations failed"):
        run_populations(key, edge(0.0), evidence, once, run, None)
    with pytest.raises(SamplingError, match="likelihood above zero"):
        run_metropolis(key, edge(0.0), evidence, once, run, None)


@pytest.mark.parametrize("far", [1e30, 1.14], ids=["nowhere", "one or two particles"])
def test_an_observation_without_a_likelihood_does_not_cost_the_others(key: jax.Array, far: float) -> None:
    bounded = Likelihood(SUMMARIES, Bounded(jnp.asarray(0.15)), 1)
    evidence, plan = np.array([far, 0.4], np.float32).reshape(2, 1, 1), Plan(500, 3, 20, 1, keep_history=True)
    lost, good = run_populations(key, bounded, evidence, plan, Run(1, 1, progress=False), None)
    alone = run_populations(key, bounded, evidence[::-1].copy(), plan, Run(1, 1, progress=False), None)[0]
    assert good.info["ess"] > 200
    assert abs(good.mean[0] - alone.mean[0]) < 4 * good.sd[0] / 200**0.5
    assert np.isfinite(lost.draws).all()
    if far > 2.0:
        assert lost.info["ess"] == pytest.approx(1.0)
