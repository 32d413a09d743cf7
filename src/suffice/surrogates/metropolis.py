"""Random-walk Metropolis with an estimated likelihood: the estimate at the present point is kept, never made anew.

Were it made anew at every step, the chain would have another, wrong target; kept, an unbiased estimate gives the exact
posterior (Andrieu and Roberts, 2009) and synthetic likelihood nearly the one of its Gaussian (Price et al., 2018).
Steps are taken in the chart of θ, all chains of all observations at once; their covariance and size are tuned in
warm-up only.
"""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray
from numpyro.distributions import Distribution

from suffice.charts import Chart
from suffice.checkpoint import Checkpoint
from suffice.errors import SamplingError
from suffice.posterior import Posterior
from suffice.progress import bar
from suffice.simulation.executors import available_cores
from suffice.surrogates.likelihood import Estimates, Likelihood
from suffice.surrogates.population import flattened, pick
from suffice.surrogates.request import Plan, Request

TARGET = 0.2  # acceptance that warm-up aims at: with noisy estimates, less than the usual quarter
PIECE = 50  # steps in one call of the compiled program; the covariance is learned anew after each
BEGINNING = 20.0  # how many steps the first covariance counts for
MEMORY = 0.8  # of what was known of the covariance, what is kept when a piece is added: the way to the bulk fades


class State(NamedTuple):
    """Where a chain is, its estimates there, and how it moves: the size of steps and moments of past positions."""

    position: Float[Array | np.ndarray, "*n p"]
    log_prior: Float[Array | np.ndarray, "*n"]
    log_likelihood: Float[Array | np.ndarray, "*n"]
    log_size: Float[Array | np.ndarray, "*n"]
    number: Float[Array | np.ndarray, "*n"]
    mean: Float[Array | np.ndarray, "*n p"]
    scatter: Float[Array | np.ndarray, "*n p p"]


class Lanes(NamedTuple):
    """Chains, an observation and a chain each."""

    keys: Key[Array, " n"]
    evidence: Float[Array, "n r s"]


class Trace(NamedTuple):
    """What steps gave, axes (step, lane, …): coordinates, acceptance probabilities, failed simulations."""

    position: Float[Array | np.ndarray, "t n p"]
    acceptance: Float[Array | np.ndarray, "t n"]
    failed: Int[Array | np.ndarray, "t n"]


def run_metropolis(
    key: PRNGKeyArray,
    likelihood: Likelihood,
    evidence: Float[np.ndarray, "n r s"],
    plan: Plan,
    run: Request,
    call: Any,
) -> list[Posterior]:
    """A posterior for each observation; `call` identifies the run in a checkpoint."""
    began = time.monotonic()
    key_start, key_steps = jax.random.split(key)
    walk, states, failed = _begin(key_start, likelihood, evidence, plan, run)
    lanes = len(evidence) * run.num_chains
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key_steps, np.arange(lanes, dtype=np.uint32))
    workers = min(available_cores(), lanes) if likelihood.summaries.traced else 1
    groups = np.array_split(np.arange(lanes), workers)
    rows = jnp.asarray(np.repeat(evidence, run.num_chains, axis=0))
    parts = [Lanes(keys[group], rows[group]) for group in groups]
    saved = Checkpoint.open(run.checkpoint, (call, len(groups)))
    moving = saved.state([jax.tree.map(lambda leaf, group=group: leaf[group], states) for group in groups])
    total = plan.warmup + run.num_draws * plan.thin
    done, kept = saved.reached.get("steps", 0), saved.others or _empty(lanes, run.num_draws, walk.size)
    with bar(total, "sampling", show=run.progress) as advance, ThreadPoolExecutor(len(groups)) as pool:
        advance(done)
        while done < total:
            count = min(PIECE, (plan.warmup if done < plan.warmup else total) - done)
            moved = _advance_all(pool, walk, parts, moving, done, count, warm=done < plan.warmup)
            moving = [state for state, _ in moved]
            _keep(kept, [trace for _, trace in moved], np.arange(done, done + count) - plan.warmup + 1, plan.thin)
            done += count
            saved.write({"steps": done}, moving, **kept)
            advance(count, "warm-up" if done < plan.warmup else "")
    theta = np.asarray(_parameters(walk.chart, jnp.asarray(kept["position"])))
    spent = likelihood.simulations * (plan.particles + run.num_chains * total)
    common = {"simulations": spent, "seconds": time.monotonic() - began, "observations": len(evidence)}
    posteriors = []
    for i in range(len(evidence)):
        chains = slice(i * run.num_chains, (i + 1) * run.num_chains)
        numbers = {
            "acceptance": kept["acceptance"][chains] / (run.num_draws * plan.thin),
            "failed": int(failed[i] + kept["failed"][chains].sum()),
        }
        posteriors.append(Posterior(theta[chains], likelihood.summaries.model.names, info=common | numbers))
    return posteriors


class Walk(eqx.Module):
    """The steps of chains: proposal, estimate, decision."""

    likelihood: Likelihood
    prior: Distribution
    chart: Chart

    @property
    def size(self) -> int:
        """p, the number of coordinates."""
        return len(self.chart.shift)

    def log_prior(self, position: Float[Array, " p"]) -> Float[Array, ""]:
        """The log-density of the prior in the chart."""
        value = self.chart.log_prob(self.prior, position)
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    def propose(self, key: PRNGKeyArray, state: State) -> Float[Array, " p"]:
        """A point around the present one."""
        factor = jnp.linalg.cholesky(state.scatter / state.number)
        step = factor @ jax.random.normal(key, state.position.shape, state.position.dtype)
        return state.position + jnp.exp(state.log_size) * step

    def decide(
        self, key: PRNGKeyArray, state: State, position: Float[Array, " p"], value: Float[Array, ""]
    ) -> tuple[State, Float[Array, ""]]:
        """The next state, with the acceptance probability of the proposal whose estimate is `value`."""
        log_prior = self.log_prior(position)
        difference = (log_prior + value) - (state.log_prior + state.log_likelihood)
        probability = jnp.exp(jnp.minimum(jnp.where(jnp.isnan(difference), -jnp.inf, difference), 0.0))
        accepted = jax.random.uniform(key, dtype=probability.dtype) < probability
        moved = state._replace(position=position, log_prior=log_prior, log_likelihood=value)
        return jax.tree.map(lambda new, old: jnp.where(accepted, new, old), moved, state), probability

    def proposals(
        self, keys: Key[Array, " n"], states: State, index: Int[Array, ""]
    ) -> tuple[Key[Array, "3 n"], Float[Array, "n p"]]:
        """Keys of a step (for its proposals, simulations, decisions) and the points proposed."""
        step_keys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, index), 3), out_axes=1)(keys)
        return step_keys, jax.vmap(self.propose)(step_keys[0], states)

    def decisions(
        self,
        keys: Key[Array, " n"],
        states: State,
        positions: Float[Array, "n p"],
        found: Estimates,
        index: Int[Array, ""],
        warm: Float[Array, ""],
    ) -> tuple[State, Trace]:
        """The states after a step; in warm-up (`warm` 1, otherwise 0) with another size."""
        states, probability = jax.vmap(self.decide)(keys, states, positions, jnp.asarray(found.values))
        rate = warm * 2.0 * (1.0 + index) ** -0.6
        states = states._replace(log_size=states.log_size + rate * (probability - TARGET))
        return states, Trace(states.position, probability, found.failed)


def _begin(
    key: PRNGKeyArray, likelihood: Likelihood, evidence: Float[np.ndarray, "n r s"], plan: Plan, run: Request
) -> tuple[Walk, State, Int[np.ndarray, " n"]]:
    """First states, drawn among points of the prior by their (flattened) likelihoods.

    Their own likelihood counts as 0, so that the first step leaves them: a point chosen for a high estimate would hold
    its chain for long.
    """
    model = likelihood.summaries.model
    key_prior, key_points, key_choice = jax.random.split(key, 3)
    theta = np.asarray(model.prior.sample(key_prior, (plan.particles,)))
    chart = model.parameter_chart(theta)
    walk = Walk(likelihood, model.prior, chart)
    points = np.asarray(_coordinates(chart, jnp.asarray(theta)))
    failed, states = np.zeros(len(evidence), np.int64), []
    for i, data in enumerate(evidence):
        found = likelihood.at(jax.random.fold_in(key_points, i), theta, data)
        if not np.isfinite(found.values).any():
            raise SamplingError(
                f"At none of {plan.particles} points from the prior has observation {i} a likelihood above zero; "
                f"{found.failed.sum()} simulations failed. Check the observation against the model."
            )
        weights = flattened(np.asarray(found.values, np.float64), min(10 * (walk.size + 1), plan.particles))
        chosen = pick(jax.random.fold_in(key_choice, i), weights, run.num_chains)
        states.append(_first(walk, points[chosen], points, np.exp(weights)))
        failed[i] = found.failed.sum()
    return walk, jax.tree.map(lambda *parts: np.concatenate(parts), *states), failed


@eqx.filter_jit
def _coordinates(chart: Chart, theta: Array) -> Array:
    return jax.vmap(chart.finite)(theta)


@eqx.filter_jit
def _parameters(chart: Chart, positions: Array) -> Array:
    return jax.vmap(jax.vmap(chart.inverse))(positions)


def _first(
    walk: Walk,
    positions: Float[np.ndarray, "n p"],
    points: Float[np.ndarray, "m p"],
    weights: Float[np.ndarray, " m"],
) -> State:
    """States at `positions`, whose steps have the covariance of weighted points."""
    (num, p), dtype = positions.shape, positions.dtype
    covariance = np.atleast_2d(np.cov(points, rowvar=False, aweights=weights))
    covariance += 1e-6 * np.diag(np.diag(covariance)) + 1e-12 * np.eye(p)
    mean = np.average(points, axis=0, weights=weights)
    state = State(
        position=positions,
        log_prior=np.zeros(num),
        log_likelihood=np.full(num, -np.inf),
        log_size=np.full(num, np.log(2.38 / np.sqrt(p))),
        number=np.full(num, BEGINNING),
        mean=np.broadcast_to(mean, (num, p)),
        scatter=np.broadcast_to(BEGINNING * covariance, (num, p, p)),
    )
    return State(*(np.asarray(part, dtype) for part in state))


def _advance_all(
    pool: ThreadPoolExecutor, walk: Walk, parts: list[Lanes], states: list[State], first: int, count: int, *, warm: bool
) -> list[tuple[State, Trace]]:
    """Every group of chains `count` steps further, one thread each; in warm-up, with a newly learned covariance."""
    double = jax.enable_x64.value  # a thread does not inherit it

    def advance(lanes: Lanes, state: State) -> tuple[State, Trace]:
        with jax.enable_x64(double):
            if walk.likelihood.summaries.traced:
                end = jnp.asarray(first + count)
                state, trace = _steps(walk, lanes, state, jnp.asarray(first), end, jnp.asarray(float(warm)))
            else:
                state, trace = _host_steps(walk, lanes, state, first, count, float(warm))
            trace = Trace(*(np.asarray(part)[:count] for part in trace))
            return (_learned(state, np.asarray(trace.position)) if warm else state), trace

    if first == 0:
        return [advance(*group) for group in zip(parts, states, strict=True)]
    return list(pool.map(advance, parts, states))


@eqx.filter_jit
def _steps(walk: Walk, lanes: Lanes, states: State, first: Array, end: Array, warm: Array) -> tuple[State, Trace]:
    """Steps `first` to `end`, of which the first rows of the trace are filled."""

    def step(states: State, index: Array) -> tuple[State, Trace]:
        keys, positions = walk.proposals(lanes.keys, states, index)
        found = walk.likelihood.traced(keys[1], jax.vmap(walk.chart.inverse)(positions), lanes.evidence)
        return walk.decisions(keys[2], states, positions, found, index, warm)

    def fill(index: Array, carried: tuple[State, Trace]) -> tuple[State, Trace]:
        states, made = step(carried[0], index)
        return states, jax.tree.map(lambda kept, new: kept.at[index - first].set(new), carried[1], made)

    shapes = jax.eval_shape(lambda: step(states, first)[1])
    empty = jax.tree.map(lambda part: jnp.zeros((PIECE, *part.shape), part.dtype), shapes)
    return jax.lax.fori_loop(first, end, fill, (states, empty))


_proposals = eqx.filter_jit(Walk.proposals)
_decisions = eqx.filter_jit(Walk.decisions)


def _host_steps(walk: Walk, lanes: Lanes, states: State, first: int, count: int, warm: float) -> tuple[State, Trace]:
    """The same, step by step, where simulator or statistics are no JAX code."""
    traces = []
    for index in range(first, first + count):
        keys, positions = _proposals(walk, lanes.keys, states, jnp.asarray(index))
        theta = np.asarray(_parameters(walk.chart, positions[None]))[0]
        found = walk.likelihood.on_host(keys[1], theta, np.asarray(lanes.evidence))
        found = Estimates(*(jnp.asarray(part) for part in found))
        states, made = _decisions(walk, keys[2], states, positions, found, jnp.asarray(index), jnp.asarray(warm))
        traces.append(made)
    return states, jax.tree.map(lambda *parts: np.stack(parts), *traces)


def _learned(state: State, positions: Float[np.ndarray, "t n p"]) -> State:
    """With the moments of another piece added to those remembered (Chan's update)."""
    count, mean = len(positions), positions.mean(axis=0)
    centred, moved = positions - mean, mean - np.asarray(state.mean)
    before = MEMORY * np.asarray(state.number)
    number = before + count
    between = np.einsum("n,ni,nj->nij", before * count / number, moved, moved)
    scatter = MEMORY * np.asarray(state.scatter) + np.einsum("tni,tnj->nij", centred, centred) + between
    parts = (number, np.asarray(state.mean) + moved * (count / number)[:, None], scatter)
    number, mean, scatter = (np.asarray(part, state.position.dtype) for part in parts)
    return state._replace(number=number, mean=mean, scatter=scatter)


def _empty(lanes: int, num_draws: int, p: int) -> dict[str, np.ndarray]:
    return {
        "position": np.zeros((lanes, num_draws, p), jax.dtypes.canonicalize_dtype(float)),
        "acceptance": np.zeros(lanes),
        "failed": np.zeros(lanes, np.int64),
    }


def _keep(kept: dict[str, np.ndarray], traces: list[Trace], after: Int[np.ndarray, " t"], thin: int) -> None:
    """Add these steps (numbered from 1 after warm-up; not above 0 within it) to what is kept."""
    position, acceptance, failed = (np.concatenate(parts, axis=1) for parts in zip(*traces, strict=True))
    chosen = np.flatnonzero((after > 0) & (after % thin == 0))
    kept["position"][:, after[chosen] // thin - 1] = position[chosen].swapaxes(0, 1)
    kept["acceptance"] += acceptance[after > 0].sum(axis=0)
    kept["failed"] += failed.sum(axis=0)
