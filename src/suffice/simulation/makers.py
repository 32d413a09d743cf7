"""The two ways in which simulations are made: compiled blocks of JAX code, and child processes for anything else."""

import itertools
import os
import time
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from suffice.charts import Chart
from suffice.errors import ModelError
from suffice.model import Model, worker
from suffice.randomness import key_from_record, key_record
from suffice.simulation import seeds
from suffice.simulation.blocks import LANES, Pairs, max_groups, simulate_block
from suffice.simulation.dispatch import Made, Maker, failed_rows
from suffice.simulation.executors import Shipped
from suffice.simulation.simulations import Status

MOST_ROWS = 5000  # in one task of an external simulator
_runs = itertools.count()


def maker_of(key: PRNGKeyArray, model: Model, seconds: float = 0.0) -> Maker:
    """How the simulations of the run with `key` are made."""
    return Compiled(key, model, seconds) if model.traceable else Outside(model, partial(seeds.draws, key, model))


class Compiled:
    """JAX code: whole groups of simulations in this process, or in workers that have suffice too."""

    unit = LANES

    def __init__(self, key: PRNGKeyArray, model: Model, seconds: float) -> None:
        self.key, self.model, self.seconds = key, model, seconds
        self.most = max_groups(model) * LANES
        self.double = jax.enable_x64.value  # neither a thread nor another process inherits it
        self.packed = b""

    def task(self, rows: range, *, local: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """See `Maker`."""
        if local:
            return _block, (self.model, self.key, rows, self.double)
        self.packed = self.packed or _packed(self.model, self.key)
        return _remote_block, (self.packed, rows, self.double)

    def made(self, rows: range, answer: tuple[Pairs, float]) -> Made:
        """See `Maker`."""
        theta, x, status = (np.asarray(part) for part in answer[0])
        seconds = answer[1]
        each = np.full(len(rows), seconds / len(rows), np.float32)
        return Made(np.asarray(theta), np.asarray(x), np.asarray(status), each, [])

    def lost(self, rows: range, reason: str) -> Made:
        """See `Maker`."""
        theta = seeds.draws(self.key, self.model, rows).theta
        return failed_rows(theta, self.model.data_shape, theta.dtype, reason)

    def stop(self) -> None:
        """See `Maker`: a block ends by itself."""


def _block(model: Model, key: PRNGKeyArray, rows: range, double: bool) -> tuple[Pairs, float]:  # noqa: FBT001
    began = time.perf_counter()
    first = rows.start // LANES
    with jax.enable_x64(double):
        block = simulate_block(model, key, np.int64(first), np.int64(-(-rows.stop // LANES) - first))
    kept = slice(rows.start - first * LANES, rows.stop - first * LANES)
    return Pairs(*(np.asarray(part)[kept] for part in block)), time.perf_counter() - began


def _remote_block(packed: bytes, rows: range, double: bool) -> tuple[Pairs, float]:  # noqa: FBT001
    return _block(*_unpacked(packed), rows, double)


def _packed(model: Model, key: PRNGKeyArray) -> bytes:
    """What simulates, as it is sent to other processes."""
    try:
        return cloudpickle.dumps((model.prior, model.simulator, model.support, key_record(key)))
    except Exception as error:
        raise ModelError(
            f"This model cannot be sent to another process ({type(error).__name__}: {error}). Leave `executor` out: "
            "JAX code uses all cores of this one."
        ) from error


@lru_cache(maxsize=4)
def _unpacked(packed: bytes) -> tuple[Model, PRNGKeyArray]:
    """The same model for the same bytes, so that it is compiled once in a worker."""
    prior, simulator, support, record = cloudpickle.loads(packed)
    return Model(prior, simulator, support=support), key_from_record(record)


class Outside:
    """A Python function or a command: child processes, see `suffice.model.worker`."""

    unit = 1
    most = MOST_ROWS
    seconds = 0.0

    def __init__(self, model: Model, draw: Callable[[range], seeds.Draws]) -> None:
        assert model.outside is not None
        self.model, self.draw = model, draw
        self.run = f"{os.getpid()}-{next(_runs)}"
        self.job = model.outside.job(model.names, model.data_shape, self.run)
        self.shipped: Shipped | None = None

    def task(self, rows: range, *, local: bool) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """See `Maker`."""
        theta, seed = self.draw(rows)
        if local:
            return worker.run_chunk, (tuple(self.job), theta, seed)
        self.shipped = self.shipped or Shipped()
        return self.shipped, (tuple(self.job), theta, seed)

    def made(self, rows: range, answer: list[tuple[Any, ...]]) -> Made:
        """See `Maker`."""
        outcomes = [worker.Outcome(*fields) for fields in answer]
        x = np.full((len(rows), *self.model.data_shape), np.nan, self.job.dtype)
        for row, outcome in zip(x, outcomes, strict=True):
            if outcome.x is not None:
                row[...] = outcome.x
        status = np.array([outcome.status for outcome in outcomes], np.int8)
        status[(status == Status.GOOD) & ~inside(self.model, x)] = Status.OUTSIDE_SUPPORT
        seconds = np.array([outcome.seconds for outcome in outcomes], np.float32)
        return Made(self.draw(rows).theta, x, status, seconds, [outcome.error for outcome in outcomes])

    def lost(self, rows: range, reason: str) -> Made:
        """See `Maker`."""
        return failed_rows(self.draw(rows).theta, self.model.data_shape, self.job.dtype, reason)

    def stop(self) -> None:
        """See `Maker`."""
        worker.stop(self.run)


def inside(model: Model, x: np.ndarray) -> np.ndarray:
    """Whether each row of x lies strictly inside the model's support."""
    firsts = range(0, len(x), LANES)
    filled = np.resize(x, (len(firsts) * LANES, *x.shape[1:]))
    return np.concatenate([np.asarray(_inside(model, filled[first : first + LANES])) for first in firsts])[: len(x)]


@partial(jax.jit, static_argnames="model")
def _inside(model: Model, x: Array) -> Array:
    chart = Chart.unscaled(model.support, model.data_shape)
    return jax.vmap(lambda row: jnp.all(chart.inside(row)))(x)
