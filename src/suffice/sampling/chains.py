"""Markov chains in bulk: every chain of every observation in one compiled program, spread over the cores.

A chain is written for one observation. It is vectorised here, once; lanes (an observation and a chain each) are shared
out to one thread a core, draws are taken out in pieces, and a checkpoint lets a killed run go on with the same draws.
"""

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PRNGKeyArray, PyTree

from suffice.checkpoint import Checkpoint
from suffice.compiling import compiled
from suffice.progress import bar
from suffice.requiring import require_whole
from suffice.simulation.executors import available_cores

PIECE = 100  # steps of every chain in one call of the compiled program, at most
PIECE_SECONDS = 1.0  # how long such a call should take
CHECKPOINT_SECONDS = 20.0  # between two checkpoints


@dataclass(frozen=True)
class Run:
    """What is asked of a method: how many draws and chains, of what data, and how it goes on; see `sample`."""

    num_draws: int
    num_chains: int
    iid: bool = False
    checkpoint: str | os.PathLike[str] | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        for name in ("num_draws", "num_chains"):
            object.__setattr__(self, name, require_whole(name, getattr(self, name), 1))


class Draw(NamedTuple):
    """θ after a step, and numbers about the step."""

    theta: Float[Array, " p"]
    info: dict[str, Float[Array, ""]]


@runtime_checkable
class Chain(Protocol):
    """One Markov chain for one observation: pure functions of a key, the observation and a state."""

    @property
    def warmup(self) -> int:
        """The number of first steps, which may tune and are thrown away."""
        ...

    @property
    def thin(self) -> int:
        """Steps to one draw that is kept."""
        ...

    def init(self, key: PRNGKeyArray, observation: PyTree) -> PyTree:
        """The first state."""
        ...

    def step(self, key: PRNGKeyArray, observation: PyTree, state: PyTree, index: Array) -> tuple[PyTree, Draw]:
        """The state and the draw after step `index`."""
        ...


class Chains(NamedTuple):
    """What the chains of each observation gave."""

    draws: Float[np.ndarray, "observation chain draw p"]
    info: dict[str, Float[np.ndarray, "observation chain draw"]]
    states: PyTree  # the last state of each lane, axes (observation, chain, …)
    seconds: float


def run_chains(key: PRNGKeyArray, chain: Chain, observations: Float[np.ndarray, "n ..."], run: Run) -> Chains:
    """Run the chains of each observation; observation i and chain j have a key of their own."""
    num_draws, num_chains = run.num_draws, run.num_chains
    lanes = len(observations) * num_chains
    workers = min(available_cores(), lanes)
    padded = -(-lanes // workers) * workers
    rows = np.minimum(np.arange(padded), lanes - 1)
    saved = Checkpoint.open(run.checkpoint, (key, chain, observations, num_draws, num_chains, workers))
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, rows)
    groups = [
        (keys[part], jnp.asarray(observations[rows[part] // num_chains]))
        for part in np.split(np.arange(padded), workers)
    ]
    states = saved.state([_begin(chain, *group) for group in groups])
    collected = _Collected(lanes, num_draws, chain.warmup, chain.thin, saved.others)
    done, total = saved.reached.get("steps", 0), chain.warmup + num_draws * chain.thin
    began = time.monotonic() - saved.reached.get("seconds", 0.0)
    last_saved, count = time.monotonic(), PIECE if done else 1
    with bar(total, "sampling", show=run.progress) as advance, ThreadPoolExecutor(workers) as pool:
        advance(done)
        while done < total:
            piece = min(count, total - done)
            tick = time.monotonic()
            moved = _advance_all(pool, chain, groups, states, done, piece)
            states = [state for state, _ in moved]
            collected.add([draw for _, draw in moved], np.arange(done, done + piece))
            done += piece
            count = _next_count(piece, time.monotonic() - tick) if done > 1 else PIECE // 10
            if time.monotonic() - last_saved > CHECKPOINT_SECONDS or done == total:
                reached = {"steps": done, "seconds": time.monotonic() - began}
                saved.write(reached, states, **collected.arrays)
                last_saved = time.monotonic()
            advance(piece, "warm-up" if done < chain.warmup else "")
    shape = (len(observations), num_chains)
    draws = {name: array.reshape(*shape, *array.shape[1:]) for name, array in collected.arrays.items()}
    final = jax.tree.map(lambda *parts: np.concatenate(parts)[:lanes].reshape(*shape, *parts[0].shape[1:]), *states)
    return Chains(draws.pop("theta"), draws, final, time.monotonic() - began)


def _next_count(piece: int, seconds: float) -> int:
    """How many steps the next piece should have."""
    return int(np.clip(piece * PIECE_SECONDS / max(seconds, 1e-3), 1, PIECE))


def _advance_all(
    pool: ThreadPoolExecutor, chain: Chain, groups: Sequence[Any], states: Sequence[PyTree], first: int, count: int
) -> list[tuple[PyTree, Draw]]:
    """Every group `count` steps further, one thread each; the first call goes ahead, so that it compiles once."""

    def advance(group: Any, state: PyTree) -> tuple[PyTree, Draw]:
        keys, observations = group
        moved = _advance(chain, keys, observations, state, jnp.asarray(first), jnp.asarray(count))
        return jax.block_until_ready(moved)

    if first == 0:
        return [advance(group, state) for group, state in zip(groups, states, strict=True)]
    return list(pool.map(advance, groups, states))


class _Collected:
    """The draws so far, on the host: arrays of (lane, draw, …), filled as pieces come in."""

    def __init__(self, lanes: int, num_draws: int, warmup: int, thin: int, arrays: dict[str, np.ndarray]) -> None:
        self.lanes, self.num_draws, self.warmup, self.thin = lanes, num_draws, warmup, thin
        self.arrays = dict(arrays)

    def add(self, parts: list[Draw], steps: Int[np.ndarray, " piece"]) -> None:
        """Keep every `thin`-th of these steps of each lane that is no warm-up."""
        after = steps - self.warmup + 1
        kept = np.flatnonzero((after > 0) & (after % self.thin == 0))
        flat = [{"theta": part.theta} | part.info for part in parts]
        for name in flat[0]:
            values = np.concatenate([np.asarray(part[name]) for part in flat])[: self.lanes]
            if name not in self.arrays:
                self.arrays[name] = np.zeros((self.lanes, self.num_draws, *values.shape[2:]), values.dtype)
            self.arrays[name][:, after[kept] // self.thin - 1] = values[:, kept]


@eqx.filter_jit
def _begin(chain: Chain, keys: Key[Array, " lane"], observations: PyTree) -> PyTree:
    return jax.vmap(lambda key, observation: chain.init(key, observation))(keys, observations)


@compiled
def _advance(
    chain: Chain, keys: Key[Array, " lane"], observations: PyTree, states: PyTree, first: Array, count: Array
) -> tuple[PyTree, Draw]:
    """`count` steps of each lane from step `first` on; of the draws, the first `count` are filled."""

    def lane(key: PRNGKeyArray, observation: PyTree, state: PyTree) -> tuple[PyTree, Draw]:
        def step(number: Array, carried: tuple[PyTree, Draw]) -> tuple[PyTree, Draw]:
            index = first + number
            state, draw = chain.step(jax.random.fold_in(key, index + 1), observation, carried[0], index)
            return state, jax.tree.map(lambda kept, new: kept.at[number].set(new), carried[1], draw)

        shapes = jax.eval_shape(lambda: chain.step(key, observation, state, first)[1])
        empty = jax.tree.map(lambda part: jnp.zeros((PIECE, *part.shape), part.dtype), shapes)
        return jax.lax.fori_loop(0, count, step, (state, empty))

    return jax.vmap(lane)(keys, observations, states)
