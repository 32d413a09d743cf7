"""How far two samples of θ are apart: Wasserstein distance, error of the mean, classifier test, kernel discrepancy.

Each of the two may be a `Posterior`, whose weights count, or an array with one row a draw.
"""

import warnings

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from numpy.typing import ArrayLike

from suffice.diagnostics.pairs import gaussian, pair_mean
from suffice.diagnostics.transport import least_matching_cost, scale_of
from suffice.grid import GridPosterior
from suffice.posterior import Posterior
from suffice.randomness import require_key

PAIR_BYTES = 40  # that the solver takes for each pair of draws when it holds all costs
LARGE = 2000  # equally weighted draws of each sample from which on few pairs are tried first
REPEATED = 0.1  # part of all pairs that are distinct, at or below which repetitions are taken as weights
MEDIAN_ROWS = 2000  # rows whose distances a median is taken of
FOLDS = 5

Sample = Posterior | ArrayLike  # rows of θ


def wasserstein(
    one: Sample,
    other: Sample,
    *,
    one_weights: ArrayLike | None = None,
    other_weights: ArrayLike | None = None,
    max_gigabytes: float = 1.0,
    max_iterations: int = 10_000_000,
) -> float:
    """The exact 2-Wasserstein distance of two weighted samples, in the units of θ.

    W₂² = min Σ Pᵢⱼ ‖xᵢ − yⱼ‖² over the plans P whose margins are the two weights: the paper's convention, solved
    exactly (network simplex of POT; by sorting for p = 1). Parameters are not rescaled and nothing is debiased: two
    samples of the *same* distribution are apart too, the farther the fewer the draws, so state the numbers of draws
    and compare only equal ones. (The paper: 10,000 against 10,000 draws, 1,000 for ABC; in its study of inner steps
    1,000 against 1,000.)

    Two samples of the same number, 2,000 or more, of equally weighted draws are matched by way of the few pairs that
    can matter, and potentials prove that no other matching is better: seconds for 10,000 against 10,000 draws, in
    little memory. Other samples, and those without such a proof, take all pairs.

    Args:
        one: a sample.
        other: the sample it is held against.
        one_weights: weights of the rows of an array; equal if not given.
        other_weights: the same for `other`.
        max_gigabytes: memory up to which the costs of all pairs are held at once (1 GB: 5,000 × 5,000 draws). Beyond,
            each is computed when it is needed, in no memory to speak of but at half the speed.
        max_iterations: of the simplex method.

    >>> square = np.array([[0.0, 0.0], [1.0, 0.0]])
    >>> wasserstein(square, square + np.array([3.0, 4.0]))
    5.0
    """
    x, a = rows_of(one, one_weights)
    y, b = rows_of(other, other_weights)
    _require_same_width(x, y)
    if x.shape[1] == 1:
        return _wasserstein_of_sorted(x[:, 0], a, y[:, 0], b)
    few_x, few_y = _distinct(x, a), _distinct(y, b)
    many_pairs = len(few_x[0]) * len(few_y[0]) > REPEATED * len(x) * len(y)
    if len(x) == len(y) >= LARGE and _are_equal(a) and _are_equal(b) and many_pairs:
        cost = least_matching_cost(x, y, max_iterations=max_iterations)
        if cost is not None:
            return float(np.sqrt(cost))
    return wasserstein_of_all_pairs(*few_x, *few_y, max_gigabytes, max_iterations)


def mean_error(one: Sample, other: Sample) -> float:
    """‖E₁θ − E₂θ‖, the Euclidean distance of the two means: what the paper calls RMSE (there is no 1/√p)."""
    (x, a), (y, b) = rows_of(one), rows_of(other)
    _require_same_width(x, y)
    return float(np.linalg.norm(a @ x - b @ y))


def c2st(key: PRNGKeyArray, one: Sample, other: Sample) -> float:
    """How often a classifier tells the two samples apart: 0.5 if they are alike, 1 if they do not overlap.

    The classifier two-sample test as the sbibm benchmark (Lueckmann et al., 2021) publishes it, so that values can be
    compared: both samples z-scored by the mean and standard deviation of `one` (the reference, there), a network of
    two hidden layers of 10 p rectified units trained by Adam, accuracy averaged over five folds.

    Args:
        key: decides the folds, the network's first weights, and which draws are used: of the larger sample as many as
            of the smaller one; weighted ones are drawn by their weights, with repetitions.
        one: a sample.
        other: another.
    """
    from sklearn.model_selection import KFold, cross_val_score
    from sklearn.neural_network import MLPClassifier

    keys = jax.random.split(require_key(key), 3)
    (x, a), (y, b) = rows_of(one), rows_of(other)
    _require_same_width(x, y)
    number = min(len(x), len(y))
    x, y = _equal(keys[0], x, a, number), _equal(keys[1], y, b, number)
    rows = (np.concatenate([x, y]) - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-300)
    labels = np.repeat([0, 1], number)
    seed = int(jax.random.randint(keys[2], (), 0, 2**31 - 1))
    units = 10 * x.shape[1]
    classifier = MLPClassifier(hidden_layer_sizes=(units, units), max_iter=10_000, random_state=seed)
    folds = KFold(FOLDS, shuffle=True, random_state=seed)
    return float(np.mean(cross_val_score(classifier, rows, labels, cv=folds, scoring="accuracy")))


def mmd(one: Sample, other: Sample, *, bandwidth: float | None = None) -> float:
    """The squared maximum mean discrepancy with a Gaussian kernel, estimated without bias: it may fall below 0.

    MMD² = E k(x, x′) + E k(y, y′) − 2 E k(x, y), k(x, y) = exp(−‖x − y‖²/(2γ²)) (Gretton et al., 2012).

    Args:
        one: a sample.
        other: another.
        bandwidth: γ; if not given, the median distance of pairs from both samples together.
    """
    (x, a), (y, b) = rows_of(one), rows_of(other)
    _require_same_width(x, y)
    gamma = _median_distance(x, y) if bandwidth is None else bandwidth
    if not gamma > 0:
        raise ValueError(f"The bandwidth is {gamma}, but must be positive; are all draws the same?")
    centre, number = x.mean(axis=0), np.float32(gamma)
    (x, a), (y, b) = (((rows - centre).astype(np.float32), w.astype(np.float32)) for rows, w in ((x, a), (y, b)))
    within = [float(pair_mean(gaussian, number, rows, w, rows, w, same=True)) for rows, w in ((x, a), (y, b))]
    return sum(within) - 2 * float(pair_mean(gaussian, number, x, a, y, b))


def rows_of(
    sample: Sample, weights: ArrayLike | None = None
) -> tuple[Float[np.ndarray, "n p"], Float[np.ndarray, " n"]]:
    """The draws of a sample, one a row, and their weights, which sum to 1; draws of no weight are left out."""
    if isinstance(sample, Posterior):
        if weights is not None:
            raise ValueError("A Posterior has weights of its own: give weights with arrays only.")
        rows, values = sample.flat, sample.flat_weights
    elif isinstance(sample, GridPosterior):
        raise TypeError("A sample is a GridPosterior, a density without draws: draw from it with .resample(key, 1000).")
    else:
        rows = np.asarray(sample)
        values = np.ones(len(rows)) if weights is None else np.asarray(weights)
    rows, values = rows.astype(np.float64), values.astype(np.float64)
    if rows.ndim != 2 or len(rows) == 0 or values.shape != rows.shape[:1]:
        raise ValueError(
            f"A sample has shape {rows.shape} and weights {values.shape}, but must be at least one row a draw, one "
            "column a parameter, and have one weight for each row."
        )
    if not np.all(np.isfinite(rows)) or not np.all(values >= 0) or not 0 < values.sum() < np.inf:
        raise ValueError("A sample has draws that are not finite, or weights that are negative or all 0.")
    kept = values > 0
    return rows[kept], values[kept] / values.sum()


def _require_same_width(x: np.ndarray, y: np.ndarray) -> None:
    if x.shape[1] != y.shape[1]:
        raise ValueError(f"One sample has {x.shape[1]} parameters and the other {y.shape[1]}: they must be the same.")


def _wasserstein_of_sorted(x: np.ndarray, a: np.ndarray, y: np.ndarray, b: np.ndarray) -> float:
    """For p = 1 the best plan keeps the order: W₂² = ∫ (F⁻¹(u) − G⁻¹(u))² du."""
    (x, a), (y, b) = ((values[order], w[order]) for values, w, order in ((x, a, np.argsort(x)), (y, b, np.argsort(y))))
    upto_x, upto_y = np.cumsum(a), np.cumsum(b)
    cuts = np.sort(np.concatenate([upto_x[:-1], upto_y[:-1], [1.0]]))
    masses = np.diff(cuts, prepend=0.0)
    middle = cuts - 0.5 * masses
    i, j = (np.minimum(np.searchsorted(upto, middle), len(upto) - 1) for upto in (upto_x, upto_y))
    return float(np.sqrt(np.sum(masses * (x[i] - y[j]) ** 2)))


def wasserstein_of_all_pairs(
    x: np.ndarray, a: np.ndarray, y: np.ndarray, b: np.ndarray, max_gigabytes: float, max_iterations: int
) -> float:
    """All pairs at once, by the network simplex of POT."""
    import ot

    centre = x.mean(axis=0)  # costs from coordinates far from 0 would lose digits
    x, y = x - centre, y - centre
    unit = scale_of(x, y)
    x, y = (np.ascontiguousarray(rows / unit) for rows in (x, y))
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="(?s).*numItermax")
        try:
            if PAIR_BYTES * len(x) * len(y) <= 1e9 * max_gigabytes:
                cost = ot.emd2(a, b, ot.dist(x, y), numItermax=max_iterations)
            else:
                cost = ot.lp.emd2_lazy(x, y, a, b, numItermax=max_iterations, return_matrix=False)
        except UserWarning as warning:
            raise RuntimeError(
                f"The transport between {len(x)} and {len(y)} draws was not found within {max_iterations} iterations. "
                "Give max_iterations=… more, or fewer draws."
            ) from warning
    return unit * float(np.sqrt(max(float(cost), 0.0)))


def _distinct(rows: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Each row once, and the sum of its weights."""
    found, which = np.unique(rows, axis=0, return_inverse=True)
    return (rows, weights) if len(found) == len(rows) else (found, np.bincount(which.ravel(), weights))


def _are_equal(weights: np.ndarray) -> bool:
    return bool(np.ptp(weights) < 1e-12 * weights[0])


def _equal(key: PRNGKeyArray, rows: np.ndarray, weights: np.ndarray, number: int) -> np.ndarray:
    """`number` equally weighted rows: a random part of equal ones, or drawn by their weights."""
    if _are_equal(weights):
        chosen = np.arange(len(rows)) if number == len(rows) else jax.random.permutation(key, len(rows))[:number]
    else:
        chosen = jax.random.choice(key, len(rows), (number,), p=np.asarray(weights))
    return rows[np.asarray(chosen)]


def _median_distance(x: np.ndarray, y: np.ndarray) -> float:
    from scipy.spatial.distance import pdist

    rows = np.concatenate([x, y])
    some = rows[np.linspace(0, len(rows) - 1, min(MEDIAN_ROWS, len(rows))).astype(int)]
    return float(np.median(pdist(some)))
