"""The value every sampler ends in: draws of θ, with weights where they are not equal."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from suffice import storage
from suffice.convergence import Convergence, convergence
from suffice.randomness import require_key

if TYPE_CHECKING:
    from pandas import DataFrame


@storage.artefact
@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from a posterior.

    Attributes:
        draws: one θ for each chain and draw.
        weights: probabilities of the draws, summing to 1 over all; None when equal.
        names: the parameters' names.
        info: plain values and arrays about how the draws were made.
    """

    draws: Float[np.ndarray, "chain draw p"]
    names: tuple[str, ...]
    weights: Float[np.ndarray, "chain draw"] | None = None
    info: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "posterior"
    version: ClassVar[int] = 1

    def __repr__(self) -> str:
        chains, draws, _ = self.draws.shape
        weighted = "" if self.weights is None else "weighted "
        return f"Posterior({chains} × {draws} {weighted}draws of {', '.join(self.names)})"

    @property
    def flat(self) -> Float[np.ndarray, "n p"]:
        """All draws in one row each, chains one after another."""
        return self.draws.reshape(-1, self.draws.shape[-1])

    @property
    def flat_weights(self) -> Float[np.ndarray, " n"]:
        """The probability of each row of `flat`."""
        n = len(self.flat)
        return np.full(n, 1.0 / n) if self.weights is None else self.weights.reshape(-1)

    @property
    def mean(self) -> Float[np.ndarray, " p"]:
        """The posterior mean."""
        return np.average(self.flat, axis=0, weights=self.flat_weights)

    @property
    def covariance(self) -> Float[np.ndarray, "p p"]:
        """The posterior covariance."""
        return np.atleast_2d(np.cov(self.flat, rowvar=False, aweights=self.flat_weights, bias=True))

    @property
    def sd(self) -> Float[np.ndarray, " p"]:
        """The posterior standard deviations."""
        return np.sqrt(np.diag(self.covariance))

    @cached_property
    def convergence(self) -> Convergence:
        """R-hat, effective sample sizes and Monte Carlo standard errors of each parameter.

        Weighted draws have no R-hat; their effective size is 1/Σw², in the bulk as in the tails.
        """
        if self.weights is None:
            return convergence(self.draws)
        p = len(self.names)
        size = np.full(p, 1.0 / np.sum(self.flat_weights**2))
        return Convergence(np.full(p, np.nan), size, size, self.sd / np.sqrt(size), self.sd / np.sqrt(2 * size))

    def quantile(self, levels: float | Sequence[float]) -> Float[np.ndarray, "..."]:
        """The quantiles of each parameter, (p,) or (level, p)."""
        order = np.argsort(self.flat, axis=0)
        values = np.take_along_axis(self.flat, order, axis=0)
        mass = np.cumsum(self.flat_weights[order], axis=0) - 0.5 * self.flat_weights[order]
        found = [np.interp(levels, mass[:, i], values[:, i]) for i in range(len(self.names))]
        return np.stack(found, axis=-1)

    def summary(self) -> "DataFrame":
        """A table, one row a parameter: mean, sd, quantiles, and how well they are known."""
        from pandas import DataFrame

        low, median, high = self.quantile((0.05, 0.5, 0.95))
        columns = {"mean": self.mean, "sd": self.sd, "5%": low, "50%": median, "95%": high}
        return DataFrame(columns | self.convergence._asdict(), index=list(self.names))

    def resample(self, key: PRNGKeyArray, num: int) -> "Posterior":
        """`num` draws of equal weight, in one chain, drawn with replacement by their weights."""
        rows = jax.random.choice(require_key(key), len(self.flat), (num,), p=np.asarray(self.flat_weights))
        return type(self)(self.flat[np.asarray(rows)][None], self.names, info=self.info)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to one file; `suffice.load` reads it."""
        return storage.save(self, path)

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See `storage.Artefact`."""
        arrays = {f"info/{name}": value for name, value in self.info.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in self.info.items() if not isinstance(value, np.ndarray)}
        arrays["draws"] = self.draws
        if self.weights is not None:
            arrays["weights"] = self.weights
        return {"names": list(self.names), "info": plain}, arrays

    @classmethod
    def from_archive(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Posterior":
        """See `storage.Artefact`."""
        info = manifest["info"] | {
            name.removeprefix("info/"): value for name, value in arrays.items() if name.startswith("info/")
        }
        return cls(arrays["draws"], tuple(manifest["names"]), arrays.get("weights"), info)
