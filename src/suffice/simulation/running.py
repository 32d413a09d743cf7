"""The verb: draw θ from the prior and x from the simulator, the same numbers however they are made."""

import os
import warnings
from pathlib import Path

import numpy as np
from jaxtyping import PRNGKeyArray

from suffice.errors import SimulationWarning
from suffice.model import Model, require_model
from suffice.progress import bar
from suffice.randomness import require_key
from suffice.simulation.blocks import LANES
from suffice.simulation.checking import require_sound
from suffice.simulation.dispatch import dispatch
from suffice.simulation.executors import Where, workers_of
from suffice.simulation.failures import Judge, failure_sentence
from suffice.simulation.makers import maker_of
from suffice.simulation.simulations import Simulations, Status
from suffice.simulation.sinks import sink_of

MAX_SIMULATIONS = 2**32  # what fold_in can tell apart


def simulate(
    key: PRNGKeyArray,
    model: Model,
    num: int,
    *,
    store: str | os.PathLike[str] | None = None,
    shard: tuple[int, int] | None = None,
    executor: Where = None,
    progress: bool = True,
) -> Simulations:
    """Draw `num` pairs θ ~ prior, x ~ simulator(θ).

    Simulations that fail or leave the support are kept, marked in `.status`, explained in `.errors` and warned of.
    Each simulation depends on the key and its own number alone: workers, stores and shards change nothing.

    Args:
        key: decides everything.
        model: what is simulated.
        num: how many simulations.
        store: a folder to which they are written as they are made. A second call with the same key and model goes on
            where the first was killed, or to a larger `num`; nothing that is finished is made again.
        shard: (i, n) makes the i-th of n parts of the run (i from 1 on) in a store of its own, for job arrays; `merge`
            joins the parts.
        executor: None for all cores of this machine; a number of processes; any `concurrent.futures.Executor`; a
            `dask.distributed.Client` or the address of its scheduler.
        progress: whether to show a bar.

    >>> import jax, suffice as sf
    >>> sf.simulate(jax.random.key(0), sf.zoo.gamma(), 1000)
    Simulations(1000 of x(10,), theta(k, theta), 0 failed)
    """
    key = require_key(key)
    require_model(model)
    if isinstance(num, bool) or not isinstance(num, int | np.integer) or not 0 < num <= MAX_SIMULATIONS:
        raise ValueError(f"num is {num!r}, but must be a whole number of simulations between 1 and {MAX_SIMULATIONS}.")
    path = None if store is None else Path(store)
    with sink_of(key, model, int(num), path, shard) as sink, workers_of(executor) as workers:
        waiting = sink.missing()
        seconds = require_sound(model, key)[1] / LANES if model.traceable and waiting else 0.0
        judge, failed = Judge(model), 0
        with bar(int(num), "simulating", show=progress) as advance:
            advance(int(num) - sum(map(len, waiting)))
            for rows, made in dispatch(maker_of(key, model, seconds), waiting, workers):
                judge.look(made)
                sink.put(rows, made)
                failed += int(np.sum(made.status != Status.GOOD))
                advance(len(rows), f"{failed} failed" if failed else "")
        sims = sink.simulations()
    if sims.num_good < len(sims):
        warnings.warn(failure_sentence(sims), SimulationWarning, stacklevel=2)
    return sims
