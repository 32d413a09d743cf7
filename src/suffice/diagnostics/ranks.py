"""Ranks that should be uniform: their distribution function, the band it stays in, and exact tests.

A truth ranked among L independent draws of a right posterior has each of the ranks 0…L equally often (Talts et al.,
2018). Over n simulations the counts at or below the levels z then stay within a band at all levels at once with a
stated probability (Säilynoja, Bürkner and Vehtari, 2022); here that probability is computed exactly.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from jaxtyping import Float, Int
from scipy import stats

PER_BIN = 10  # ranks that a bin of a histogram should expect, at least
MOST_BINS = 20


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks of true values among draws, one row a simulation and one column a quantity.

    Attributes:
        ranks: from 0 (below all draws) to `num_draws` (above all).
        num_draws: L, how many independent draws each truth was ranked among.
        names: what each column is a rank of.
        level: the error rate of the bands and tests of one column.
    """

    ranks: Int[np.ndarray, "n q"]
    num_draws: int
    names: tuple[str, ...]
    level: float = 0.05

    @property
    def levels(self) -> Float[np.ndarray, " levels"]:
        """z: the probabilities of ranks below 1, 2, …, L."""
        return np.arange(1, self.num_draws + 1) / (self.num_draws + 1)

    @cached_property
    def below(self) -> Int[np.ndarray, "levels q"]:
        """How many of the ranks are below 1, 2, …, L."""
        return np.sum(self.ranks[None] < np.arange(1, self.num_draws + 1)[:, None, None], axis=1)

    @property
    def ecdf(self) -> Float[np.ndarray, "levels q"]:
        """The share of ranks below, at each level: near the level itself."""
        return self.below / len(self.ranks)

    @property
    def band(self) -> Float[np.ndarray, "2 levels"]:
        """Where the `ecdf` of uniform ranks stays, at all levels at once, but for `level` of the time."""
        return simultaneous_band(len(self.ranks), self.num_draws + 1, self.level) / len(self.ranks)

    @property
    def bins(self) -> int:
        """Bins of a histogram in which each rank counts alike."""
        most = max(2, min(MOST_BINS, len(self.ranks) // PER_BIN))
        return max(bins for bins in range(1, most + 1) if (self.num_draws + 1) % bins == 0)

    @property
    def histogram(self) -> Int[np.ndarray, "bins q"]:
        """Counts of ranks in `bins` bins of as many ranks each."""
        bin_of = self.ranks * self.bins // (self.num_draws + 1)
        return np.sum(bin_of[None] == np.arange(self.bins)[:, None, None], axis=1)

    @cached_property
    def ecdf_p_values(self) -> Float[np.ndarray, " q"]:
        """The probability under uniformity that the `ecdf` strays as far as it does, at its worst level."""
        return np.array([_excursion_p_value(self.below[:, i], len(self.ranks)) for i in range(len(self.names))])

    @cached_property
    def chi2_p_values(self) -> Float[np.ndarray, " q"]:
        """Pearson's χ² test of the histogram."""
        return np.atleast_1d(stats.chisquare(self.histogram, axis=0).pvalue)

    @property
    def location(self) -> Float[np.ndarray, " q"]:
        """By how many of its own spreads the truths lie above (+) or below (−) the centre of the posterior."""
        return self._normal_scores.mean(axis=0)

    @property
    def spread(self) -> Float[np.ndarray, " q"]:
        """How wide the truths are spread, 1 being as wide as the posterior says."""
        scores = self._normal_scores
        return scores.std(axis=0) / stats.norm.ppf(self._middles(np.arange(self.num_draws + 1))).std()

    @property
    def _normal_scores(self) -> Float[np.ndarray, "n q"]:
        return stats.norm.ppf(self._middles(self.ranks))

    def _middles(self, ranks: np.ndarray) -> np.ndarray:
        return (ranks + 0.5) / (self.num_draws + 1)


@lru_cache(maxsize=32)
def simultaneous_band(num: int, cells: int, level: float) -> Int[np.ndarray, "2 levels"]:
    """The band of counts that `num` uniform values leave with probability at most `level`.

    At each level z = k/`cells`, k < `cells`, the same tail of the binomial distribution is cut off on both sides:
    the largest that keeps the whole path inside often enough.
    """
    lowest, highest = 1e-12, 1.0
    while highest / lowest > 1.001:
        middle = np.sqrt(lowest * highest)
        if path_probability(_region(num, cells, middle), num) >= 1 - level:
            lowest = middle
        else:
            highest = middle
    return _region(num, cells, lowest)


def path_probability(region: Int[np.ndarray, "2 levels"], num: int) -> float:
    """The probability that counts of `num` uniform values at levels k/(levels + 1) all stay within the region.

    Counts of successive cells are those of a Poisson process with `num` points in all, given that there are as many.
    """
    cells = region.shape[1] + 1
    steps = stats.poisson.pmf(np.arange(num + 1), num / cells)
    steps = steps[: np.flatnonzero(steps > 1e-18).max() + 1]
    reached, first = np.ones(1), 0  # the probability of each count so far, from count `first` on
    for low, high in (*region.T, (num, num)):
        spread = np.convolve(reached, steps)
        counts = np.arange(low, high + 1) - first
        valid = (counts >= 0) & (counts < len(spread))
        reached = np.where(valid, spread[np.clip(counts, 0, len(spread) - 1)], 0.0)
        first = low
    return float(reached[0] / stats.poisson.pmf(num, num))


def _excursion_p_value(below: Int[np.ndarray, " levels"], num: int) -> float:
    cells = len(below) + 1
    lower, upper = _tails(num, cells)
    columns = np.arange(len(below))
    tail = 2 * min(lower[below, columns].min(), upper[below, columns].min())
    return float(np.clip(1 - path_probability(_region(num, cells, tail), num), 0.0, 1.0))


def _region(num: int, cells: int, tail: float) -> Int[np.ndarray, "2 levels"]:
    """At each level the counts whose two-sided binomial tail is larger than `tail`."""
    lower, upper = _tails(num, cells)
    low = np.argmax(lower > tail / 2, axis=0)
    high = num - np.argmax(upper[::-1] > tail / 2, axis=0)
    return np.stack([low, np.maximum(high, low)])


@lru_cache(maxsize=32)
def _tails(num: int, cells: int) -> tuple[Float[np.ndarray, "counts levels"], Float[np.ndarray, "counts levels"]]:
    """The probabilities of at most, and of at least, each count at each level."""
    counts, levels = np.arange(num + 1)[:, None], np.arange(1, cells) / cells
    return stats.binom.cdf(counts, num, levels), stats.binom.sf(counts - 1, num, levels)
