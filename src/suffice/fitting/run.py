"""The verb `fit`: from simulations to a fitted family."""

import os
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PRNGKeyArray

from suffice.errors import SimulationWarning
from suffice.family.architectures import fades
from suffice.family.envelope import envelope_of
from suffice.family.exponential import ExponentialFamily
from suffice.family.gaussian import fit_gaussian
from suffice.family.normaliser import fit_normaliser, statistics_of_rows
from suffice.family.region import region_of
from suffice.family.regression import Regression
from suffice.family.statistics import Innovations
from suffice.fitting.held_out import MOST, look_at_held_out
from suffice.fitting.history import History
from suffice.fitting.loop import train
from suffice.fitting.refining import refine
from suffice.fitting.result import Fit
from suffice.fitting.streaming import Blocks, resident
from suffice.fitting.training import Training
from suffice.matching.objectives import Batch, Objective, PosteriorMean, ScoreMatching
from suffice.model import Model, require_model
from suffice.randomness import key_record, require_key
from suffice.requiring import require_kind
from suffice.simulation import Simulations, StoredRows, dependence_sentence

FEWEST = 20  # good simulations below which nothing can be fitted


def fit(
    key: PRNGKeyArray,
    model: Model,
    sims: Simulations,
    objective: Objective | None = None,
    *,
    family: ExponentialFamily | Regression | None = None,
    training: Training | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Fit:
    """Fit a family to simulations of `model`, by score matching unless told otherwise.

    Args:
        key: decides the first weights, the order of the batches and the slices.
        model: what was simulated.
        sims: its simulations; failed ones are left out, with a warning if that biases the fit. Those of a store that
            is larger than memory are read block by block.
        objective: `ScoreMatching()` unless told; `SlicedScoreMatching()`, `PosteriorMean()`.
        family: networks to begin with; chosen by the shape of the model if not given.
        training: settings of the loop; chosen by the shape of the model if not given.
        checkpoint: a file from which a killed fit goes on.
        progress: whether to show a bar.

    >>> import suffice as sf
    >>> model = sf.zoo.gamma()
    >>> sims = sf.simulate(jax.random.key(0), model, 500)
    >>> sf.fit(jax.random.key(1), model, sims, training=sf.Training(epochs=2, batch_size=100))
    Fit(ExponentialFamily of k, theta, 2 epochs)
    """
    key = require_key(key)
    objective = ScoreMatching() if objective is None else objective
    _require_kinds(model, sims, objective, family, training)
    _require_simulations(model, sims)
    key_networks, key_training = jax.random.split(key)
    key_refinement, key_look = (jax.random.fold_in(key, number) for number in (2, 3))
    settings = {"objective": repr(objective), "key": key_record(key), "simulations": list(sims.provenance)}
    if isinstance(objective, PosteriorMean) and objective.linear:
        good = resident(sims.good)
        regression = Regression.least_squares(model, good.theta, good.x)
        y = jax.jit(jax.vmap(regression.data_chart.forward))(good.x)
        return _finished(model, regression, History.empty(), settings, good.theta, y)

    training = default_training(model, objective) if training is None else training
    whole, held_out = sims.good.split(1.0 - training.validation_fraction)
    pairs, held_out = resident(whole), resident(held_out)
    regress = isinstance(objective, PosteriorMean)
    if family is None:
        family = Regression.default(key_networks, model) if regress else ExponentialFamily.default(key_networks, model)
    module = family.with_charts(model, pairs.theta, pairs.x)
    batches = _batches(objective, module, pairs, held_out)
    streamed = isinstance(whole.x, StoredRows)
    batch = min(training.batch_size, len(whole))
    source = Blocks(whole, module.data_chart, objective, batches[0].theta, batch) if streamed else batches[0]
    begun = partial(train, key_training, objective, training=training, checkpoint=checkpoint, progress=progress)
    if isinstance(module, Regression) and isinstance(module.network, Innovations) and not streamed:
        module, history = _on_summaries(begun, module, module.network, batches)
    else:
        module, history = begun(module, source, batches[1])
    settings |= {"training": asdict(training)}
    fitted = _finished(model, module, history, settings, pairs.theta, batches[0].y)
    if fitted.parameter_chart is None:
        return fitted
    if isinstance(module, Regression):  # its statistics are too close to θ on pairs that it was trained on
        statistics = statistics_of_rows(module, np.asarray(batches[1].y))
        return replace(fitted, normaliser=fit_gaussian(fitted.parameter_chart, held_out.theta, statistics))
    rows = [part for batch in batches for part in (batch.theta, batch.y)]
    unrefined = fit_normaliser(module, fitted.parameter_chart, *rows)
    normaliser = refine(
        key_refinement,
        module,
        unrefined,
        *rows,
        prior=model.prior,
        chart=fitted.parameter_chart,
        steps=training.refinement,
    )
    seen = slice(MOST)
    statistics = statistics_of_rows(module, np.asarray(batches[1].y[seen]))
    some = (held_out.theta[seen], statistics, pairs.theta)
    looked = look_at_held_out(key_look, normaliser, unrefined, model.names, *some)
    return replace(fitted, normaliser=normaliser, held_out=looked)


def _on_summaries(
    begun: Callable[[Regression, Batch, Batch], tuple[Regression, History]],
    regression: Regression,
    network: Innovations,
    batches: tuple[Batch, Batch],
) -> tuple[Regression, History]:
    """Training of the outer network alone, on what it sees of the data, which is found once."""
    outer = eqx.tree_at(lambda part: part.network, regression, network.outer)
    pairs, held_out = (batch._replace(y=network.summarised(batch.y)) for batch in batches)
    trained, history = begun(outer, pairs, held_out)
    network = eqx.tree_at(lambda part: part.outer, network, trained.network)
    return eqx.tree_at(lambda part: part.network, regression, network), history


def _finished(
    model: Model,
    module: ExponentialFamily | Regression,
    history: History,
    settings: dict[str, Any],
    theta: np.ndarray,
    y: Array,
) -> Fit:
    """The fit, with what later steps need to know of the prior and of the training pairs."""
    chart = model.parameter_chart(theta)
    envelope, region = envelope_of(module, y), region_of(chart, theta)
    return Fit(module, model.names, history, settings, model.prior, chart, envelope, region=region)


def default_training(model: Model, objective: Objective) -> Training:
    """Settings that were measured to be good for the shape of the model."""
    if isinstance(objective, PosteriorMean):
        return Training(epochs=100, learning_rate=3e-3, validation_fraction=0.2)
    if fades(model):
        return Training(epochs=300, batch_size=200, learning_rate=2e-2)
    if model.markov_order is not None or len(model.data_shape) == 2:
        return Training(epochs=50, batch_size=200)
    return Training()


def _require_kinds(model: Any, sims: Any, objective: Any, family: Any, training: Any) -> None:
    """Refuse arguments of another kind than `fit` takes."""
    require_model(model)
    made = "Simulations: of suffice.simulate(key, model, num), or Simulations.from_arrays(theta, x) of pairs at hand"
    require_kind(sims, Simulations, "sims", made)
    offered = "an objective, such as ScoreMatching(), SlicedScoreMatching() or PosteriorMean()"
    require_kind(objective, Objective, "objective", offered)
    if family is not None:
        families = "an ExponentialFamily, or a Regression for PosteriorMean()"
        require_kind(family, (ExponentialFamily, Regression), "family", families)
    if training is not None:
        require_kind(training, Training, "training", "settings: suffice.Training(epochs=100), say")


def _require_simulations(model: Model, sims: Simulations) -> None:
    if sims.names != model.names or sims.x.shape[1:] != model.data_shape:
        raise ValueError(
            f"The simulations are of x{sims.x.shape[1:]} and parameters {sims.names}, but the model has "
            f"x{model.data_shape} and parameters {model.names}. Simulate from this model."
        )
    if sims.num_good < FEWEST:
        raise ValueError(f"{sims.num_good} good simulations are too few to fit anything: make thousands.")
    biased = dependence_sentence(sims)
    if biased is not None:
        warnings.warn(biased, SimulationWarning, stacklevel=3)


def _batches(
    objective: Objective, module: ExponentialFamily | Regression, pairs: Simulations, held_out: Simulations
) -> tuple[Batch, Batch]:
    """Training and held-out pairs in the coordinates of the fit, weighted."""
    chart = module.data_chart
    forward = jax.jit(jax.vmap(chart.forward))
    chart.require_inside(held_out.x)
    y = np.concatenate([np.asarray(forward(part.x)) for part in (pairs, held_out)])
    theta = np.concatenate([pairs.theta, held_out.theta])
    whole = Batch(jnp.asarray(y), jnp.asarray(theta), jnp.asarray(objective.weights(y, theta)))
    first, rest = slice(len(pairs)), slice(len(pairs), None)
    return Batch(*(part[first] for part in whole)), Batch(*(part[rest] for part in whole))
