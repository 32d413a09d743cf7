"""The mean correlation coefficient: how well an embedding is recovered, up to what cannot be told apart."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment


class Mcc(NamedTuple):
    """Mean correlation coefficients between 0 and 1; in and out of the sample that the matching was found on.

    Weak: up to a linear map; strong: up to a permutation and a scale of each component.
    """

    weak_in: float
    weak_out: float
    strong_in: float
    strong_out: float


def mcc(learned: ArrayLike, exact: ArrayLike) -> Mcc:
    """MCC of rows of a learned embedding against those of the exact one (Appendix on MCC; Khemakhem et al., 2020).

    The matching is found on the first half of the rows and applied to the second: give rows that are independent of
    the training. Strong: the assignment of components with the largest mean |correlation|. Weak: the same after
    canonical correlation analysis has mapped both linearly.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 2))
    >>> round(mcc(rows @ np.array([[2.0, 1.0], [0.5, -3.0]]), rows).weak_out, 3)
    1.0
    """
    from sklearn.cross_decomposition import CCA

    learned, exact = (np.asarray(values, np.float64) for values in (learned, exact))
    if learned.ndim != 2 or exact.ndim != 2 or len(learned) != len(exact) or len(exact) < 20:
        raise ValueError(
            f"The embeddings have shapes {learned.shape} and {exact.shape}, but must be rows of the same at least 20 "
            "samples, one column a component."
        )
    half = len(exact) // 2
    inside, outside = slice(half), slice(half, None)
    matching = _assignment(learned[inside], exact[inside])
    analysis = CCA(n_components=min(learned.shape[1], exact.shape[1]), scale=True, max_iter=5000)
    analysis.fit(learned[inside], exact[inside])
    weak = [
        _mean_correlation(a, b, _assignment(a, b))
        for a, b in (analysis.transform(learned[part], exact[part]) for part in (inside, outside))
    ]
    strong = [_mean_correlation(learned[part], exact[part], matching) for part in (inside, outside)]
    return Mcc(*weak, *strong)


def _correlations(a: Float[np.ndarray, "n k"], b: Float[np.ndarray, "n m"]) -> Float[np.ndarray, "k m"]:
    a, b = ((values - values.mean(0)) / (values.std(0) + 1e-300) for values in (a, b))
    return np.abs(a.T @ b) / len(a)


def _assignment(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows, columns = linear_sum_assignment(-_correlations(a, b))
    return rows, columns


def _mean_correlation(a: np.ndarray, b: np.ndarray, matching: tuple[np.ndarray, np.ndarray]) -> float:
    return float(np.mean(_correlations(a, b)[matching]))
