"""Scores of predictions against slow loops, and at states that are known."""

import jax
import numpy as np
import pytest

import suffice as sf
from suffice.diagnostics import energy_score, kernel_bandwidth, kernel_score

STEPS, VARIABLES, DRAWS = 3, 4, 25


@pytest.fixture(scope="module")
def prediction() -> tuple[np.ndarray, np.ndarray]:
    """Draws (m, T, K) far from 0 compared with their spread, and an observation; both fixed at the first step."""
    generator = np.random.default_rng(0)
    draws = 1000 + generator.normal(size=(DRAWS, STEPS, VARIABLES))
    observed = 1000 + generator.normal(size=(STEPS, VARIABLES))
    draws[:, 0] = observed[0]
    return draws, observed


def pairs_by_loop(function: object, draws: np.ndarray, observed: np.ndarray) -> tuple[float, float]:
    """The means of a function of the distance: draws to observation, and draws to other draws."""
    between = np.mean([function(np.linalg.norm(row - observed)) for row in draws])  # type: ignore[operator]
    number = len(draws)
    distances = [np.linalg.norm(draws[j] - draws[k]) for j in range(number) for k in range(number) if j != k]
    return float(between), float(np.mean([function(distance) for distance in distances]))  # type: ignore[operator]


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_energy_score(prediction: tuple[np.ndarray, np.ndarray], power: float) -> None:
    draws, observed = prediction
    score = energy_score(draws, observed, power=power)
    for step in range(STEPS):
        between, within = pairs_by_loop(lambda r: r**power, draws[:, step], observed[step])
        np.testing.assert_allclose(score.per_step[step], 2 * between - within, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(score.cumulative[-1], score.total)
    np.testing.assert_allclose(score.cumulative[1], score.per_step[:2].sum())


def test_kernel_score(prediction: tuple[np.ndarray, np.ndarray]) -> None:
    draws, observed = prediction
    score = kernel_score(draws, observed, 1.7)
    for step in range(STEPS):
        between, within = pairs_by_loop(lambda r: np.exp(-(r**2) / (2 * 1.7**2)), draws[:, step], observed[step])
        np.testing.assert_allclose(score.per_step[step], within - 2 * between, rtol=1e-4)


def test_a_fixed_state_has_the_best_scores(prediction: tuple[np.ndarray, np.ndarray]) -> None:
    """Where the released code of the paper gives about 186 and +8: the observation is one vector."""
    draws, observed = prediction
    assert abs(energy_score(draws, observed).per_step[0]) < 1e-6
    assert abs(kernel_score(draws, observed, 1.0).per_step[0] + 1) < 1e-6


def test_a_series_of_one_variable(prediction: tuple[np.ndarray, np.ndarray]) -> None:
    draws, observed = prediction
    flat = energy_score(draws[..., 0], observed[:, 0]).per_step
    np.testing.assert_allclose(flat, energy_score(draws[..., :1], observed[:, :1]).per_step)


def test_the_true_prediction_scores_best() -> None:
    generator = np.random.default_rng(1)
    observations = generator.normal(size=(400, 3))
    draws = generator.normal(size=(300, 1, 3))

    def mean_scores(prediction: np.ndarray) -> np.ndarray:
        many = np.broadcast_to(prediction, (300, 400, 3))
        return np.array([energy_score(many, observations).total, kernel_score(many, observations, 1.5).total]) / 400

    right = mean_scores(draws)
    for wrong in (draws + 0.5, 0.5 * draws, 2 * draws):
        assert np.all(right < mean_scores(wrong) - 0.005)


def test_bandwidth_is_the_median_of_medians(key: jax.Array) -> None:
    x = np.random.default_rng(2).normal(size=(9, 4, 2)) * np.array([1.0, 2.0, 3.0, 10.0])[:, None]
    medians = [np.median([np.linalg.norm(x[j, t] - x[k, t]) for j in range(9) for k in range(j)]) for t in range(4)]
    np.testing.assert_allclose(kernel_bandwidth(key, x), np.median(medians))
    assert kernel_bandwidth(key, x, 5) != kernel_bandwidth(key, x)


def test_bandwidth_of_lorenz96_from_its_prior(key: jax.Array) -> None:
    """About 3.4 for the small size when simulations come from the prior; the paper's 1.54 came from one fixed θ."""
    assert abs(kernel_bandwidth(key, sf.zoo.lorenz96(), 300) - 3.4) < 0.3


def test_bad_predictions_are_refused(prediction: tuple[np.ndarray, np.ndarray]) -> None:
    draws, observed = prediction
    with pytest.raises(ValueError, match="at least two"):
        energy_score(draws, observed[:2])
    with pytest.raises(ValueError, match="between 0 and 2"):
        energy_score(draws, observed, power=2.0)
    with pytest.raises(ValueError, match="not finite"):
        kernel_score(draws, np.full_like(observed, np.nan), 1.0)
    with pytest.raises(ValueError, match="must be positive"):
        kernel_score(draws, observed, 0.0)
