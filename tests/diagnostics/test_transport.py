"""The matching of large samples against scipy's assignment and against the transport of all pairs."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from suffice.diagnostics import discrepancy, transport, wasserstein
from suffice.diagnostics.transport import least_matching_cost

NUMBER = 1200  # three levels: 226 (all pairs), 521, 1200


def gaussians(p: int, number: int = NUMBER) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(p)
    return generator.normal(size=(number, p)), 0.8 * generator.normal(size=(number, p)) + 0.2


def assigned(x: np.ndarray, y: np.ndarray) -> float:
    costs = cdist(x, y, "sqeuclidean")
    return float(costs[linear_sum_assignment(costs)].mean())


def repeated() -> tuple[np.ndarray, np.ndarray]:
    x, y = gaussians(2)
    generator = np.random.default_rng(0)
    return x[generator.integers(0, NUMBER // 4, NUMBER)], y[generator.integers(0, NUMBER // 2, NUMBER)]


def heavy_tailed() -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(1)
    return generator.standard_cauchy((NUMBER, 2)), generator.standard_cauchy((NUMBER, 2))


def clustered() -> tuple[np.ndarray, np.ndarray]:
    """Weights of three far clusters that differ: the matching leaves them."""
    (x, y), generator = gaussians(2), np.random.default_rng(2)
    centres = np.array([0.0, 5.0, 20.0])
    one, other = (generator.choice(centres, size=(NUMBER, 1), p=p) for p in ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5]))
    return 0.05 * x + one, 0.05 * y + other


SAMPLES: dict[str, Callable[[], tuple[np.ndarray, ...]]] = {
    "p = 1": lambda: gaussians(1),
    "p = 2": lambda: gaussians(2),
    "p = 5": lambda: gaussians(5),
    "p = 30": lambda: gaussians(30),
    "tiny": lambda: tuple(1e-8 * rows for rows in gaussians(2)),
    "huge": lambda: tuple(1e8 * rows for rows in gaussians(2)),
    "different scales": lambda: tuple(rows * np.array([1e3, 1e-3]) for rows in gaussians(2)),
    "different sizes": lambda: (gaussians(2)[0], 1e-3 * gaussians(2)[1]),
    "far apart": lambda: (gaussians(2)[0], gaussians(2)[1] + 1e3),
    "repeated": repeated,
    "lattice": lambda: tuple(np.round(3 * rows) for rows in gaussians(2)),
    "line": lambda: tuple(rows * np.array([1.0, 2.0]) for rows in gaussians(1)),
    "heavy tails": heavy_tailed,
    "clusters": clustered,
    "interleaved": lambda: tuple(rows + 5.0 * (np.arange(NUMBER)[:, None] % 2) for rows in gaussians(2)),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_matching_is_the_assignment(name: str) -> None:
    x, y = SAMPLES[name]()
    assert least_matching_cost(x, y, max_iterations=10**7) == pytest.approx(assigned(x, y), rel=1e-10)


def test_matching_of_the_same_draws() -> None:
    x, _ = gaussians(2)
    same = np.random.default_rng(0).permutation(x)
    assert least_matching_cost(x, same, max_iterations=10**7) == pytest.approx(0.0, abs=1e-14)
    assert least_matching_cost(x, same + 3.0, max_iterations=10**7) == pytest.approx(18.0, rel=1e-12)
    assert least_matching_cost(np.ones((NUMBER, 2)), np.zeros((NUMBER, 2)), max_iterations=10**7) == 2.0


def test_what_is_not_proved_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round is too few for a proof, and one iteration for a solution."""
    x, y = gaussians(2)
    assert least_matching_cost(x, y, max_iterations=1) is None
    monkeypatch.setattr(transport, "MAX_ROUNDS", 1)
    assert least_matching_cost(x, y, max_iterations=10**7) is None


@pytest.mark.parametrize("p", [2, 5])
def test_large_samples_have_the_distance_of_all_pairs(p: int, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = gaussians(p, 2000)
    by_matching = wasserstein(x, y)
    monkeypatch.setattr(discrepancy, "least_matching_cost", lambda *_, **__: None)
    for gigabytes in (1.0, 0.0):
        np.testing.assert_allclose(by_matching, wasserstein(x, y, max_gigabytes=gigabytes), rtol=1e-10)


def test_which_samples_are_matched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of equal number and weights whose draws are not too often the same; others have all pairs searched."""
    matched = []

    def noted(x: np.ndarray, y: np.ndarray, *, max_iterations: int) -> float | None:
        matched.append(len(x))
        return least_matching_cost(x, y, max_iterations=max_iterations)

    monkeypatch.setattr(discrepancy, "least_matching_cost", noted)
    monkeypatch.setattr(discrepancy, "LARGE", 300)
    x, y = gaussians(2, 300)
    np.testing.assert_allclose(wasserstein(x, y) ** 2, assigned(x, y), rtol=1e-10)
    assert matched == [300]
    weights = np.linspace(1.0, 2.0, 300)
    often = np.tile(x[:60], (5, 1))
    np.testing.assert_allclose(wasserstein(often, y[:299]), wasserstein(x[:60], y[:299]), rtol=1e-10)
    np.testing.assert_allclose(wasserstein(often, np.round(y)) ** 2, assigned(often, np.round(y)), rtol=1e-10)
    assert wasserstein(x, y, one_weights=weights) != wasserstein(x, y[:299])
    wasserstein(x[:299], y[:299])
    assert matched == [300]
    with pytest.raises(RuntimeError, match="max_iterations"):
        wasserstein(x, y, max_iterations=3)
    assert matched == [300, 300]


@pytest.mark.parametrize("unit", [1e-8, 1e8])
def test_distance_of_all_pairs_has_the_units_of_the_draws(unit: float) -> None:
    x, y = gaussians(2, 200)
    for gigabytes in (1.0, 0.0):
        far = wasserstein(unit * x, unit * y[:150], max_gigabytes=gigabytes)
        np.testing.assert_allclose(far / unit, wasserstein(x, y[:150]), rtol=1e-10)
