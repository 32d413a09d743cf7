"""`summary`, `rhat` and `ess` of posteriors and of plain arrays."""

import numpy as np
import pytest

import suffice as sf
from suffice.diagnostics import ess, rhat, summary


def test_posteriors_and_arrays_agree() -> None:
    draws = np.random.default_rng(0).normal(size=(4, 300, 2)) + np.array([0.0, 0.0, 0.0, 2.0])[:, None, None]
    post = sf.Posterior(draws, ("a", "b"))
    np.testing.assert_allclose(rhat(post), rhat(draws))
    for kind in ("bulk", "tail"):
        np.testing.assert_allclose(ess(post, kind), ess(draws, kind))
    assert np.all(rhat(draws) > 1.1)
    assert not np.allclose(ess(draws, "bulk"), ess(draws, "tail"))
    table = summary(post)
    np.testing.assert_allclose(table["rhat"], rhat(draws))
    assert {"mean", "sd", "ess_bulk", "ess_tail", "mcse_mean", "mcse_sd"} <= set(table.columns)


def test_a_summary_is_of_a_posterior(unchecked_types: None) -> None:
    with pytest.raises(TypeError, match="posterior is of type ndarray, but must be a Posterior; rhat and ess take"):
        summary(np.zeros((4, 100, 2)))  # type: ignore[arg-type]
