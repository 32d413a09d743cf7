"""Smoothed densities: mass one, right at an edge where draws pile up, and regions that hold their level."""

import numpy as np
from scipy.stats import chi2, norm

from suffice.plot.smoothing import density, highest


def test_a_density_cut_off_at_an_edge_keeps_its_height_there() -> None:
    """An exponential density is 1 at 0; a kernel estimate without care is half of that."""
    values = -np.log1p(-(np.arange(4000) + 0.5) / 4000)[:, None]
    (grid,), heights = density(values, np.full(4000, 1 / 4000))
    assert heights[0] > 0.85
    np.testing.assert_allclose(np.trapezoid(heights, grid), 1.0, atol=0.02)


def test_a_density_that_runs_out_is_left_as_it_is() -> None:
    values = norm.ppf((np.arange(2000) + 0.5) / 2000)[:, None]
    (grid,), heights = density(values, np.full(2000, 1 / 2000))
    inner = np.abs(grid) < 2
    np.testing.assert_allclose(heights[inner], norm.pdf(grid[inner]), atol=0.03)


def test_regions_hold_their_level() -> None:
    rows = np.random.default_rng(0).normal(size=(2000, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    axes, heights = density(rows, np.full(2000, 1 / 2000))
    assert heights.shape == tuple(len(axis) for axis in axes)
    exact = chi2.ppf(0.5, 2)
    cut = np.exp(-exact / 2) / (2 * np.pi * 0.6)  # the height of the exact density at the border of its 50% region
    assert abs(highest(heights, 0.5) / cut - 1) < 0.15
    assert highest(heights, 0.9) < highest(heights, 0.5)
