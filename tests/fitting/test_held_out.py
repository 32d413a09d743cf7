"""Held-out pairs of a model whose likelihood ratio is known: x ~ N(θ, 1) in two dimensions, so η = θ, A = |θ|²/2."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import suffice as sf
from suffice.family import ExponentialFamily
from suffice.family.normaliser import Normaliser, fit_normaliser
from suffice.fitting.held_out import FEWEST, HeldOut, look_at_held_out
from suffice.fitting.refining import tempered

NAMES = ("first", "second")
PRIOR = dist.Uniform(jnp.full(2, -4.0), jnp.full(2, 4.0)).to_event(1)
MODEL = sf.Model(PRIOR, lambda key, theta: theta + jax.random.normal(key, (2,)), names=NAMES)


class Identity(eqx.Module):
    """η(θ) = θ."""

    def __call__(self, theta: jax.Array) -> jax.Array:
        return theta


@cache
def pairs() -> tuple[sf.Simulations, Normaliser]:
    """Pairs and the normaliser of the exact family."""
    sims = sf.simulate(jax.random.key(0), MODEL, 5000, progress=False)
    family = ExponentialFamily.assemble(MODEL, lambda y: y, Identity(), base=lambda y: jnp.zeros(1))
    parts = (sims.theta[:4000], sims.x[:4000], sims.theta[4000:], sims.x[4000:])
    return sims, fit_normaliser(family, MODEL.parameter_chart(sims.theta), *parts)


def look(statistics: np.ndarray | None = None, contrasts: int = 4000) -> HeldOut:
    """The look at the last thousand pairs, with these statistics of their data in place of the right ones."""
    sims, normaliser = pairs()
    statistics = sims.x[4000:] if statistics is None else statistics
    found = look_at_held_out(
        jax.random.key(1), normaliser, normaliser, NAMES, sims.theta[4000:], statistics, sims.theta[:contrasts]
    )
    assert found is not None
    return found


@pytest.mark.parametrize("contrasts", [5, 4000])
def test_ranks_of_an_exact_family_are_uniform(contrasts: int) -> None:
    found = look(contrasts=contrasts)
    for ranks in (*found.ranks.T, found.joint):
        assert stats.kstest(ranks, "uniform").pvalue > 0.01
    assert np.abs(found.coverage - 0.9).max() < 4 * 0.3 / 1000**0.5
    assert not found.doubtful


def test_gain_is_the_information_in_the_data() -> None:
    """Mean of log p(θ|x)/p(θ): the entropy of the prior less that of the posterior, each a product over two axes."""
    x = np.linspace(-8.0, 8.0, 20_001)
    marginal = (stats.norm.cdf(4.0 - x) - stats.norm.cdf(-4.0 - x)) / 8.0
    of_x = -np.sum(np.where(marginal > 0, marginal * np.log(np.maximum(marginal, 1e-300)), 0.0)) * (x[1] - x[0])
    found = look()
    assert found.gain == pytest.approx(2.0 * (of_x - stats.norm.entropy()), abs=0.1)
    assert found.own < 0.01


@pytest.mark.parametrize("sharpened", [True, False])
def test_a_fit_too_sure_of_itself_is_found_out(sharpened: bool) -> None:
    sims, normaliser = pairs()
    x = sims.x[4000:]
    shifted = look(x + np.array([0.0, 1.0]))
    assert shifted.doubtful
    assert shifted.ranks[:, 1].mean() < 0.3 < 0.45 < shifted.ranks[:, 0].mean() < 0.55
    changed = tempered(normaliser, 4.0 if sharpened else 0.25)
    found = look_at_held_out(jax.random.key(1), changed, normaliser, NAMES, sims.theta[4000:], x, sims.theta[:4000])
    assert found is not None
    assert found.doubtful == sharpened
    assert found.unrefined == look().coverage.min()
    assert (found.coverage.max() < 0.8) if sharpened else (found.coverage.min() > 0.95)
    assert found.gain < look().gain


def test_too_few_pairs_are_not_looked_at() -> None:
    sims, normaliser = pairs()
    few = slice(FEWEST - 1)
    assert (
        look_at_held_out(jax.random.key(1), normaliser, normaliser, NAMES, sims.theta[few], sims.x[few], sims.theta)
        is None
    )


def test_a_fit_keeps_it_and_its_posteriors_tell(tmp_path: Path) -> None:
    sims, _ = pairs()
    training = sf.Training(epochs=6, batch_size=500, validation_fraction=0.1)
    fit = sf.fit(jax.random.key(2), MODEL, sims, training=training, progress=False)
    assert fit.held_out is not None
    assert len(fit.held_out.joint) == 500
    again = sf.load(fit.save(tmp_path / "fit.npz")).held_out
    np.testing.assert_array_equal(again.ranks, fit.held_out.ranks)
    assert (again.words, again.own) == (fit.held_out.words, fit.held_out.own)
    assert repr(again).startswith("HeldOut(Of 500 held-out simulations, 90% intervals hold the truth in first ")
    narrow = replace(fit, held_out=replace(fit.held_out, joint=np.full(500, 0.99), unrefined=0.125))
    for method, share in ((sf.Direct(narrow), "0%"), (sf.Exchange(narrow, inner_steps=2, warmup=20), "12%")):
        with pytest.warns(sf.SamplingWarning, match=f"too sure of itself.*hold the truth in {share} only"):
            sf.sample(jax.random.key(3), method, sims.x[0], num_draws=100, progress=False)
    manifest, arrays = fit.to_archive()
    older = {name: array for name, array in arrays.items() if not name.startswith("held_out/")}
    manifest.pop("held_out")
    assert sf.Fit.from_archive(manifest, older).held_out is None
