"""R-hat, effective sample sizes and Monte Carlo errors, on chains whose values are known."""

import numpy as np

import suffice as sf
from suffice.convergence import convergence, ess, rhat


def autoregressive(phi: float, chains: int = 4, draws: int = 4000) -> np.ndarray:
    """Chains of variance 1 and autocorrelation φ^lag: worth (1 − φ)/(1 + φ) of independent draws."""
    noise = np.random.default_rng(0).normal(size=(draws, chains))
    values = np.empty((draws, chains))
    values[0] = noise[0]
    for t in range(1, draws):
        values[t] = phi * values[t - 1] + np.sqrt(1 - phi**2) * noise[t]
    return values.T[..., None]


def test_effective_sizes_follow_the_autocorrelation() -> None:
    for phi in (0.0, 0.5, 0.9):
        draws = autoregressive(phi)
        expected = 16_000 * (1 - phi) / (1 + phi)
        assert abs(ess(draws)[0] / expected - 1) < 0.15
        assert abs(convergence(draws).mcse_mean[0] * np.sqrt(expected) - 1) < 0.1


def test_chains_that_disagree_have_a_large_rhat() -> None:
    draws = autoregressive(0.0)
    assert rhat(draws)[0] < 1.01
    assert rhat(draws + np.array([0.0, 0.0, 0.0, 1.0])[:, None, None])[0] > 1.1
    assert np.isnan(rhat(draws[:1])[0])


def test_summary_has_one_row_a_parameter() -> None:
    draws = np.concatenate([autoregressive(0.0), 2.0 + autoregressive(0.5)], axis=-1)
    table = sf.Posterior(draws, ("a", "b")).summary()
    assert list(table.index) == ["a", "b"]
    assert abs(table.loc["b", "mean"] - 2.0) < 4 * table.loc["b", "mcse_mean"]
    np.testing.assert_allclose(table.loc["a", "95%"], np.quantile(draws[..., 0], 0.95), atol=0.01)


def test_weighted_draws_count_by_their_weights() -> None:
    generator = np.random.default_rng(1)
    draws, weights = generator.normal(size=(1, 500, 1)), np.r_[np.full(250, 1e-9), np.ones(250)]
    post = sf.Posterior(draws, ("a",), (weights / weights.sum())[None])
    assert abs(post.convergence.ess_bulk[0] - 250) < 1
    assert np.isnan(post.convergence.rhat[0])
    np.testing.assert_allclose(post.quantile(0.5), np.quantile(draws[0, 250:], 0.5, axis=0), atol=0.02)
