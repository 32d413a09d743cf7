"""MCC against what is known of it."""

import numpy as np
import pytest

from suffice.diagnostics import mcc


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(2000, 3)) @ np.diag([1.0, 5.0, 0.1])


def test_a_linear_map_is_weakly_recovered_only(rows: np.ndarray) -> None:
    mixed = rows @ np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0] @ np.diag([1.0, 2.0, 3.0])
    value = mcc(mixed, rows)
    assert value.weak_in > 0.9999
    assert value.weak_out > 0.9999
    assert value.strong_out < 0.95


def test_a_permutation_is_strongly_recovered(rows: np.ndarray) -> None:
    value = mcc(rows[:, [2, 0, 1]] * np.array([-4.0, 1.0, 9.0]), rows)
    assert value.strong_in > 0.9999
    assert value.strong_out > 0.9999


def test_noise_lowers_it_as_theory_says() -> None:
    """One component with noise of equal variance: the correlation is 1/√2."""
    generator = np.random.default_rng(2)
    exact = generator.normal(size=(20_000, 1))
    noisy = exact + generator.normal(size=exact.shape)
    value = mcc(noisy, exact)
    for part in value:
        assert part == pytest.approx(np.sqrt(0.5), abs=0.02)


def test_unrelated_embeddings() -> None:
    generator = np.random.default_rng(3)
    value = mcc(generator.normal(size=(4000, 2)), generator.normal(size=(4000, 2)))
    assert max(value) < 0.08


def test_the_assignment_is_found_on_the_first_half() -> None:
    """Components swapped in the second half: strong MCC out of sample falls."""
    rows = np.random.default_rng(4).normal(size=(2000, 2))
    learned = np.concatenate([rows[:1000], rows[1000:, ::-1]])
    value = mcc(learned, rows)
    assert value.strong_in > 0.99
    assert value.strong_out < 0.1


def test_more_learned_components_than_exact_ones(rows: np.ndarray) -> None:
    extra = np.column_stack([rows, np.random.default_rng(5).normal(size=(2000, 2))])
    assert mcc(extra, rows).weak_out > 0.999


def test_wrong_shapes() -> None:
    with pytest.raises(ValueError, match="must be rows of the same"):
        mcc(np.zeros((10, 2)), np.zeros((11, 2)))
