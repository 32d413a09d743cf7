"""Uniform ranks: the exact probability of a path, the level of bands and tests, and what they show."""

import itertools

import numpy as np
import pytest
from scipy.stats import multinomial

from suffice.diagnostics import Ranks
from suffice.diagnostics.ranks import path_probability, simultaneous_band


def test_path_probability_against_all_outcomes() -> None:
    """Every way that 5 values can fall into 4 cells, one by one."""
    region = np.array([[0, 1, 3], [2, 3, 5]])
    total = 0.0
    for cells in itertools.product(range(6), repeat=4):
        if sum(cells) == 5:
            below = np.cumsum(cells)[:-1]
            if np.all((below >= region[0]) & (below <= region[1])):
                total += multinomial.pmf(cells, 5, np.full(4, 0.25))
    assert 0.1 < total < 0.9
    np.testing.assert_allclose(path_probability(region, 5), total, rtol=1e-10)


@pytest.mark.parametrize(("number", "cells"), [(60, 20), (200, 100)])
def test_band_and_tests_have_their_level(number: int, cells: int) -> None:
    repeats, level = 6000, 0.1
    ranks = np.random.default_rng(number).integers(0, cells, size=(number, repeats))
    below = Ranks(ranks, cells - 1, ("a",) * repeats).below
    low, high = simultaneous_band(number, cells, level)
    outside = np.any((below < low[:, None]) | (below > high[:, None]), axis=0)
    promised = 1 - path_probability(np.stack([low, high]), number)
    assert 0.8 * level < promised <= level
    assert abs(np.mean(outside) - promised) < 4 * np.sqrt(level / repeats)
    some = Ranks(ranks[:, :150], cells - 1, ("a",) * 150, level)
    np.testing.assert_array_equal(some.ecdf_p_values <= level, outside[:150])
    np.testing.assert_allclose(some.band * number, [low, high])
    assert abs(np.mean(some.chi2_p_values <= level) - level) < 4 * np.sqrt(level / 150)


def test_values_of_a_few_ranks() -> None:
    ranks = Ranks(np.array([[0], [1], [1], [3]]), 3, ("a",))
    np.testing.assert_allclose(ranks.levels, [0.25, 0.5, 0.75])
    np.testing.assert_allclose(ranks.ecdf[:, 0], [0.25, 0.75, 0.75])
    assert ranks.bins == 2
    np.testing.assert_array_equal(ranks.histogram[:, 0], [3, 1])


def test_location_and_spread_are_those_of_the_truth() -> None:
    """Truths of mean 0.5 and spread 1.5 among draws of a standard normal."""
    generator = np.random.default_rng(0)
    truth = 0.5 + 1.5 * generator.normal(size=4000)
    draws = generator.normal(size=(4000, 999))
    ranks = Ranks(np.sum(draws < truth[:, None], axis=1)[:, None], 999, ("a",))
    assert abs(ranks.location[0] - 0.5) < 0.08
    assert abs(ranks.spread[0] - 1.5) < 0.1
    assert ranks.ecdf_p_values[0] < 1e-6
    assert ranks.chi2_p_values[0] < 1e-6
