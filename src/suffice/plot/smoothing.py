"""Smooth densities of draws that may pile up at an edge of the prior."""

import numpy as np
from jaxtyping import Float
from scipy.stats import gaussian_kde

NODES = 60  # of the grid that a density is drawn on, along each parameter
BEYOND = 20  # nodes beyond either end whose density is folded back


def density(
    rows: Float[np.ndarray, "n k"], weights: Float[np.ndarray, " n"]
) -> tuple[list[Float[np.ndarray, " nodes"]], Float[np.ndarray, "..."]]:
    """A Gaussian kernel estimate between the least and the largest draw: the grid of each parameter, and the heights.

    What the kernels carry beyond either end is folded back: otherwise a density cut off by its prior would seem to
    fall towards the edge, while one that runs out by itself has nothing there to fold.

    >>> grid, heights = density(np.linspace(0, 1, 200)[:, None], np.full(200, 1 / 200))
    >>> bool(np.all(np.abs(heights - 1) < 0.05))
    True
    """
    low, high = rows.min(axis=0), rows.max(axis=0)
    width = (high - low) / NODES
    middles = [
        start + step * (np.arange(-BEYOND, NODES + BEYOND) + 0.5) for start, step in zip(low, width, strict=True)
    ]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*middles, indexing="ij")])
    heights = gaussian_kde(rows.T, weights=weights)(points).reshape([len(axis) for axis in middles])
    for axis in range(heights.ndim):
        heights = np.moveaxis(_folded(np.moveaxis(heights, axis, 0)), 0, axis)
    grids = [
        np.concatenate([[start], axis[BEYOND:-BEYOND], [end]])
        for start, axis, end in zip(low, middles, high, strict=True)
    ]
    return grids, np.pad(heights, 1, mode="edge")


def highest(heights: Float[np.ndarray, "..."], level: float) -> float:
    """The height above which a region of highest density holds `level` of the mass."""
    inner = np.sort(heights[(slice(1, -1),) * heights.ndim], axis=None)[::-1]
    upto = np.cumsum(inner)
    return float(inner[np.searchsorted(upto, level * upto[-1])])


def _folded(heights: Float[np.ndarray, "nodes ..."]) -> Float[np.ndarray, "inner ..."]:
    """The inner nodes, with what lies beyond either end mirrored onto them."""
    inner = heights[BEYOND:-BEYOND].copy()
    inner[:BEYOND] += heights[:BEYOND][::-1]
    inner[-BEYOND:] += heights[-BEYOND:][::-1]
    return inner
