"""Pictures show what they are given: axes have names, every method and parameter is there, values are in place."""

import io
from typing import Any

import jax
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text
from tests.conjugate import exact, model
from tests.exact_families import exact_fit

import suffice as sf
from suffice.compare import Comparison, Curve, Outcome
from suffice.diagnostics import coverage, energy_score, predictive_check, sbc
from suffice.fitting import History


def words(figure: Figure) -> set[str]:
    """Everything written in a figure, once it has been drawn."""
    figure.savefig(io.BytesIO(), format="png", dpi=40)
    texts = [text.get_text() for panel in figure.axes for text in panel.findobj(Text)]
    return set(texts) | {text.get_text() for box in figure.legends for text in box.get_texts()}


@pytest.fixture(scope="module")
def observed() -> np.ndarray:
    return np.linspace(-1, 1, 10).astype(np.float32)


def test_a_pair_plot_names_parameters_and_marks_truth_and_reference(observed: np.ndarray) -> None:
    post = exact(observed, 200)
    figure = sf.plot.pair(post, truth=[0.1, 0.2], reference=exact(observed, 100, seed=1))
    assert figure.axes[0].get_xlim() == figure.axes[2].get_xlim()
    assert figure.axes[2].get_ylim() == figure.axes[3].get_xlim()
    assert {"a", "b", "posterior", "reference", "truth"} <= words(figure)
    cross = [line for line in figure.axes[2].lines if line.get_marker() == "+"]
    assert [float(cross[0].get_xdata()[0]), float(cross[0].get_ydata()[0])] == [0.1, 0.2]
    marginal = figure.axes[0].lines[0]
    peak = marginal.get_xdata()[np.argmax(marginal.get_ydata())]
    assert abs(peak - post.mean[0]) < 0.5 * post.sd[0]


@pytest.mark.parametrize("truth", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]]])
def test_a_truth_has_a_value_for_each_parameter(truth: Any) -> None:
    post = sf.Posterior(np.random.default_rng(0).normal(size=(2, 100, 2)), ("a", "b"))
    with pytest.raises(ValueError, match=r"truth has shape .* one number for each of the 2 parameters: a, b"):
        sf.plot.pair(post, truth=truth)


def test_a_weighted_posterior_is_drawn_by_its_weights() -> None:
    draws = np.random.default_rng(0).normal(size=(1, 400, 2)).astype(np.float32)
    weights = np.exp(-4 * (draws[..., 0] - 1.5) ** 2)
    post = sf.Posterior(draws, ("a", "b"), weights / weights.sum())
    line = sf.plot.pair(post).axes[0].lines[0]
    assert abs(line.get_xdata()[np.argmax(line.get_ydata())] - post.mean[0]) < 0.3


def test_chains_are_drawn_one_by_one(observed: np.ndarray) -> None:
    post = exact(observed, 100)
    traces = sf.plot.trace(post)
    assert len(traces.axes[0].lines) == 4
    np.testing.assert_array_equal(traces.axes[1].lines[2].get_ydata(), post.draws[2, :, 1])
    assert {"chain 1", "chain 4", "draw", "a", "b"} <= words(traces)
    ranks = sf.plot.ranks(post, bins=10)
    heights = [patch.get_data().values for patch in ranks.axes[0].patches if hasattr(patch, "get_data")]
    assert len(heights) == 4
    np.testing.assert_array_equal(np.sum(heights, axis=0), 40)
    assert "rank of b" in words(ranks)


def test_losses_and_the_kept_epoch_are_drawn() -> None:
    fit = exact_fit("gamma")
    history = History(np.arange(9.0, 0, -1), np.array([3, 6, 9]), np.array([5.0, 3.0, 4.0]), 6, 1.0, "", None)
    figure = sf.plot.training(sf.Fit(fit.module, fit.names, history, {}))
    assert {"epoch", "loss", "training", "validation", "kept"} <= words(figure)
    assert figure.axes[0].lines[2].get_xdata()[0] == 6


def test_an_embedding_is_mapped_onto_the_exact_one() -> None:
    exact_values = np.random.default_rng(0).normal(size=(400, 2))
    figure = sf.plot.embedding(exact_values @ np.array([[2.0, 1.0], [0.5, -1.0]]) + 3.0, exact_values)
    assert {"exact statistic 1", "correlation 1.000"} <= words(figure)
    points = figure.axes[0].lines[0]
    np.testing.assert_allclose(points.get_xdata(), points.get_ydata(), atol=1e-8)
    with pytest.raises(ValueError, match="must be rows of the same simulations"):
        sf.plot.embedding(exact_values[:10], exact_values)


def test_predictions_are_drawn_as_bands(observed: np.ndarray) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 10, 2))
    data = np.stack([observed, -observed], axis=1)
    figure = sf.plot.bands(rows, data, names=("rain", "wind"))
    assert {"rain", "wind", "step", "observed", "90% predicted"} <= words(figure)
    np.testing.assert_array_equal(figure.axes[1].lines[1].get_ydata(), data[:, 1])
    np.testing.assert_allclose(figure.axes[0].lines[0].get_ydata(), np.median(rows[..., 0], axis=0))
    with pytest.raises(ValueError, match="must be rows of the shape of observed"):
        sf.plot.bands(rows, observed)


def test_scores_and_checks_are_drawn_with_their_numbers(observed: np.ndarray) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 10))
    score = energy_score(rows, observed)
    figure = sf.plot.scores({"ours": score, "theirs": score})
    np.testing.assert_array_equal(figure.axes[0].lines[1].get_ydata(), score.per_step)
    assert f"ours ({score.total:.3g} in all)" in words(figure)
    check = predictive_check(jax.random.key(0), model(), exact(observed, 200), observed)
    assert {*check.names, f"p = {check.p_values[0]:.2g}"} <= words(sf.plot.predictive_check(check))


def test_calibration_is_drawn_with_its_bands() -> None:
    truth = np.random.default_rng(1).normal(size=(40, 2))
    posteriors = [exact(np.tile(row, 5).astype(np.float32), 50, seed=i) for i, row in enumerate(truth)]
    ranks, shares = sbc(posteriors, truth), coverage(posteriors, truth)
    curve = sf.plot.ecdf(ranks)
    np.testing.assert_allclose(curve.axes[0].lines[1].get_ydata(), ranks.ecdf[:, 0] - ranks.levels)
    assert {"a", "b", "95% band"} <= words(curve)
    assert {"all together", "credible level"} <= words(sf.plot.coverage(shares))
    histogram = sf.plot.histogram(ranks)
    band, *bars = histogram.axes[0].patches
    assert sum(bar.get_height() for bar in bars) == 40
    assert band.get_y() < 40 / ranks.bins < band.get_y() + band.get_height()
    assert {"95% band of one bar", "expected"} <= words(histogram)


def test_a_comparison_is_drawn_method_by_method() -> None:
    curve = Curve(np.array([10, 100]), np.array([[2.0, 1.0], [3.0, 1.5]]))
    one = Outcome(np.array([1.0, 2.0]), np.array([0.1, 0.2]), None, 0, 0, 0.0, 0.0, curve)
    other = Outcome(np.array([0.5, 0.7]), np.array([0.1, 0.2]), None, 0, 0, 0.0, 0.0, None)
    found = Comparison({"ABC-SM": one, "Direct": other}, 100, 0.9)
    assert {"ABC-SM", "Direct", "W₂", "error of the mean"} <= words(sf.plot.comparison(found))
    figure = sf.plot.convergence(found, target="Direct")
    assert {"ABC-SM", "Direct"} <= words(figure)
    np.testing.assert_array_equal(figure.axes[0].lines[0].get_ydata(), [2.5, 1.25])
    assert figure.axes[0].lines[1].get_ydata()[0] == pytest.approx(0.6)
