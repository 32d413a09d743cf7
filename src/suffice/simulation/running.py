"""The verb: draw θ from the prior and x from the simulator, in blocks, the same numbers however they are made."""

import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from suffice.errors import SimulationWarning
from suffice.model import Model
from suffice.progress import bar
from suffice.randomness import key_record, require_key
from suffice.simulation.blocks import LANES, max_groups, simulate_block
from suffice.simulation.checking import require_sound
from suffice.simulation.simulations import Simulations, Status

TICK = 0.5  # seconds that one block should take at most
MAX_SIMULATIONS = 2**32  # what fold_in can tell apart


def simulate(key: PRNGKeyArray, model: Model, num: int, *, progress: bool = True) -> Simulations:
    """Draw `num` pairs θ ~ prior, x ~ simulator(θ).

    Simulations that are not finite or leave the support are kept, marked in `.status` and warned of.

    >>> import jax, suffice as sf
    >>> sf.simulate(jax.random.key(0), sf.zoo.gamma(), 1000)
    Simulations(1000 of x(10,), theta(k, theta), 0 failed)
    """
    key = require_key(key)
    if isinstance(num, bool) or not isinstance(num, int | np.integer) or not 0 < num <= MAX_SIMULATIONS:
        raise ValueError(f"num is {num!r}, but must be a whole number of simulations between 1 and {MAX_SIMULATIONS}.")
    num = int(num)
    first, seconds = require_sound(model, key)
    double = jax.enable_x64.value  # a thread does not inherit it

    theta = np.empty((num, model.num_parameters), first.theta.dtype)
    x = np.empty((num, *model.data_shape), first.x.dtype)
    status = np.empty(num, np.int8)

    def run(groups: range) -> int:
        with jax.enable_x64(double):
            block = simulate_block(model, key, np.int64(groups.start), np.int64(len(groups)))
        rows = slice(groups.start * LANES, min(groups.stop * LANES, num))
        kept = rows.stop - rows.start
        theta[rows], x[rows], status[rows] = (np.asarray(part)[:kept] for part in block)
        return kept

    size = max(1, min(max_groups(model), int(TICK / seconds)))
    groups = range(-(-num // LANES))
    blocks = [groups[start : start + size] for start in range(0, len(groups), size)]
    with ThreadPoolExecutor(os.cpu_count()) as pool, bar(num, "simulating", show=progress) as advance:
        for kept in pool.map(run, blocks):
            advance(kept)

    record = {"key": key_record(key), "num": num, "versions": _versions()}
    sims = Simulations(theta, x, status, model.names, (record,))
    if sims.num_good < num:
        warnings.warn(_failure_sentence(sims), SimulationWarning, stacklevel=2)
    return sims


def _failure_sentence(sims: Simulations) -> str:
    kinds = {
        Status.NOT_FINITE: "are not finite",
        Status.OUTSIDE_SUPPORT: "lie on or outside the declared support",
    }
    counts = {words: int(np.sum(sims.status == kind)) for kind, words in kinds.items()}
    what = " and ".join(f"{count} {words}" for words, count in counts.items() if count)
    return (
        f"Of {len(sims)} simulations {what}. They are kept and marked in .status; only .good ones should be used. "
        f"{_failure_region(sims)} If failures depend on theta, leaving them out biases the fit."
    )


def _failure_region(sims: Simulations) -> str:
    """The parameter whose values differ most between failed and good simulations, and where the failed ones lie."""
    failed = sims.status != Status.GOOD
    ranges = np.quantile(sims.theta, [0.05, 0.95], axis=0)
    failed_ranges = np.quantile(sims.theta[failed], [0.05, 0.95], axis=0)
    # The share of the parameter's usual range that failures fill: the smallest share names the region.
    share = np.diff(failed_ranges, axis=0)[0] / np.diff(ranges, axis=0)[0]
    worst = int(np.argmin(share))
    low, high = failed_ranges[:, worst]
    return (
        f"Failures lie at {sims.names[worst]} from {low:.4g} to {high:.4g} (their 5% to 95% range; "
        f"{ranges[0, worst]:.4g} to {ranges[1, worst]:.4g} for all simulations)."
    )


def _versions() -> dict[str, str]:
    return {name: version(name) for name in ("suffice", "jax", "numpyro")}
