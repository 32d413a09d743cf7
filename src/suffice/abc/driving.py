"""One loop for every ABC sampler: propose → simulate → statistics → distance → finish, until a rule says stop.

An algorithm is two halves, written in JAX: `propose` before the simulator and `finish` after it. Where simulator,
statistics and distance are JAX code the halves and they are one compiled program; elsewhere the halves are compiled
and the host simulates between them. Both ways use the same keys, so they make the same draws.
"""

import time
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray, PyTree

from suffice.abc.distances import Ruler
from suffice.abc.measuring import Measure
from suffice.abc.space import Space
from suffice.abc.weighting import require_effective
from suffice.compiling import compiled
from suffice.progress import Advance


class Proposal(NamedTuple):
    """Where to simulate: rows that are not wanted (outside the prior, say) are not simulated and count as far away."""

    position: Float[Array, "n q"]
    log_prior: Float[Array, " n"]
    wanted: Bool[Array, " n"]
    carried: PyTree  # whatever `finish` needs


class Outcome(NamedTuple):
    """What the simulations gave; the distance is infinite where nothing was simulated, or in vain."""

    statistics: Float[Array, "n s"]
    distance: Float[Array, " n"]
    simulations: Int[Array, ""]
    failed: Int[Array, ""]


class Record(NamedTuple):
    """The population after a step, and numbers about it; `complete` where it is one to be kept."""

    theta: Float[Array, "*k n p"]
    weights: Float[Array, "*k n"] | None
    statistics: Float[Array, "*k n s"]
    distance: Float[Array, "*k n"]
    tolerance: Float[Array, "..."]
    acceptance: Float[Array, "..."]
    complete: Bool[Array, "*k"]


@runtime_checkable
class Scheme(Protocol):
    """An algorithm: hashable settings and two pure functions."""

    @property
    def rows(self) -> int:
        """Simulations of one step, at most."""
        ...

    @property
    def piece(self) -> int:
        """Steps of one call of the compiled program."""
        ...

    @property
    def thin(self) -> int:
        """Steps to one that is complete, at least."""
        ...

    def propose(self, key: PRNGKeyArray, state: PyTree, space: Space) -> Proposal:
        """Where to simulate next."""
        ...

    def finish(self, state: PyTree, space: Space, proposal: Proposal, outcome: Outcome) -> tuple[PyTree, Record]:
        """The next state, and what to write down; chance had its part in the proposal."""
        ...


class Problem(eqx.Module):
    """What is inferred from what: simulator and statistics, distance, coordinates, observed statistics.

    `observed` has one row for all, or one for each row of a proposal; at `safe`, a θ of the prior, the simulator is
    run in place of a row that is not wanted.
    """

    measure: Measure
    ruler: Ruler
    space: Space
    observed: Float[Array, "*n s"]
    safe: Float[Array, " p"]

    @property
    def traceable(self) -> bool:
        """Whether everything may run inside one compiled program."""
        return self.measure.traceable and self.ruler.traceable

    def traced(self, key: PRNGKeyArray, proposal: Proposal) -> Outcome:
        """The simulations of a proposal; JAX code."""
        wanted = proposal.wanted
        theta = jnp.where(wanted[:, None], self.space.theta(proposal.position), self.safe)
        measured = self.measure.traced(key, theta, wanted)
        good = measured.good & wanted
        statistics = jnp.asarray(measured.statistics)
        distance = jnp.where(good, self.ruler(statistics, jnp.broadcast_to(self.observed, statistics.shape)), jnp.inf)
        return Outcome(statistics, _not_nan(distance), jnp.sum(wanted), jnp.sum(wanted & ~good))

    def on_host(self, key: PRNGKeyArray, proposal: Proposal) -> Outcome:
        """The same, by the host."""
        wanted = np.asarray(proposal.wanted)
        positions = jnp.where(proposal.wanted[:, None], self.space.theta(proposal.position), self.safe)
        measured = self.measure.on_host(key, np.asarray(positions), wanted)
        good = np.asarray(measured.good) & wanted
        statistics = np.asarray(measured.statistics)
        observed = np.broadcast_to(np.asarray(self.observed), statistics.shape)
        distance = np.full(len(wanted), np.inf, statistics.dtype)
        distance[good] = self.ruler.on_host(statistics[good], observed[good])
        return Outcome(
            jnp.asarray(statistics),
            _not_nan(jnp.asarray(distance)),
            jnp.sum(jnp.asarray(wanted)),
            jnp.sum(jnp.asarray(wanted & ~good)),
        )


def _not_nan(distance: Array) -> Array:
    return jnp.where(jnp.isnan(distance), jnp.inf, distance)


@dataclass(frozen=True)
class Rules:
    """When to stop: `steps` are complete ones, of which `done` are already; `spent` simulations, too. None: no rule."""

    steps: int
    done: int = 0
    budget: int | None = None
    spent: int = 0
    acceptance_floor: float = 0.0
    tolerance: float | None = None
    seconds: float | None = None

    def affordable(self, spent: int, rows: int) -> int | None:
        """How many steps of so many simulations the budget still allows; None if there is no budget."""
        return None if self.budget is None else max(0, (self.budget - spent) // rows)

    def reached(self, done: int, record: Record) -> str | None:
        """The rule that this record fulfils."""
        if done >= self.steps:
            return "iterations"
        if self.tolerance is not None and bool(record.complete[-1]):
            reached = np.asarray(record.tolerance)
            if np.max(reached) <= reached.dtype.type(self.tolerance):
                return "tolerance"
        if float(np.mean(record.acceptance)) < self.acceptance_floor:
            return "acceptance"
        return None


class Course(NamedTuple):
    """How a run went: the records of the complete steps, simulations used until each, failures, and why it ended."""

    records: list[Record]
    simulations: list[int]
    spent: int
    failed: int
    stopped: str


def drive(
    key: PRNGKeyArray,
    scheme: Scheme,
    problem: Problem,
    start: tuple[PyTree, Record],
    rules: Rules,
    advance: Advance,
    began: float,
) -> Course:
    """Step until a rule says stop; `start` is the first state with its record."""
    state, first = start
    records, counts = [jax.tree.map(lambda part: np.asarray(part)[None], first)], [rules.spent]
    spent, failed, done, number = rules.spent, 0, rules.done, 0
    go, piece = (fused_steps, scheme.piece) if problem.traceable else (hosted_steps, scheme.thin)
    stopped = rules.reached(done, records[0])
    while stopped is None:
        affordable = rules.affordable(spent, scheme.rows)
        if affordable == 0:
            stopped = "budget"
            break
        count = min(piece, (rules.steps - done) * scheme.thin)
        count = count if affordable is None else min(count, affordable)
        state, (record, simulations, failures) = go(
            scheme, problem, key, state, np.arange(number, number + count)
        )  # fmt: skip
        record = jax.tree.map(np.asarray, record)
        complete = np.flatnonzero(record.complete)
        number, done = number + count, done + len(complete)
        spent, failed = spent + int(np.sum(simulations)), failed + int(np.sum(failures))
        if len(complete):
            if record.weights is not None:
                require_effective(float(1.0 / np.sum(record.weights[-1] ** 2)))
            records.append(jax.tree.map(lambda part, rows=complete: part[rows], record))
            counts.append(spent)
            advance(len(complete), f"tolerance {float(np.mean(record.tolerance)):.3g}")
        stopped = rules.reached(done, record)
        if stopped is None and count == affordable:
            stopped = "budget"
        if stopped is None and rules.seconds is not None and time.monotonic() - began > rules.seconds:
            stopped = "time"
    return Course(records, counts, spent, failed, stopped)


@compiled
def fused_steps(scheme: Scheme, problem: Problem, key: PRNGKeyArray, state: PyTree, numbers: np.ndarray | Array) -> Any:
    """Steps of these numbers, all in one program."""

    def step(state: PyTree, number: Any) -> Any:
        key_propose, key_data = jax.random.split(jax.random.fold_in(key, number))
        proposal = scheme.propose(key_propose, state, problem.space)
        outcome = problem.traced(key_data, proposal)
        state, record = scheme.finish(state, problem.space, proposal, outcome)
        return state, (record, outcome.simulations, outcome.failed)

    if len(numbers) == 1:
        state, made = step(state, numbers[0])
        return state, jax.tree.map(lambda part: part[None], made)
    return jax.lax.scan(step, state, numbers)


def hosted_steps(
    scheme: Scheme, problem: Problem, key: PRNGKeyArray, state: PyTree, numbers: np.ndarray | Array
) -> Any:
    """The same, with the host between the halves."""
    made = []
    for number in numbers:
        key_propose, key_data = jax.random.split(jax.random.fold_in(key, number))
        proposal = _propose(scheme, key_propose, state, problem.space)
        outcome = problem.on_host(key_data, proposal)
        state, record = _finish(scheme, state, problem.space, proposal, outcome)
        made.append((record, outcome.simulations, outcome.failed))
    return state, jax.tree.map(lambda *parts: np.stack(parts), *made)


def settled(state: PyTree) -> PyTree:
    """A first state of the very types that steps give it, so that they are compiled once."""
    return jax.tree.map(lambda part: jnp.asarray(part, part.dtype), state)


@eqx.filter_jit
def _propose(scheme: Scheme, key: PRNGKeyArray, state: PyTree, space: Space) -> Proposal:
    return scheme.propose(key, state, space)


@eqx.filter_jit
def _finish(scheme: Scheme, state: PyTree, space: Space, proposal: Proposal, outcome: Outcome) -> tuple[PyTree, Record]:
    return scheme.finish(state, space, proposal, outcome)
