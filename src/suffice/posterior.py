"""The value every sampler ends in: draws of θ, with weights where they are not equal."""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from suffice import storage
from suffice.convergence import Convergence, convergence, from_groups
from suffice.errors import SimulationWarning
from suffice.model import Model
from suffice.randomness import require_key
from suffice.requiring import require_whole
from suffice.simulation import Status, Where, simulate_at

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

    def interval(self, level: float = 0.9) -> Float[np.ndarray, "2 p"]:
        """Lower and upper ends of the equal-tailed credible interval of each parameter that holds `level`."""
        if not 0 < level < 1:
            raise ValueError(f"level is {level!r}, but must be a probability between 0 and 1, such as 0.9.")
        return self.quantile((0.5 - level / 2, 0.5 + level / 2))

    def summary(self) -> "DataFrame":
        """A table, one row a parameter: mean, sd, quantiles, and how well they are known."""
        from pandas import DataFrame

        low, median, high = self.quantile((0.05, 0.5, 0.95))
        columns = {"mean": self.mean, "sd": self.sd, "5%": low, "50%": median, "95%": high}
        return DataFrame(columns | self.convergence._asdict(), index=list(self.names))

    def resample(self, key: PRNGKeyArray, num: int) -> "Posterior":
        """`num` draws of equal weight, in one chain, drawn with replacement by their weights."""
        shape = (require_whole("num", num, 1),)
        rows = jax.random.choice(require_key(key), len(self.flat), shape, p=np.asarray(self.flat_weights))
        return type(self)(self.flat[np.asarray(rows)][None], self.names, info=self.info)

    def thinned(self, num: int) -> "Posterior":
        """`num` draws of equal weight, in one chain, without chance: evenly spaced along the chains.

        Weighted draws are chosen systematically: draw i about `num` × weight i times.
        """
        rows = self._even_rows(require_whole("num", num, 1))
        return type(self)(self.flat[rows][None], self.names, info=self.info)

    def predictive(
        self,
        key: PRNGKeyArray,
        model: Model,
        num: int | None = None,
        *,
        replicates: int | None = None,
        executor: Where = None,
    ) -> Float[np.ndarray, "n ..."]:
        """Simulations of x from the posterior predictive, one row each.

        Args:
            key: decides the simulations.
            model: what simulates.
            num: simulations, one at each of as many `thinned` draws; if not given, one at each draw in the order of
                `flat` (weighted draws are thinned to as many equal ones).
            replicates: iid replicates of x at each θ, along a second axis.
            executor: where simulators that are no JAX code run, as for `simulate`.
        """
        if model.names != self.names:
            raise ValueError(f"The model has parameters {model.names}, but this posterior is of {self.names}.")
        theta = self.thinned(len(self.flat) if num is None else num).flat
        rows = theta if replicates is None else np.repeat(theta, replicates, axis=0)
        pairs = simulate_at(require_key(key), model, rows, executor=executor)
        failed = int(np.sum(np.asarray(pairs.status) != Status.GOOD))
        if failed:
            warnings.warn(
                f"Of {len(rows)} predictive simulations {failed} are not finite or leave the declared support. They "
                "are among the rows as they came.",
                SimulationWarning,
                stacklevel=2,
            )
        x = np.asarray(pairs.x)
        return x if replicates is None else x.reshape(len(theta), replicates, *x.shape[1:])

    def to_pandas(self) -> "DataFrame":
        """A table, one row a draw: chain, draw, the parameters, and the weight where they are not equal."""
        from pandas import DataFrame

        chain, draw = np.indices(self.draws.shape[:2]).reshape(2, -1)
        columns = {"chain": chain, "draw": draw} | dict(zip(self.names, self.flat.T, strict=True))
        return DataFrame(columns if self.weights is None else columns | {"weight": self.flat_weights})

    def to_arviz(self, predictive: Float[np.ndarray, "n ..."] | None = None) -> Any:
        """For arviz: an `InferenceData` (0.x) or a `DataTree` (1.x).

        Groups: `posterior`, one variable a parameter; `sample_stats`, what `info` has for each draw; `observed_data`;
        `posterior_predictive`, if given as `predictive(key, model)` makes it, one row a draw.

        arviz knows no weights: weighted draws become equal ones by systematic resampling (see `thinned`), in one
        chain; their order is then no longer that of any `predictive`, so make that from `thinned` draws.
        """
        if self.weights is not None:
            if predictive is not None:
                raise ValueError(
                    "arviz knows no weights, so the draws must be made equal before they are predicted from: "
                    "equal = posterior.thinned(n); equal.to_arviz(equal.predictive(key, model))."
                )
            return self.thinned(len(self.flat)).to_arviz()
        shape = self.draws.shape[:2]
        groups = {"posterior": {name: self.draws[..., i] for i, name in enumerate(self.names)}}
        stats = {
            name: value for name, value in self.info.items() if isinstance(value, np.ndarray) and value.shape == shape
        }
        groups |= {"sample_stats": stats} if stats else {}
        groups |= {"observed_data": {"x": np.asarray(self.info["observed"])}} if "observed" in self.info else {}
        if predictive is not None:
            if len(predictive) != len(self.flat):
                raise ValueError(
                    f"There are {len(predictive)} predictions for {len(self.flat)} draws: give one for each, as "
                    "posterior.predictive(key, model) does."
                )
            groups["posterior_predictive"] = {"x": predictive.reshape(*shape, *predictive.shape[1:])}
        return from_groups(groups)

    def _even_rows(self, num: int) -> Int[np.ndarray, " num"]:
        """Rows of `flat` that hold equal shares of the weight, `num` of them."""
        points = (np.arange(num) + 0.5) / num
        if self.weights is None:
            return (points * len(self.flat)).astype(int)
        upto = np.cumsum(self.flat_weights)
        return np.minimum(np.searchsorted(upto / upto[-1], points), len(self.flat) - 1)

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
