"""One loop for every objective: compiled epochs between two looks at the validation loss; the best weights are kept."""

import os
import time
import warnings
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from suffice.checkpoint import Checkpoint
from suffice.errors import TrainingError, TrainingWarning
from suffice.fitting.gradients import batch_gradient, in_pieces, piece_size
from suffice.fitting.history import History
from suffice.fitting.streaming import Blocks, stream_epochs
from suffice.fitting.training import Training
from suffice.matching.objectives import Batch, Objective
from suffice.progress import bar

Trainable = Any  # a module with `trainable()` and `frozen_on(theta)`: an ExponentialFamily or a Regression


class State(NamedTuple):
    """What the next epoch needs; `average` are the weights that are looked at and kept."""

    parameters: PyTree
    optimiser: PyTree
    average: PyTree


def train(
    key: PRNGKeyArray,
    objective: Objective,
    module: Trainable,
    pairs: Batch | Blocks,
    held_out: Batch,
    training: Training,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> tuple[Trainable, History]:
    """The module with the weights of the lowest validation loss, and how it came about.

    With `checkpoint`, the state is written to that file at every look; a second call with the same arguments goes on
    from there and ends with the same numbers as an uninterrupted one.
    """
    key_epochs, key_look = jax.random.split(key)
    parameters, fixed = eqx.partition(module, module.trainable())
    if isinstance(pairs, Blocks):
        batch, rows = pairs.batch, len(pairs) * pairs.rows
    else:
        batch, rows = min(training.batch_size, len(pairs.y)), len(pairs.y)
    steps, size = rows // batch, piece_size(objective, module, held_out, batch)
    state = State(parameters, _optimiser(training, steps, parameters).init(parameters), parameters)
    saved = Checkpoint.open(checkpoint, (key, objective, training, pairs, held_out, parameters))
    history = History.from_archive(saved.reached, saved.others) if saved.reached else History.empty()
    state, best = saved.state((state, parameters))
    began = time.monotonic() - history.seconds

    with bar(training.epochs, "fitting", show=progress) as advance:
        advance(history.epochs)
        while history.epochs < training.epochs and not history.stopped:
            first = history.epochs
            count = min(training.check_every, training.epochs - first)
            if isinstance(pairs, Blocks):
                run = partial(_run_block, fixed, pairs.theta, objective, training, steps, batch, size)
                state, losses = stream_epochs(run, state, key_epochs, (first, count), pairs)
            else:
                window = (jnp.asarray(first), jnp.asarray(count))
                state, losses = _run_epochs(
                    state, fixed, key_epochs, window, pairs, objective, training, steps, batch, size
                )
            loss = float(_look(state.average, fixed, key_look, pairs.theta, held_out, objective, size))
            history = history.extended(np.asarray(losses)[:count], loss, training, time.monotonic() - began)
            if history.best_epoch == history.epochs:
                best = state.average
            reached, arrays = history.to_archive()
            saved.write(reached, (state, best), **arrays)
            advance(count, f"validation loss {loss:.4g}")
    _judge(history)
    return eqx.combine(best, fixed).frozen_on(pairs.theta), history


@eqx.filter_jit
def _run_epochs(
    state: State,
    fixed: PyTree,
    key: PRNGKeyArray,
    window: tuple[Array, Array],
    pairs: Batch,
    objective: Objective,
    training: Training,
    steps: int,
    batch: int,
    size: int,
    natural: Float[Array, "m p"] | None = None,
) -> tuple[State, Float[Array, " epochs"]]:
    """The epochs of the window (first, count), each over a new permutation of the pairs; the mean loss of each.

    `steps` are those of a whole epoch; `size` the pairs that a step takes at a time; `natural` the parameters that η is
    standardised over, those of the pairs if not given.
    """
    first, count = window
    natural = pairs.theta if natural is None else natural
    here = len(pairs.y) // batch
    optimiser = _optimiser(training, steps, state.parameters)
    newest = training.newest(steps)

    def step(state: State, inputs: tuple[PRNGKeyArray, Array]) -> tuple[State, Array]:
        key, chosen = inputs
        rows = jax.tree.map(lambda part: part[chosen], pairs)
        theta = rows.theta if training.natural_rows is None else natural[: training.natural_rows]
        loss, gradient = batch_gradient(key, objective, state.parameters, fixed, theta, rows, size)
        updates, optimiser_state = optimiser.update(gradient, state.optimiser)
        parameters = optax.apply_updates(state.parameters, updates)
        average = optax.incremental_update(parameters, state.average, newest)
        return State(parameters, optimiser_state, average), loss

    def epoch(index: Array, carried: tuple[State, Array]) -> tuple[State, Array]:
        state, losses = carried
        key_rows, key_steps = jax.random.split(jax.random.fold_in(key, first + index))
        rows = jax.random.permutation(key_rows, len(pairs.y))[: here * batch].reshape(here, batch)
        state, step_losses = jax.lax.scan(step, state, (jax.random.split(key_steps, here), rows))
        return state, losses.at[index].set(jnp.mean(step_losses))

    return jax.lax.fori_loop(0, count, epoch, (state, jnp.zeros(training.check_every)))


def _run_block(
    fixed: PyTree,
    natural: Float[Array, "m p"],
    objective: Objective,
    training: Training,
    steps: int,
    batch: int,
    size: int,
    state: State,
    key: PRNGKeyArray,
    epoch: int,
    pairs: Batch,
) -> tuple[State, Array]:
    """One pass over a block; its mean loss."""
    window = (jnp.asarray(epoch), jnp.asarray(1))
    state, losses = _run_epochs(state, fixed, key, window, pairs, objective, training, steps, batch, size, natural)
    return state, losses[0]


@eqx.filter_jit
def _look(
    parameters: PyTree,
    fixed: PyTree,
    key: PRNGKeyArray,
    theta: Float[Array, "n p"],
    held_out: Batch,
    objective: Objective,
    size: int,
) -> Float[Array, ""]:
    """The mean loss on held-out pairs, η standardised over all training parameters; the same noise at every look."""
    module = eqx.combine(parameters, fixed).frozen_on(theta)
    pieces = in_pieces(held_out, size)

    def piece_loss(inputs: tuple[PRNGKeyArray, Batch]) -> Array:
        key, rows = inputs
        return jnp.sum(objective.losses(key, module, rows))

    keys = jax.random.split(key, len(pieces.y))
    return jnp.sum(jax.lax.map(piece_loss, (keys, pieces))) / len(held_out.y)


def _optimiser(training: Training, steps: int, parameters: PyTree) -> optax.GradientTransformation:
    """Adam with the schedule's rate, clipped if asked, and a rate of its own for the natural parameters."""
    ratio = 1.0 if training.natural_learning_rate is None else training.natural_learning_rate / training.learning_rate

    def scaled(updates: PyTree, parameters: PyTree | None = None) -> PyTree:
        return jax.tree_util.tree_map_with_path(partial(_scaled_leaf, ratio), updates)

    clip = optax.identity() if training.max_gradient is None else optax.clip_by_global_norm(training.max_gradient)
    rate = optax.scale_by_learning_rate(training.rate(steps))
    return optax.chain(clip, optax.scale_by_adam(), optax.stateless(scaled), rate)


def _scaled_leaf(ratio: float, path: tuple[Any, ...], leaf: Array) -> Array:
    natural = any(isinstance(part, jax.tree_util.GetAttrKey) and part.name == "natural" for part in path)
    return leaf * ratio if natural else leaf


def _judge(history: History) -> None:
    """Say in words if training went wrong."""
    if history.failed_epoch is None:
        return
    what = f"The loss was not finite in epoch {history.failed_epoch}, so training stopped there"
    remedy = "Lower learning_rate, set max_gradient, or look for extreme values in the simulations."
    if history.best_epoch is None:
        raise TrainingError(f"{what}, before any weights had been found good. {remedy}")
    warnings.warn(
        f"{what}; the weights of epoch {history.best_epoch} are kept. {remedy}", TrainingWarning, stacklevel=3
    )
