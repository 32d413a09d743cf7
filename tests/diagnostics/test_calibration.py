"""Calibration: posteriors that are right pass; those made wrong on purpose do not, and the verdict says why."""

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import suffice as sf
from suffice.diagnostics import calibrate, coverage, judge, sbc, tarp
from suffice.diagnostics.calibration import independent_draws
from suffice.sampling.chains import Run

NUM, DRAWS = 200, 240
NOISE = 0.5  # x = θ + NOISE z, θ ~ N(0, I): the posterior is N(x/(1 + NOISE²), NOISE²/(1 + NOISE²))
PRIOR = dist.Normal(jnp.zeros(2), jnp.ones(2)).to_event(1)
NAMES = ("a", "b")
MODEL = sf.Model(PRIOR, lambda key, theta: theta + NOISE * jax.random.normal(key, (2,)), names=NAMES)


@dataclass(frozen=True)
class Conjugate:
    """The exact posterior of `MODEL`, wider by `scale` and moved by `shift` of its standard deviations."""

    scale: tuple[float, float] = (1.0, 1.0)
    shift: tuple[float, float] = (0.0, 0.0)

    def observation(self, observed: object, *, iid: bool) -> np.ndarray:
        return MODEL.observation(observed, iid=iid)  # type: ignore[arg-type]

    def sample_each(self, key: jax.Array, observations: np.ndarray, run: Run) -> list[sf.Posterior]:
        generator = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        sd = NOISE / np.sqrt(1 + NOISE**2)
        noise = generator.normal(size=(len(observations), run.num_chains, run.num_draws, 2))
        mean = observations[:, None, None] / (1 + NOISE**2)
        draws = mean + sd * (np.array(self.scale) * noise + np.array(self.shift))
        return [sf.Posterior(values, NAMES) for values in draws]


@pytest.fixture(scope="module")
def sims() -> sf.Simulations:
    return sf.simulate(jax.random.key(5), MODEL, NUM)


def posteriors_of(method: Conjugate, sims: sf.Simulations) -> list[sf.Posterior]:
    return method.sample_each(jax.random.key(6), sims.x, Run(DRAWS, 1))


def test_the_exact_posterior_has_no_fault(sims: sf.Simulations, key: jax.Array) -> None:
    found = judge(key, posteriors_of(Conjugate(), sims), sims.theta)
    assert found.faults == ()
    assert found.verdict == "No fault found at level 0.05 over 200 simulations."
    assert min(found.p_values.values()) > 0.01
    assert len(found.p_values) == 6
    assert found.sbc.num_draws == 99
    np.testing.assert_allclose(found.contraction, 1 - NOISE**2 / (1 + NOISE**2), atol=0.06)
    low, high = found.coverage.band
    inside = (found.coverage.marginal >= low[:, None]) & (found.coverage.marginal <= high[:, None])
    assert np.mean(inside) > 0.8
    assert np.mean((found.coverage.joint >= low) & (found.coverage.joint <= high)) > 0.8


@pytest.mark.parametrize(
    ("method", "fault", "factor"),
    [
        (Conjugate(scale=(0.7, 1.0)), "too narrow in a (its spread should be about", 1 / 0.7),
        (Conjugate(scale=(1.0, 1.5)), "too wide in b (its spread should be about", 1 / 1.5),
        (Conjugate(shift=(-0.8, 0.0)), "biased low in a (by about", 0.8),
        (Conjugate(shift=(0.0, 0.8)), "biased high in b (by about", 0.8),
    ],
)
def test_a_posterior_made_wrong_is_told(
    sims: sf.Simulations, key: jax.Array, method: Conjugate, fault: str, factor: float
) -> None:
    found = judge(key, posteriors_of(method, sims), sims.theta)
    assert found.verdict.startswith("Faults found")
    marginal = [words for words in found.faults if not words.endswith("jointly")]
    assert len(marginal) == 1
    assert marginal[0].startswith(fault)
    number = float(marginal[0].removeprefix(fault).split()[0])
    assert abs(number / factor - 1) < 0.25


def test_expected_coverage_of_a_narrow_posterior(sims: sf.Simulations) -> None:
    """A normal interval drawn in by s holds Φ(s z) of its tail."""
    found = coverage(posteriors_of(Conjugate(scale=(0.5, 1.0)), sims), sims.theta, levels=(0.5, 0.9))
    expected = 2 * dist.Normal(0.0, 1.0).cdf(0.5 * dist.Normal(0.0, 1.0).icdf(np.array([0.75, 0.95]))) - 1
    assert np.all(np.abs(found.marginal[:, 0] - np.asarray(expected)) < 0.12)
    assert np.all(np.abs(found.marginal[:, 1] - [0.5, 0.9]) < 0.12)
    assert np.all(found.joint < found.band[0])
    np.testing.assert_allclose(found.band[:, 0], [0.43, 0.57], atol=0.006)


def test_tarp_alone(sims: sf.Simulations, key: jax.Array) -> None:
    right = tarp(key, posteriors_of(Conjugate(), sims), sims.theta)
    assert right.ecdf_p_values[0] > 0.05
    low, high = right.band
    assert np.all((right.ecdf[:, 0] >= low) & (right.ecdf[:, 0] <= high))
    for method in (Conjugate(scale=(0.6, 0.6)), Conjugate(shift=(1.5, 1.5))):
        wrong = tarp(key, posteriors_of(method, sims), sims.theta)
        assert wrong.ecdf_p_values[0] < 0.001


def test_wrong_dependence_shows_only_jointly(key: jax.Array) -> None:
    """Right margins, but independent where the posterior is strongly correlated: ranks of parameters cannot tell."""
    generator = np.random.default_rng(0)
    common = generator.normal(size=(NUM, 1))
    theta = common + 0.1 * generator.normal(size=(NUM, 2))
    draws = np.sqrt(1.01) * generator.normal(size=(NUM, 1, DRAWS, 2))
    found = judge(key, [sf.Posterior(rows, NAMES) for rows in draws], theta)
    assert min(found.sbc.ecdf_p_values) > 0.01
    assert found.faults
    assert all("jointly" in words for words in found.faults)


def test_a_posterior_that_is_the_prior_tells_nothing(sims: sf.Simulations, key: jax.Array) -> None:
    draws = np.random.default_rng(1).normal(size=(NUM, 1, DRAWS, 2))
    found = judge(key, [sf.Posterior(rows, NAMES) for rows in draws], sims.theta)
    assert found.faults == ()
    assert "tell little of a, b" in found.verdict


def test_weights_count(sims: sf.Simulations) -> None:
    generator = np.random.default_rng(2)
    sd, mean = NOISE / np.sqrt(1 + NOISE**2), sims.x / (1 + NOISE**2)
    noise = 1.5 * generator.normal(size=(NUM, 1, 500, 2))
    log_weights = np.sum(-0.5 * noise**2 * (1 - 1 / 1.5**2), axis=-1)
    weights = np.exp(log_weights) / np.exp(log_weights).sum(axis=-1, keepdims=True)
    draws = mean[:, None, None] + sd * noise
    weighted = [sf.Posterior(rows, NAMES, w) for rows, w in zip(draws, weights, strict=True)]
    ignored = [sf.Posterior(rows, NAMES) for rows in draws]
    assert np.all(sbc(weighted, sims.theta).ecdf_p_values > 0.01)
    assert np.all(sbc(ignored, sims.theta, num_draws=99).ecdf_p_values < 0.001)


def test_correlated_draws_are_thinned() -> None:
    generator = np.random.default_rng(3)
    noise = generator.normal(size=(25, 600))
    chains = np.empty_like(noise)
    chains[:, 0] = noise[:, 0]
    for t in range(1, 600):
        chains[:, t] = 0.9 * chains[:, t - 1] + np.sqrt(1 - 0.81) * noise[:, t]
    posteriors = [sf.Posterior(rows[None, :, None], ("a",)) for rows in chains]
    assert independent_draws(posteriors) in (9, 19, 29)  # of 600/19 = 32 on average
    assert independent_draws([sf.Posterior(rows[None, :, None], ("a",)) for rows in noise]) == 99
    assert sbc(posteriors, np.zeros((25, 1))).num_draws == independent_draws(posteriors)


def test_chains_that_hardly_move_are_told(sims: sf.Simulations, key: jax.Array) -> None:
    """Three posteriors whose two chains sit in different places: few enough to be ranked with the others."""
    posteriors = [sf.Posterior(one.draws.reshape(2, -1, 2), NAMES) for one in posteriors_of(Conjugate(), sims)]
    apart = np.array([-5.0, 5.0])[:, None, None]
    stuck = [sf.Posterior(one.draws + apart, NAMES) for one in posteriors[:3]]
    found = judge(key, stuck + posteriors[3:], sims.theta)
    assert found.doubtful == 3
    assert "Of the 200 posteriors 3 are worth fewer than the 99 independent draws" in found.verdict
    assert found.verdict.endswith("too few to matter.")
    assert replace(found, doubtful=11).verdict.endswith("run longer chains.")


def test_calibrate_in_one_call(key: jax.Array) -> None:
    found = calibrate(key, MODEL, Conjugate(scale=(0.4, 1.0)), 60, num_draws=110, num_chains=2)
    assert found.theta.shape == (60, 2)
    assert found.faults[0].startswith("too narrow in a")
    assert "at level 0.05 over 60 simulations" in repr(found)
    again = calibrate(key, MODEL, Conjugate(scale=(0.4, 1.0)), 60, num_draws=110, num_chains=2)
    assert again.p_values == found.p_values


def test_truths_must_match(sims: sf.Simulations, unchecked_types: None) -> None:
    posteriors = posteriors_of(Conjugate(), sims)
    with pytest.raises(TypeError, match=r"theta is of type Simulations.*give sims\.theta"):
        sbc(posteriors, sims)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="one row of theta for each posterior"):
        sbc(posteriors, sims.theta[:-1])
    with pytest.raises(ValueError, match="at least 20"):
        sbc(posteriors[:5], sims.theta[:5])
