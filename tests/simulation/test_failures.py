"""Failures in words: which parameter they depend on."""

import numpy as np

import suffice as sf
from suffice.simulation.failures import failure_region


def mixed_failures(seed: int) -> sf.Simulations:
    """A few failures anywhere, and as many again at large `growth` only; `sd` has nothing to do with either."""
    generator = np.random.default_rng(seed)
    theta = generator.uniform([0.1, 0.05], [1.0, 0.5], (3000, 2))
    luck = generator.uniform(size=3000)
    failed = (luck < 0.025) | ((theta[:, 0] > 0.9) & (luck < 0.2))
    x = np.where(failed[:, None], np.nan, 1.0) * np.ones(4)
    return sf.Simulations.from_arrays(theta, x, ("growth", "sd"))


def test_the_region_is_of_the_parameter_that_failures_depend_on() -> None:
    for seed in range(5):
        assert failure_region(mixed_failures(seed)).startswith("Failures lie at growth from ")


def test_where_all_failed_the_region_is_all() -> None:
    sims = mixed_failures(0)
    assert failure_region(sims[sims.status != sf.Status.GOOD]).startswith("Failures lie at growth from ")
