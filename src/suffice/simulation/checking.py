"""`check`: everything that can be found wrong with a model in a second, before anything long runs, in sentences."""

import time
from collections.abc import Iterator
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import checkify
from jaxtyping import PRNGKeyArray

from suffice.charts import Chart, describe
from suffice.errors import ModelError, SupportError
from suffice.model import Model, require_model
from suffice.randomness import require_key
from suffice.simulation.blocks import LANES, Pairs, simulate_block
from suffice.simulation.checking_outside import outside_findings
from suffice.simulation.executors import Where
from suffice.simulation.findings import Check, Finding, idle_finding, named, noise_finding
from suffice.simulation.simulations import Status

WORTHLESS = 0.5  # share of failed simulations in the first block at which a run is refused
TRIALS = 32  # pairs of key and θ at which the effect of each is looked at


def check(model: Model, *, key: PRNGKeyArray | None = None, executor: Where = None) -> Check:
    """Try `model` out on a few hundred simulations and say what was seen, in sentences.

    The same key (0 if not given) gives the same answer, but for the seconds. `executor` says where a simulator that is
    no JAX code runs, as for `simulate`.

    >>> import suffice as sf
    >>> sf.check(sf.zoo.ar2()).ok
    True
    """
    require_model(model)
    key = require_key(jax.random.key(0) if key is None else key)
    return Check(tuple(_findings(key, model, executor)))


def _findings(key: PRNGKeyArray, model: Model, executor: Where) -> Iterator[Finding]:
    key_block, key_theta, key_x = jax.random.split(key, 3)
    yield Finding(f"The prior draws {model.num_parameters} parameters: {', '.join(model.names)}.")
    yield _shape_finding(model)
    if not model.traceable:
        yield from outside_findings(model, key_block, key_theta, executor)
        return
    stray = _stray_index(model)
    if stray:
        yield Finding(stray, problem=True)
        return
    block, seconds = _first_group(model, key_block)
    theta, x, status = (np.asarray(part) for part in block)
    yield _finite_finding(model, theta, status)
    yield _support_finding(model, x, status)
    yield _repeat_finding(model)
    yield from _variation_findings(model, key_theta, key_x)
    if model.log_likelihood is not None:
        yield _likelihood_finding(model, theta[status == Status.GOOD], x[status == Status.GOOD])
    yield Finding(f"10,000 simulations take about {10_000 / LANES * seconds:.2g} s on one core.")


def require_sound(model: Model, key: PRNGKeyArray) -> tuple[Pairs, float]:
    """The first group of the run with `key`, and its seconds; a `ModelError` if a longer run would be worthless."""
    stray = _stray_index(model)
    if stray:
        raise ModelError(stray)
    block, seconds = _first_group(model, key)
    theta, status = np.asarray(block.theta), np.asarray(block.status)
    for failure, remedy in {
        Status.NOT_FINITE: "are not finite. Mend the simulator, or narrow the prior to where it works",
        Status.OUTSIDE_SUPPORT: f"lie on or outside the declared support, {describe(model.support)}. Declare the "
        "support that x really has",
    }.items():
        bad = status == failure
        if np.mean(bad) > WORTHLESS:
            raise ModelError(
                f"{bad.sum()} of the first {len(status)} simulations {remedy}; an example is "
                f"{named(model, theta[np.argmax(bad)])}. suffice.check(model) tells more."
            )
    return block, seconds


def _first_group(model: Model, key: PRNGKeyArray) -> tuple[Pairs, float]:
    """One group of simulations, as numpy arrays, and the seconds it takes once compiled."""
    for _ in range(2):
        began = time.perf_counter()
        block = jax.block_until_ready(simulate_block(model, key, np.int64(0), np.int64(1)))
        seconds = time.perf_counter() - began
    return Pairs(*(np.asarray(part)[:LANES] for part in block)), seconds


@cache
def _stray_index(model: Model) -> str | None:
    """A sentence if the simulator reads a θ[i] that the prior does not draw (JAX would silently take the last)."""
    p = model.num_parameters
    checked = checkify.checkify(model.simulator, errors=checkify.index_checks)
    error, _ = jax.jit(checked)(jax.random.key(0), model.prior.sample(jax.random.key(0)))
    message = error.get()
    if not message or f"array of shape ({p},)" not in message:
        return None
    what = message.split(": ", 1)[-1].splitlines()[0].rstrip(". ")
    return (
        f"The simulator reads an entry of theta that the prior does not draw ({what}). Make prior and simulator agree "
        f"on the number of parameters; the prior has {p}: {', '.join(model.names)}."
    )


def _shape_finding(model: Model) -> Finding:
    kind = {1: "vector of {0} values", 2: "series of {0} time steps of {1} variables"}[len(model.data_shape)]
    order = model.markov_order
    structure = "" if order is None else f", Markov of order {order}"
    structure += ", iid given theta" if model.exchangeable else ""
    kind = kind if order is None or len(model.data_shape) == 2 else "series of {0} values"
    return Finding(f"x is a {kind.format(*model.data_shape)}{structure}.")


def _finite_finding(model: Model, theta: np.ndarray, status: np.ndarray) -> Finding:
    bad = status == Status.NOT_FINITE
    if not bad.any():
        return Finding(f"All of {len(status)} simulations are finite.")
    return Finding(
        f"{bad.sum()} of {len(status)} simulations are not finite, such as at {named(model, theta[np.argmax(bad)])}. "
        "Mend the simulator there, or narrow the prior.",
        problem=True,
    )


def _support_finding(model: Model, x: np.ndarray, status: np.ndarray) -> Finding:
    finite = x[status != Status.NOT_FINITE]
    try:
        Chart.unscaled(model.support, model.data_shape).require_inside(finite, what="x")
    except SupportError as error:
        return Finding(str(error), problem=True)
    return Finding(f"x stays inside its support: {describe(model.support)}.")


def _repeat_finding(model: Model) -> Finding:
    # Numbers drawn elsewhere than from the key would be frozen into the traced program: two traces would differ.
    theta = jax.ShapeDtypeStruct((model.num_parameters,), jax.dtypes.canonicalize_dtype(float))
    first, again = (jax.make_jaxpr(lambda k, t: model.simulator(k, t))(jax.random.key(0), theta) for _ in range(2))
    same = str(first) == str(again) and all(map(np.array_equal, first.consts, again.consts))
    if same:
        return Finding("The same key gives the same x.")
    return Finding(
        "The same key and theta give different x: the simulator draws random numbers elsewhere than from its key. "
        "Use jax.random with that key only.",
        problem=True,
    )


def _variation_findings(model: Model, key_theta: PRNGKeyArray, key_x: PRNGKeyArray) -> Iterator[Finding]:
    """Whether x varies with the key at a fixed θ, and with each parameter at a fixed key."""
    p = model.num_parameters
    theta, other = model.prior.sample(key_theta, (2, TRIALS))
    keys = jax.random.split(key_x, TRIALS)
    # For each of TRIALS pairs (key, θ): that pair, another key, and p times another value of one parameter.
    thetas = jnp.stack([theta, theta, *(theta.at[:, i].set(other[:, i]) for i in range(p))])
    all_keys = jnp.stack([keys, jnp.roll(keys, 1), *([keys] * p)])
    x = np.asarray(jax.jit(jax.vmap(jax.vmap(model.simulator)))(all_keys, thetas))
    reference, rekeyed, moved = x[0], x[1], x[2:]
    yield noise_finding(reference, rekeyed)
    yield idle_finding(model, reference, moved)


def _likelihood_finding(model: Model, theta: np.ndarray, x: np.ndarray) -> Finding:
    assert model.log_likelihood is not None
    values = np.asarray(jax.vmap(model.log_likelihood)(jnp.asarray(x), jnp.asarray(theta)))
    if values.shape != (len(theta),):
        return Finding(f"log_likelihood(x, theta) has shape {values.shape[1:]}, but must be a scalar.", problem=True)
    if not np.isfinite(values).all():
        return Finding(f"log_likelihood is not finite at {np.sum(~np.isfinite(values))} simulations.", problem=True)
    return Finding("log_likelihood is finite at every simulation.")
