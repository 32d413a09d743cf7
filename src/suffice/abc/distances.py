"""Distances between statistics: scaled Euclidean, Mahalanobis', or any function of two vectors."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

DEPENDENT = 1e-9  # least eigenvalue of a correlation matrix below which statistics count as linearly dependent


class Ruler(eqx.Module):
    """A distance made ready: ‖(s − s°) A‖ with the matrix A = `factor`, or a function of s and s°."""

    factor: Float[Array, "s s"]
    function: Callable[..., Any] | None = None
    traceable: bool = eqx.field(static=True, default=True)

    def __call__(self, statistics: Float[Array, "n s"], observed: Float[Array, "n s"]) -> Float[Array, " n"]:
        """The distance of each row of s from that of s°; JAX code."""
        if self.function is not None:
            return jax.vmap(self.function)(statistics, observed).astype(statistics.dtype)
        return jnp.linalg.norm((statistics - observed) @ self.factor, axis=1)

    def on_host(self, statistics: Float[np.ndarray, "n s"], observed: Float[np.ndarray, "n s"]) -> np.ndarray:
        """The same in numpy, row by row if the function is of the user's own."""
        if self.function is None:
            return np.linalg.norm((statistics - observed) @ np.asarray(self.factor), axis=1)
        rows = [self.function(one, other) for one, other in zip(statistics, observed, strict=True)]
        return np.asarray(rows, statistics.dtype).reshape(len(rows))


@runtime_checkable
class Fitted(Protocol):
    """A distance that is made ready on statistics of simulations from the prior."""

    def ruler(self, pilot: Float[np.ndarray, "n s"]) -> Ruler:
        """The distance, ready for use."""
        ...


@dataclass(frozen=True)
class Euclidean:
    """‖(s − s°)/σ‖, σ the spread of each statistic over fresh simulations from the prior (as in the paper).

    `scaled=False`: σ = 1.
    """

    scaled: bool = True

    def ruler(self, pilot: Float[np.ndarray, "n s"]) -> Ruler:
        """See `Fitted`."""
        spread = np.std(pilot, axis=0, dtype=np.float64) if self.scaled else np.ones(pilot.shape[1])
        return Ruler(jnp.asarray(np.diag(1.0 / spread), pilot.dtype))


@dataclass(frozen=True)
class Mahalanobis:
    """((s − s°)ᵀ Σ⁻¹ (s − s°))^{1/2}, Σ the covariance of the statistics over fresh simulations from the prior.

    It does not change when the statistics are mapped linearly: learned ones are known only up to such a map.
    """

    def ruler(self, pilot: Float[np.ndarray, "n s"]) -> Ruler:
        """See `Fitted`."""
        values = np.asarray(pilot, np.float64)
        spread = values.std(axis=0)
        correlation = np.atleast_2d(np.corrcoef(values, rowvar=False))
        eigenvalues, vectors = np.linalg.eigh(correlation)
        if eigenvalues[0] < DEPENDENT:
            partners = np.flatnonzero(np.abs(vectors[:, 0]) > 0.1).tolist()
            raise ValueError(
                f"The statistics {partners} are linearly dependent over {len(values)} simulations, so they have no "
                "Mahalanobis distance. Leave one of them out, or use distance=Euclidean()."
            )
        return Ruler(jnp.asarray((vectors / np.sqrt(eigenvalues)) / spread[:, None], pilot.dtype))


Distance = Fitted | Callable[..., Any]


def ruler_of(distance: Distance, pilot: Float[np.ndarray, "n s"]) -> Ruler:
    """The distance made ready on the statistics of these simulations; a user's function is tried out on them."""
    if isinstance(distance, Fitted):
        return distance.ruler(pilot)
    function = distance
    row = jax.ShapeDtypeStruct(pilot.shape[1:], pilot.dtype)
    factor = jnp.eye(pilot.shape[1], dtype=pilot.dtype)
    try:
        shape, traceable = jax.eval_shape(function, row, row).shape, True
    except Exception:
        traceable = False
        try:
            shape = np.shape(function(pilot[0], pilot[1]))
        except Exception as error:
            raise ValueError(
                f"The distance failed for two vectors of {pilot.shape[1]} statistics: {type(error).__name__}: {error}. "
                "It must be distance(statistics, observed) -> one number."
            ) from error
    if shape != ():
        raise ValueError(f"The distance returns an array of shape {shape}, but must return one number.")
    return Ruler(factor, function, traceable)
