"""Rejection ABC: of many simulations from the prior, those nearest to the observation."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from suffice.abc.adjustment import Draws
from suffice.abc.assembling import assemble
from suffice.abc.distances import Ruler
from suffice.abc.measuring import NUMBERS, Measure, Measured
from suffice.abc.settings import AbcSettings, Request, distances
from suffice.errors import ModelError, SamplingError
from suffice.posterior import Posterior
from suffice.progress import bar
from suffice.simulation import Simulations
from suffice.simulation.executors import available_cores

CHUNK = 8192  # simulations made at once, at most


@dataclass(frozen=True, eq=False)
class Rejection(AbcSettings):
    """The simulations from the prior whose statistics are nearest to the observed ones.

    One table of simulations serves all observations: given `simulations`, such as those of a fit, nothing is simulated
    and the distance is scaled on them; else `budget` simulations are made. `num_draws` and `num_chains` of `sample`
    are ignored: there is one chain of the simulations that were kept.

    Args:
        simulations: pairs (θ, x) of the model to choose from.
        quantile: the share of simulations to keep.
        tolerance: keep all within this distance, instead of a share.
        budget: simulations to make, `scale_simulations` included, where none are given.

    >>> import jax, suffice as sf
    >>> from suffice.abc import Rejection
    >>> model = sf.zoo.gaussian()
    >>> sims = sf.simulate(jax.random.key(0), model, 20_000)
    >>> method = Rejection(model, model.sufficient_statistics, sims, adjust=True)
    >>> sf.sample(jax.random.key(1), method, sims.x[0])
    Posterior(1 × 200 weighted draws of mu, sigma)
    """

    simulations: Simulations | None = None
    quantile: float = 0.01
    budget: int | None = field(default=100_000, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.quantile <= 1.0:
            raise ValueError(f"quantile is {self.quantile!r}, but must be a share between 0 and 1.")
        if self.acceptance_floor:
            raise ValueError("Rejection has no acceptance_floor: its simulations are what they are. Leave it out.")
        if self.simulations is None:
            if self.budget is None:
                raise ValueError("Rejection has neither simulations nor a budget to make them. Give one of them.")
            self.require_budget(10)
        elif self.simulations.names != self.model.names or self.simulations.x.shape[1:] != self.model.data_shape:
            raise ModelError(
                f"The given simulations have parameters {self.simulations.names} and x of shape "
                f"{self.simulations.x.shape[1:]}, but the model has {self.model.names} and {self.model.data_shape}. "
                "Give simulations of this model."
            )

    def sample_each(self, key: PRNGKeyArray, observations: Float[np.ndarray, "n ..."], run: Request) -> list[Posterior]:
        """See `Method`."""
        key_scale, key_table = jax.random.split(key)
        began = time.monotonic()
        if self.simulations is not None:
            table = self._given()
            ruler, observed = self.ready(table.measure, table.statistics, observations)
        else:
            prepared = self.prepare(key_scale, observations, run)
            table = self._made(key_table, prepared.measure, run, began)
            ruler, observed = prepared.ruler, prepared.observed
            table = table._replace(spent=table.spent + prepared.simulations, failed=table.failed + prepared.failed)
        return [self._posterior(table, ruler, row, began, len(observed)) for row in observed]

    def _given(self) -> "Table":
        """The statistics of the given simulations."""
        sims = self.simulations
        assert sims is not None
        good = sims.good
        measure = Measure.of(self.model, self.statistics, good.x[0], self.executor)
        size = max(1, min(CHUNK, NUMBERS // self.model.data_size))
        parts = [measure.of_data(good.x[start : start + size]) for start in range(0, len(good), size)]
        values = np.concatenate([part.statistics for part in parts])
        return Table(measure, good.theta, values, 0, len(sims) - len(good), "simulations")

    def _made(self, key: PRNGKeyArray, measure: Measure, run: Request, began: float) -> "Table":
        """Simulations from the prior, in chunks, until the budget or the time is used up."""
        assert self.budget is not None
        num = self.budget - self.scale_simulations
        size = max(1, min(CHUNK, NUMBERS // self.model.data_size, num))
        sizes = [min(size, num - start) for start in range(0, num, size)]
        thetas, values, spent, failed, stopped = [], [], 0, 0, "budget"
        with bar(num, "simulating", show=run.progress) as advance:
            for made, theta, measured in _chunks(key, measure, sizes):
                good = np.asarray(measured.good)
                thetas.append(theta[good])
                values.append(np.asarray(measured.statistics)[good])
                spent, failed = spent + made, failed + int(np.sum(~good))
                advance(made)
                if self.seconds is not None and time.monotonic() - began > self.seconds and spent < num:
                    stopped = "time"
                    break
        return Table(measure, np.concatenate(thetas), np.concatenate(values), spent, failed, stopped)

    def _posterior(
        self, table: "Table", ruler: Ruler, observed: Float[np.ndarray, " s"], began: float, observations: int
    ) -> Posterior:
        distance = distances(ruler, table.statistics, observed)
        distance = np.where(np.isnan(distance), np.inf, distance)
        if self.tolerance is None:
            kept = np.sort(np.argsort(distance, stable=True)[: max(1, int(self.quantile * len(distance)))])
        else:
            kept = np.flatnonzero(distance <= self.tolerance)
        if len(kept) < 2:
            raise SamplingError(
                f"Only {len(kept)} of {len(distance)} simulations are near enough; the nearest is at distance "
                f"{np.min(distance):.4g}. Raise the tolerance or quantile, or simulate more."
            )
        tolerance = float(np.max(distance[kept])) if self.tolerance is None else float(self.tolerance)
        theta, total = table.theta[kept], len(distance) + table.failed
        info: dict[str, Any] = {
            "method": type(self).__name__,
            "simulations": table.spent,
            "reused_simulations": 0 if self.simulations is None else len(self.simulations),
            "failed": table.failed,
            "stopped": table.stopped,
            "seconds": time.monotonic() - began,
            "observations": observations,
            "tolerance": tolerance,
            "acceptance_rate": len(kept) / total,
            "history_tolerance": np.array([tolerance]),
            "history_acceptance": np.array([len(kept) / total]),
            "history_simulations": np.array([table.spent]),
        }
        if self.keep_history:
            info["history_theta"] = theta[None]
        draws = Draws(theta, np.ones(len(kept)), table.statistics[kept], distance[kept])
        return assemble(self, draws, observed, info, weighted=bool(self.adjust))


class Table(NamedTuple):
    """Simulations that went well, with their statistics; how many were made, how many failed, and what ended them."""

    measure: Measure
    theta: Float[np.ndarray, "n p"]
    statistics: Float[np.ndarray, "n s"]
    spent: int
    failed: int
    stopped: str


def _chunks(key: PRNGKeyArray, measure: Measure, sizes: list[int]) -> Iterator[tuple[int, np.ndarray, Any]]:
    """Chunks of simulations from the prior, some at a time, as many as there are cores."""
    double = jax.enable_x64.value  # a thread does not inherit it

    def one(number: int) -> tuple[int, np.ndarray, Any]:
        with jax.enable_x64(double):
            kept, made = sizes[number], sizes[0] if measure.traceable else sizes[number]  # compiled for one size
            theta, measured = measure.from_prior(jax.random.fold_in(key, number), made)
            return kept, theta[:kept], Measured(*(np.asarray(part)[:kept] for part in measured))

    at_once = available_cores() if measure.traceable else 1
    with ThreadPoolExecutor(at_once) as pool:
        for start in range(0, len(sizes), at_once):
            yield from pool.map(one, range(start, min(start + at_once, len(sizes))))
