"""The part of `check` for simulators that are no JAX code: a few simulations, looked at."""

from collections.abc import Iterator

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from suffice.model import Model
from suffice.simulation.dispatch import Made, dispatch
from suffice.simulation.executors import Where, workers_of
from suffice.simulation.failures import WORDS
from suffice.simulation.findings import Finding, idle_finding, named, noise_finding
from suffice.simulation.makers import Outside
from suffice.simulation.seeds import Draws, seeds_at
from suffice.simulation.simulations import Status

ROWS = 16  # simulations at parameters of the prior
TRIALS = 4  # parameters at which the effect of seed and parameters is looked at


def outside_findings(
    model: Model, key: PRNGKeyArray, key_theta: PRNGKeyArray, executor: Where = None
) -> Iterator[Finding]:
    """What a few dozen simulations show."""
    seed = seeds_at(key, ROWS + TRIALS)
    theta = np.asarray(model.prior.sample(key_theta, (ROWS,)))
    made = _simulated(model, theta, seed[:ROWS], executor)
    yield from _failure_findings(model, made)
    good = np.flatnonzero(made.status == Status.GOOD)[:TRIALS]
    if len(good):
        yield from _repeat_findings(model, theta, seed, made, good, executor)
    yield Finding(f"10,000 simulations take about {10_000 * float(np.mean(made.seconds)):.2g} s on one core.")


def _failure_findings(model: Model, made: Made) -> Iterator[Finding]:
    for kind, words in WORDS.items():
        bad = made.status == kind
        if bad.any():
            row = int(np.argmax(bad))
            why = f" {made.errors[row]}" if made.errors[row] else ""
            yield Finding(
                f"{bad.sum()} of {len(bad)} simulations {words}, such as at {named(model, made.theta[row])}.{why} "
                "Mend the simulator there, or narrow the prior.",
                problem=True,
            )
    if (made.status == Status.GOOD).all():
        yield Finding(f"All of {len(made.status)} simulations are finite and inside their support.")


def _repeat_findings(
    model: Model, theta: np.ndarray, seed: np.ndarray, made: Made, good: np.ndarray, executor: Where
) -> Iterator[Finding]:
    """The same rows once more, with other seeds, and with other values of one parameter at a time."""
    thetas = [theta[good], theta[good]]
    for i in range(model.num_parameters):
        changed = theta[good].copy()
        changed[:, i] = np.roll(theta[:, i], 1)[good]
        thetas.append(changed)
    seeds = [seed[good], seed[-len(good) :], *([seed[good]] * model.num_parameters)]
    x = _simulated(model, np.concatenate(thetas), np.concatenate(seeds), executor).x
    again, rekeyed, *moved = x.reshape(len(thetas), len(good), *model.data_shape)
    reference = made.x[good]
    if np.array_equal(again, reference):
        yield Finding("The same seed gives the same x.")
    else:
        yield Finding(
            "The same seed and theta give different x: the simulator draws random numbers elsewhere than from the "
            "generator, or the seed, that it is given. Use that only.",
            problem=True,
        )
    yield noise_finding(reference, rekeyed)
    yield idle_finding(model, reference, np.stack(moved))


def _simulated(model: Model, theta: np.ndarray, seed: np.ndarray, executor: Where) -> Made:
    theta = theta.astype(jax.dtypes.canonicalize_dtype(float))
    maker = Outside(model, lambda rows: Draws(theta[rows.start : rows.stop], seed[rows.start : rows.stop]))
    with workers_of(executor) as workers:
        parts = {rows.start: made for rows, made in dispatch(maker, [range(len(theta))], workers)}
    ordered = [parts[start] for start in sorted(parts)]
    errors = [text for part in ordered for text in part.errors]
    theta, x, status, seconds = (np.concatenate([part[column] for part in ordered]) for column in range(4))
    return Made(theta, x, status, seconds, errors)
