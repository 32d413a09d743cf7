"""Statistics of data to compare by, besides learned ones."""

from dataclasses import dataclass

import jax.numpy as jnp
from jaxtyping import Array, Float


@dataclass(frozen=True)
class Autocovariances:
    """Σₜ xₜ xₜ₊ₗ / (T − l) for each lag l, not centred: of a series (T,), or of each variable of one (T, K).

    >>> Autocovariances((1, 2))(jnp.array([1.0, 2.0, 3.0, 4.0])).tolist()
    [6.666666507720947, 5.5]
    """

    lags: tuple[int, ...] = (1, 2)

    def __post_init__(self) -> None:
        if not self.lags or any(isinstance(lag, bool) or not isinstance(lag, int) or lag < 0 for lag in self.lags):
            raise ValueError(f"lags is {self.lags!r}, but must be one or more whole numbers, 0 or above.")

    def __call__(self, x: Float[Array, "..."]) -> Float[Array, " s"]:
        """The autocovariances, lag by lag."""
        steps = len(x)
        if max(self.lags) >= steps:
            raise ValueError(f"The lags {self.lags} reach beyond a series of {steps} steps. Give smaller ones.")
        values = [jnp.sum(x[: steps - lag] * x[lag:], axis=0) / (steps - lag) for lag in self.lags]
        return jnp.concatenate([jnp.atleast_1d(value) for value in values])


def autocovariances(lags: tuple[int, ...] = (1, 2)) -> Autocovariances:
    """The statistics `Autocovariances(lags)`: lags 1 and 2 are what the paper compares AR(2) and MA(2) series by."""
    return Autocovariances(lags)
