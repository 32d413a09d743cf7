"""The best matching of two large samples of equal size and weight, exactly: few pairs at first, then those that count.

The transport of n against n equally weighted draws is a linear program over n² pairs (i, j) of cost ‖xᵢ − yⱼ‖², of which
the solution uses n. Potentials u, v of the program say which: the reduced cost ‖xᵢ − yⱼ‖² − uᵢ − vⱼ is 0 on the pairs
used and nowhere negative. So the potentials of a smaller part of the samples (found in the same way) choose for each
draw a few candidates, the network simplex solves the problem that has these pairs only, all n² reduced costs are computed
in blocks, pairs where they are negative join, and so on until there is none (column generation, from coarse to fine as
Schmitzer, 2016, "A sparse multiscale algorithm for dense optimal transport").

The end is proved rather than hoped for: mean u + mean v bounds the cost of every matching from below as soon as no
reduced cost is negative, and is to meet the cost of the one found.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

COARSEST = 500  # draws up to which all pairs are candidates
COARSENING = 2.3  # draws for each one of the next coarser part; not whole, lest it fall in step with interleaved chains
CANDIDATES = 15  # for each draw of either sample to begin with
JOINING = 5  # candidates that may join for each draw and round
MAX_ROUNDS = 60
BLOCK = 2**20  # reduced costs held at once
TOLERANCE = 1e-9  # of the distance between cost and bound, relative to the cost
ROUNDING = 1e-13  # the same, relative to the mean square of the draws
SWEEPS = 200
DEBUG = False
OPTIMAL = 1  # what the solver of POT says


class Matching(NamedTuple):
    """The cost of a matching of two samples, a mean over pairs, and potentials that may prove that it is the least."""

    cost: float
    of_x: np.ndarray
    of_y: np.ndarray
    proved: bool


def least_matching_cost(x: np.ndarray, y: np.ndarray, *, max_iterations: int) -> float | None:
    """The least of mean ‖xᵢ − y_σ(i)‖² over all permutations σ, or None where it could not be proved.

    Args:
        x: draws, one a row.
        y: as many others.
        max_iterations: of the simplex method, each time that it is called.
    """
    shift = x.mean(axis=0) - y.mean(axis=0)  # whose square every matching pays
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    unit = np.sqrt(np.mean(_squares(x)) + np.mean(_squares(y)))
    if unit == 0:
        return float(shift @ shift)
    found = _match(x / unit, y / unit, max_iterations)
    return float(shift @ shift + unit**2 * found.cost) if found is not None and found.proved else None


def _match(x: np.ndarray, y: np.ndarray, max_iterations: int) -> Matching | None:
    """The best matching, proved or not; None if the solver fails."""
    from ot.lp.emd_wrap import emd_c_sparse

    number = len(x)
    weights = np.ones(number)
    start = _start(x, y, max_iterations)
    if start is None:
        return None
    pairs, of_x, of_y = start
    for _ in range(MAX_ROUNDS):
        i, j = np.divmod(pairs, number)
        costs = _squares(x[i] - y[j])
        ends = i.astype(np.uint64), j.astype(np.uint64)
        used_i, used_j, _, total, of_x, of_y, status = emd_c_sparse(
            weights, weights, *ends, costs, max_iterations, of_x, of_y
        )
        if status != OPTIMAL or len(used_i) != number:
            return None
        cost = total / number
        of_x, of_y = _polished(x, y, used_i, used_j, i, j, costs, of_y)
        tolerance = TOLERANCE * cost + ROUNDING
        least, i, j = _lowest(x, of_x, y, of_y, JOINING, below=-0.1 * tolerance)
        if cost - np.mean(of_x + least) - np.mean(of_y) <= tolerance:
            return Matching(cost, of_x, of_y, proved=True)
        _, other_j, other_i = _lowest(y, of_y, x, of_x, JOINING, below=-0.1 * tolerance)
        before, pairs = len(pairs), np.unique(np.concatenate([pairs, i * number + j, other_i * number + other_j]))
        if len(pairs) == before:
            break
    return Matching(cost, of_x, of_y, proved=False)


def _polished(x, y, used_i, used_j, i, j, costs, of_y):
    used = np.empty(len(x), int)
    used[used_i] = used_j
    used_costs = _squares(x - y[used])
    order = np.argsort(j, kind="stable")
    sources, extra = used[i[order]], (costs - used_costs[i])[order]
    begins = np.searchsorted(j[order], np.arange(len(y)))
    of_y = of_y - np.mean(of_y)
    for sweep in range(SWEEPS):
        before, of_y = of_y, np.minimum.reduceat(of_y[sources] + extra, begins)
        if np.max(before - of_y) <= 1e-16:
            break
    if DEBUG:
        print("  sweeps", sweep, np.max(before - of_y))
    return used_costs - of_y[used], of_y


def _start(x: np.ndarray, y: np.ndarray, max_iterations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Pairs (as i n + j) among which there is a matching, hopefully a good one, and potentials of x and y."""
    number = len(x)
    if number <= COARSEST:
        return np.arange(number**2), np.zeros(number), np.zeros(number)
    some = np.linspace(0, number - 1, int(number / COARSENING)).astype(int)
    coarse = _match(x[some], y[some], max_iterations)
    if coarse is None:
        return None
    of_x = _lowest(x, np.zeros(number), y[some], coarse.of_y)[0]
    of_y = _lowest(y, np.zeros(number), x, of_x)[0]
    _, i, j = _lowest(x, of_x, y, of_y, CANDIDATES)
    _, other_j, other_i = _lowest(y, of_y, x, of_x, CANDIDATES)
    by_rank = np.argsort(x[:, 0]) * number + np.argsort(y[:, 0])
    return np.unique(np.concatenate([by_rank, i * number + j, other_i * number + other_j])), of_x, of_y


def _lowest(
    x: np.ndarray, of_x: np.ndarray, y: np.ndarray, of_y: np.ndarray, count: int = 0, *, below: float = np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least reduced cost of each x, and the pairs i, j of the `count` lowest ones of each x that are `below`."""
    least, rows, columns = np.empty(len(x)), [np.zeros(0, int)], [np.zeros(0, int)]
    for begin, reduced in _reduced_costs(x, of_x, y, of_y):
        lowest = least[begin : begin + len(reduced)] = reduced.min(axis=1)
        which = np.flatnonzero(lowest < below)
        if count == 0 or len(which) == 0:
            continue
        reduced = reduced[which]
        chosen = np.argpartition(reduced, count, axis=1)[:, :count]
        kept = np.take_along_axis(reduced, chosen, axis=1) < below
        rows.append(begin + which[np.nonzero(kept)[0]])
        columns.append(chosen[kept])
    return least, np.concatenate(rows), np.concatenate(columns)


def _reduced_costs(
    x: np.ndarray, of_x: np.ndarray, y: np.ndarray, of_y: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """‖xᵢ − yⱼ‖² − uᵢ − vⱼ for all j and a block of i at a time, with the first i: one product of matrices each."""
    left = np.column_stack([-2 * x, _squares(x) - of_x, np.ones(len(x))])
    right = np.column_stack([y, np.ones(len(y)), _squares(y) - of_y]).T
    size = max(BLOCK // len(y), 1)
    for begin in range(0, len(x), size):
        yield begin, left[begin : begin + size] @ right


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", rows, rows)
