"""The best matching of two large samples of equal size and weight, exactly: few pairs at first, then those that count.

The transport of n against n equally weighted draws is a linear program over n² pairs (i, j) of cost ‖xᵢ − yⱼ‖², of
which its solution, a matching, uses n. Potentials u, v say which: the reduced cost ‖xᵢ − yⱼ‖² − uᵢ − vⱼ is 0 on the
pairs used and nowhere negative. So the potentials of a part of the samples (found in the same way) choose a few
candidates for each draw, the network simplex of POT solves the problem that has these pairs only, all n² reduced costs
are computed in blocks, pairs where they are negative join, and so on until there is none: column generation, from
coarse to fine (Schmitzer, 2016, "A sparse multiscale algorithm for dense optimal transport").

The end is proved, not hoped for: when no reduced cost is negative, mean u + mean v bounds the cost of every matching
from below, and the cost of the one found has to meet it.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

COARSEST = 500  # draws up to which all pairs are candidates
COARSENING = 2.3  # draws for each one of the next coarser part; not whole, lest it fall in step with interleaved chains
CANDIDATES = 25  # for each draw of either sample, to begin with
JOINING = 10  # candidates that may join for each draw in a round
KEPT = 0.95  # part of the pairs whose highest reduced cost, doubled, is the most that other pairs may have to stay
MAX_ROUNDS = 60
PATIENCE = 6  # rounds in which the gap between cost and bound has to shrink
MAX_SWEEPS = 100
BLOCK = 2**20  # reduced costs held at once
AIM = 1e-12  # gap that ends the search, relative to the cost
PROOF = 1e-9  # gap that is accepted if the solver's rounding allows no smaller one
ROUNDING = 1e-15  # gap that is always accepted, relative to the mean square of the draws
OPTIMAL = 1  # the status of a solution


class Matching(NamedTuple):
    """The mean cost of the pairs of a matching, potentials of x and y, and whether they prove that none is cheaper."""

    cost: float
    of_x: np.ndarray
    of_y: np.ndarray
    proved: bool


def least_matching_cost(x: np.ndarray, y: np.ndarray, *, max_iterations: int) -> float | None:
    """The least mean of ‖xᵢ − y_σ(i)‖² over the permutations σ, or None if it was not found or not proved.

    Args:
        x: draws, one a row.
        y: as many others.
        max_iterations: of the simplex method, each time it is called.

    >>> x = np.arange(12.0).reshape(6, 2)
    >>> least_matching_cost(x, x[::-1] + np.array([3.0, 4.0]), max_iterations=1000)
    25.0
    """
    shift = x.mean(axis=0) - y.mean(axis=0)  # every matching pays its square, which would cost the rest its digits
    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    unit = scale_of(x, y)
    found = _match(x / unit, y / unit, max_iterations)
    return float(shift @ shift) + unit**2 * found.cost if found is not None and found.proved else None


def scale_of(x: np.ndarray, y: np.ndarray) -> float:
    """The power of 2 next to the root mean square of all draws, to divide by: tolerances of the solver are absolute."""
    square = np.mean(_squares(x)) + np.mean(_squares(y))
    return float(np.exp2(np.round(0.5 * np.log2(square)))) if square > 0 else 1.0


def _match(x: np.ndarray, y: np.ndarray, max_iterations: int) -> Matching | None:
    """The best matching found; None if the solver fails."""
    from ot.lp.emd_wrap import emd_c_sparse  # ot.emd takes no potentials to start from when pairs are few

    start = _start(x, y, max_iterations)
    if start is None:
        return None
    pairs, of_x, of_y = start
    number, ones, zeros, gaps = len(x), np.ones(len(x)), np.zeros(len(x)), [np.inf] * PATIENCE
    for _ in range(MAX_ROUNDS):
        i, j = np.divmod(pairs, number)
        costs = _squares(x[i] - y[j])
        reduced = costs - of_x[i] - of_y[j]  # solved in place of `costs`: the solver rounds by the largest
        scale = float(np.max(np.abs(reduced))) or 1.0
        ends = i.astype(np.uint64), j.astype(np.uint64)
        used_i, used_j, _, _, _, change, status = emd_c_sparse(
            ones, ones, *ends, reduced / scale, max_iterations, zeros, zeros
        )
        if status != OPTIMAL or len(used_i) != number:
            return None
        partner = np.empty(number, dtype=int)
        partner[used_i] = used_j
        partner_costs = _squares(x - y[partner])
        cost = float(np.mean(partner_costs))
        of_y = _polished(partner, costs - partner_costs[i], i, j, of_y + scale * change)
        of_x = partner_costs - of_y[partner]
        enough = AIM * cost + ROUNDING
        least, new_i, new_j = _lowest(x, of_x, y, of_y, JOINING, below=-0.1 * enough)
        gaps.append(-float(np.mean(least)))  # cost = mean u + mean v, and u lowered by so much makes a bound of it
        if gaps[-1] <= enough or gaps[-1] > 0.9 * gaps[-1 - PATIENCE]:
            break
        _, other_j, other_i = _lowest(y, of_y, x, of_x, JOINING, below=-0.1 * enough)
        reduced = costs - of_x[i] - of_y[j]
        kept = pairs[reduced <= 2 * np.quantile(reduced, KEPT)]
        joining = [np.arange(number) * number + partner, new_i * number + new_j, other_i * number + other_j]
        pairs = np.unique(np.concatenate([kept, *joining]))
    return Matching(cost, of_x, of_y, proved=gaps[-1] <= PROOF * cost + ROUNDING)


def _start(x: np.ndarray, y: np.ndarray, max_iterations: int) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
    """Pairs (as i n + j) that allow at least one matching, hopefully a good one, and potentials of x and y."""
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


def _polished(partner: np.ndarray, excess: np.ndarray, i: np.ndarray, j: np.ndarray, of_y: np.ndarray) -> np.ndarray:
    """The potentials v of y without the solver's rounding: vⱼ ≤ v_σ(i) + cᵢⱼ − cᵢ_σ(i) for all pairs (Bellman-Ford).

    Args:
        partner: σ(i) for each i.
        excess: cᵢⱼ − cᵢ_σ(i) of each pair.
        i: first index of each pair.
        j: second index; each occurs, as pairs of a matching are among them.
        of_y: v to begin with.
    """
    order = np.argsort(j, kind="stable")
    begins = np.searchsorted(j[order], np.arange(len(of_y)))
    partners, excess = partner[i[order]], excess[order]
    of_y = of_y - np.mean(of_y)
    for _ in range(MAX_SWEEPS):
        before, of_y = of_y, np.minimum.reduceat(of_y[partners] + excess, begins)
        if np.array_equal(before, of_y):
            break
    return of_y


def _lowest(
    x: np.ndarray, of_x: np.ndarray, y: np.ndarray, of_y: np.ndarray, count: int = 0, *, below: float = np.inf
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The least reduced cost of each x, and the pairs i, j of the `count` lowest ones of each x if they are `below`."""
    least, rows, columns = np.empty(len(x)), [np.zeros(0, dtype=int)], [np.zeros(0, dtype=int)]
    for begin, reduced in _reduced_costs(x, of_x, y, of_y):
        lowest = reduced.min(axis=1)
        least[begin : begin + len(reduced)] = lowest
        which = np.flatnonzero(lowest < below)
        if count == 0 or len(which) == 0:
            continue
        some = reduced[which]
        chosen = np.argpartition(some, min(count, len(y)) - 1, axis=1)[:, :count]
        kept = np.take_along_axis(some, chosen, axis=1) < below
        rows.append(begin + which[np.nonzero(kept)[0]])
        columns.append(chosen[kept])
    return least, np.concatenate(rows), np.concatenate(columns)


def _reduced_costs(
    x: np.ndarray, of_x: np.ndarray, y: np.ndarray, of_y: np.ndarray
) -> Iterator[tuple[int, np.ndarray]]:
    """‖xᵢ − yⱼ‖² − uᵢ − vⱼ for all j and a block of i at a time, with its first i: one product of matrices each."""
    left = np.column_stack([-2 * x, _squares(x) - of_x, np.ones(len(x))])
    right = np.column_stack([y, np.ones(len(y)), _squares(y) - of_y]).T
    size = max(BLOCK // len(y), 1)
    for begin in range(0, len(x), size):
        yield begin, left[begin : begin + size] @ right


def _squares(rows: np.ndarray) -> np.ndarray:
    return np.einsum("ij,ij->i", rows, rows)
