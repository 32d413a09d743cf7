"""A density of one or two variables on a grid that finds its own place: exact up to a stated error.

The density is taken as linear between the nodes (bilinear for p = 2), which is a mixture of one tent-shaped kernel at
each node: draws from it are a node and a triangular jitter, exact for the interpolated density.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from suffice.posterior import Posterior
from suffice.randomness import require_key
from suffice.requiring import require_whole

LogDensity = Callable[[Float[Array, " p"]], Float[Array, ""]]

COARSE = 65  # nodes an axis while the grid looks for its place
FINEST = 1025  # nodes an axis at the most
NEGLIGIBLE = 1e-7  # relative density below which a cell is left out of the box
MARGIN = 1e-6  # of the box's width, kept from a bound, at which a density may be undefined


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """A posterior tabulated on a grid (p ≤ 2): its density, its moments, and exact draws.

    Attributes:
        names: the parameters' names.
        axes: the nodes along each parameter.
        density: the normalised posterior density at the nodes.
        error: estimated total-variation distance between this density and the one it tabulates.
    """

    names: tuple[str, ...]
    axes: tuple[Float[np.ndarray, " nodes"], ...]
    density: Float[np.ndarray, "..."]
    error: float

    @classmethod
    def tabulate(
        cls,
        log_density: LogDensity,
        names: tuple[str, ...],
        box: Float[ArrayLike, "2 p"],
        limits: Float[ArrayLike, "2 p"],
        *,
        tolerance: float = 1e-3,
    ) -> "GridPosterior":
        """Tabulate the density ∝ exp(log_density(θ)) to within `tolerance` in total variation.

        The search begins in `box` (lower and upper corner), zooms in to where the mass is or moves out towards
        `limits` (which may be infinite) while mass lies at the border, then doubles the grid until it is fine enough.
        """
        box, limits = np.array(box, np.float64), np.array(limits, np.float64)
        if box.shape[1] > 2:
            raise ValueError(f"A grid holds at most 2 parameters, not {box.shape[1]}. Sample the posterior instead.")
        log_values = jax.jit(jax.vmap(log_density))
        box = _settle(log_values, box, limits)
        nodes = COARSE
        axes, values = _evaluate(log_values, box, nodes)
        while True:
            finer_axes, finer = _evaluate(log_values, box, 2 * nodes - 1)
            shift = finer.max()
            coarse_density = np.exp(values - shift)
            fine_density = np.exp(finer - shift)
            between = _interpolate_midpoints(coarse_density)
            weights = _trapezoid(finer_axes)
            scale_fine, scale_coarse = np.sum(weights * fine_density), np.sum(weights * between)
            change = 0.5 * np.sum(weights * np.abs(fine_density / scale_fine - between / scale_coarse))
            nodes, axes, values = 2 * nodes - 1, finer_axes, finer
            error = change / 3  # halving the spacing of a second-order rule leaves a third of the change
            if error < tolerance or nodes >= FINEST:
                break
        if error >= tolerance:
            warnings.warn(
                f"The grid of {nodes} nodes an axis, the finest there is, is still off by about {error:.1e} in "
                f"probability, which is more than the tolerance of {tolerance:.1e}.",
                stacklevel=3,
            )
        return cls(names, tuple(axes), fine_density / scale_fine, float(error))

    @cached_property
    def _masses(self) -> Float[np.ndarray, "..."]:
        return _trapezoid(self.axes) * self.density

    @property
    def draws(self) -> Float[np.ndarray, "1 n p"]:
        """The nodes, as draws of unequal weight."""
        return np.stack(np.meshgrid(*self.axes, indexing="ij"), axis=-1).reshape(1, -1, len(self.axes))

    @property
    def weights(self) -> Float[np.ndarray, "1 n"]:
        """The probability of each node."""
        return self._masses.reshape(1, -1)

    @property
    def mean(self) -> Float[np.ndarray, " p"]:
        """The posterior mean."""
        return self.weights[0] @ self.draws[0]

    @property
    def covariance(self) -> Float[np.ndarray, "p p"]:
        """The posterior covariance."""
        centred = self.draws[0] - self.mean
        return (self.weights[0][:, None] * centred).T @ centred

    @property
    def sd(self) -> Float[np.ndarray, " p"]:
        """The posterior standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    def log_prob(self, theta: Float[ArrayLike, "... p"]) -> Float[np.ndarray, "..."]:
        """The normalised log-density at θ, linear between the nodes; −∞ outside the box that holds the mass."""
        theta = np.asarray(theta, np.float64)
        density, inside = self.density, np.ones(theta.shape[:-1], bool)
        index, fraction = [], []
        for axis, value in zip(self.axes, np.moveaxis(theta, -1, 0), strict=True):
            position = (value - axis[0]) / (axis[1] - axis[0])
            inside &= (position >= 0) & (position <= len(axis) - 1)
            cell = np.clip(position.astype(int), 0, len(axis) - 2)
            index.append(cell)
            fraction.append(position - cell)
        total = np.zeros(theta.shape[:-1])
        for corner in np.ndindex(*(2,) * len(index)):
            share = np.prod([f if c else 1 - f for c, f in zip(corner, fraction, strict=True)], axis=0)
            total += share * density[tuple(i + c for i, c in zip(index, corner, strict=True))]
        with np.errstate(divide="ignore"):
            return np.where(inside, np.log(np.maximum(total, 0.0)), -np.inf)

    def resample(self, key: PRNGKeyArray, num: int) -> Posterior:
        """`num` independent draws from the tabulated density."""
        num = require_whole("num", num, 1)
        seed = np.asarray(jax.random.key_data(require_key(key)))
        generator = np.random.default_rng(seed)
        nodes = generator.choice(self._masses.size, size=num, p=(self._masses / self._masses.sum()).reshape(-1))
        columns = []
        for axis, index in zip(self.axes, np.unravel_index(nodes, self.density.shape), strict=True):
            jitter = generator.triangular(-1.0, 0.0, 1.0, num)
            jitter = np.where(index == 0, np.abs(jitter), jitter)
            jitter = np.where(index == len(axis) - 1, -np.abs(jitter), jitter)
            columns.append(axis[index] + (axis[1] - axis[0]) * jitter)
        return Posterior(np.stack(columns, axis=-1)[None], self.names)


def _settle(log_values: Callable[[Array], Array], box: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """The box that holds all mass but a negligible part: zoomed in, or moved out where mass lies at its border."""
    for attempt in range(50):
        _, values = _evaluate(log_values, box, COARSE)
        if not np.isfinite(values.max()):
            raise ValueError(
                f"The log-density is {values.max()} wherever it was tried in the box {box.tolist()}, but must be "
                "finite somewhere and infinite nowhere."
            )
        kept = np.argwhere(values > values.max() + np.log(NEGLIGIBLE))
        width = box[1] - box[0]
        spacing = width / (COARSE - 1)
        low, high = kept.min(0), kept.max(0)
        new = np.stack([box[0] + (low - 2) * spacing, box[0] + (high + 2) * spacing])
        stride = width * 2.0 ** min(attempt, 20)
        new[0] = np.where(low == 0, box[0] - stride, np.maximum(new[0], box[0]))
        new[1] = np.where(high == COARSE - 1, box[1] + stride, np.minimum(new[1], box[1]))
        new = np.clip(new, limits[0] + MARGIN * width, limits[1] - MARGIN * width)
        settled = np.all(np.abs(new - box) < 0.2 * width)
        box = new
        if settled:
            return box
    raise ValueError(f"No box was found that holds the mass of this density; the last one tried was {box.tolist()}.")


def _evaluate(log_values: Callable[[Array], Array], box: np.ndarray, nodes: int) -> tuple[list[np.ndarray], np.ndarray]:
    """The nodes along each axis of the box, and the log-density at every node."""
    axes = [np.linspace(low, high, nodes) for low, high in box.T]
    theta = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    dtype = jax.dtypes.canonicalize_dtype(float)
    rows = COARSE**2  # of every call, so that one compiled program serves all grids
    padded = np.resize(theta, (-(-len(theta) // rows) * rows, len(axes))).astype(dtype)
    pieces = [np.asarray(log_values(jnp.asarray(piece))) for piece in padded.reshape(-1, rows, len(axes))]
    values = np.concatenate(pieces)[: len(theta)].astype(np.float64)
    return axes, np.where(np.isnan(values), -np.inf, values).reshape((nodes,) * len(axes))


def _trapezoid(axes: tuple[np.ndarray, ...] | list[np.ndarray]) -> np.ndarray:
    """The volume that each node stands for."""
    sides = []
    for axis in axes:
        side = np.full(len(axis), axis[1] - axis[0])
        side[[0, -1]] /= 2
        sides.append(side)
    return np.multiply.outer(*sides) if len(sides) == 2 else sides[0]


def _interpolate_midpoints(values: np.ndarray) -> np.ndarray:
    """Values at the nodes of a grid twice as fine, linear between the given ones."""
    for axis in range(values.ndim):
        values = np.moveaxis(values, axis, 0)
        finer = np.empty((2 * len(values) - 1, *values.shape[1:]))
        finer[::2] = values
        finer[1::2] = 0.5 * (values[1:] + values[:-1])
        values = np.moveaxis(finer, 0, axis)
    return values
