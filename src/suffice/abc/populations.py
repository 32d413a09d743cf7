"""Particle samplers for many observations: from the prior's simulations to a posterior with its history.

Observations are independent runs of one compiled program, shared out to one thread a core; an external simulator runs
them one after another.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from suffice.abc.adjustment import Draws
from suffice.abc.assembling import assemble
from suffice.abc.driving import Course, Problem, Record, Rules, Scheme, drive, settled
from suffice.abc.settings import AbcSettings, Prepared, Request, distances, from_prior
from suffice.abc.space import Space
from suffice.posterior import Posterior
from suffice.progress import Advance, bar
from suffice.simulation.executors import available_cores


@runtime_checkable
class PopulationScheme(Scheme, Protocol):
    """An algorithm that begins with a population from the prior."""

    @property
    def particles(self) -> int:
        """The size of the population."""
        ...

    @property
    def replicates(self) -> int:
        """Simulations of each particle."""
        ...

    def begin(
        self,
        space: Space,
        theta: Float[Array, "n p"],
        statistics: Float[Array, "m s"],
        distance: Float[Array, " m"],
        least: Float[Array, ""],
    ) -> tuple[PyTree, Record]:
        """The first state; each θ has `replicates` simulations, one after another. `least`: tolerance to reach."""
        ...


def sample_populations(
    key: PRNGKeyArray,
    settings: AbcSettings,
    scheme: PopulationScheme,
    observations: Float[np.ndarray, "n ..."],
    run: Request,
    iterations: int,
) -> list[Posterior]:
    """A posterior for each observation, of as many draws as particles."""
    key_scale, key_runs = jax.random.split(key)
    prepared = settings.prepare(key_scale, observations, run)
    traceable = prepared.measure.traceable and prepared.ruler.traceable
    double = jax.enable_x64.value  # a thread does not inherit it
    with bar(len(observations) * iterations, "sampling", show=run.progress) as advance:

        def one(row: int) -> Posterior:
            with jax.enable_x64(double):
                key = jax.random.fold_in(key_runs, row)
                return _one(key, settings, scheme, prepared, row, iterations, advance)

        return _each(one, len(observations), parallel=traceable)


def _each(one: Callable[[int], Posterior], count: int, *, parallel: bool) -> list[Posterior]:
    """All of them; the first goes ahead, so that it compiles once."""
    first = one(0)
    rest = range(1, count)
    if not (parallel and rest):
        return [first, *map(one, rest)]
    with ThreadPoolExecutor(available_cores()) as pool:
        return [first, *pool.map(one, rest)]


def _one(
    key: PRNGKeyArray,
    settings: AbcSettings,
    scheme: PopulationScheme,
    prepared: Prepared,
    row: int,
    iterations: int,
    advance: Advance,
) -> Posterior:
    began = time.monotonic() if row else prepared.began
    key_start, key_steps = jax.random.split(key)
    observed, measure = prepared.observed[row], prepared.measure
    start = from_prior(key_start, measure, scheme.particles, scheme.replicates)
    distance = np.where(start.good, distances(prepared.ruler, start.statistics, observed), np.inf)
    problem = Problem(
        measure, prepared.ruler, prepared.space, jnp.asarray(observed), jnp.asarray(start.theta[0])
    )  # fmt: skip
    theta, statistics, far = (jnp.asarray(part) for part in (start.theta, start.statistics, distance))
    least = jnp.asarray(settings.tolerance or 0.0, distance.dtype)
    begun = _begin(scheme, prepared.space, theta, statistics, far, least)
    advance(1)
    rules = Rules(
        iterations,
        1,
        settings.budget,
        prepared.simulations + start.simulations,
        settings.acceptance_floor,
        settings.tolerance,
        settings.seconds,
    )
    course = drive(key_steps, scheme, problem, begun, rules, advance, began)
    info = _history(course, keep=settings.keep_history) | {
        "method": type(settings).__name__,
        "simulations": course.spent,
        "scale_simulations": prepared.simulations,
        "failed": course.failed + start.failed + prepared.failed,
        "stopped": course.stopped,
        "seconds": time.monotonic() - began,
        "observations": len(prepared.observed),
    }
    last = jax.tree.map(lambda part: part[-1], course.records[-1])
    weights = np.full(len(last.theta), 1.0 / len(last.theta)) if last.weights is None else last.weights
    draws = Draws(last.theta, weights, last.statistics, last.distance)
    return assemble(settings, draws, observed, info, weighted=last.weights is not None)


@eqx.filter_jit
def _begin(
    scheme: PopulationScheme, space: Space, theta: Array, statistics: Array, distance: Array, least: Array
) -> tuple[PyTree, Record]:
    state, record = scheme.begin(space, theta, statistics, distance, least)
    return settled(state), record


def _history(course: Course, *, keep: bool) -> dict[str, Any]:
    """The arrays that tell how the run went, one entry for each iteration that was completed."""
    records = course.records
    arrays = {
        "history_tolerance": np.concatenate([record.tolerance for record in records]),
        "history_acceptance": np.concatenate([record.acceptance for record in records]),
        "history_simulations": np.asarray(course.simulations),
    }
    if keep:
        arrays["history_theta"] = np.concatenate([record.theta for record in records])
        if records[0].weights is not None:
            arrays["history_weights"] = np.concatenate([record.weights for record in records])
    scalars = {
        "tolerance": float(arrays["history_tolerance"][-1]),
        "acceptance_rate": float(arrays["history_acceptance"][-1]),
        "iterations": len(arrays["history_tolerance"]),
    }
    return arrays | scalars
