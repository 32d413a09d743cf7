"""Training on simulations larger than memory: epochs go block by block through a store.

Rows of a store are independent draws, so consecutive ones are as good a block as any: the order of blocks and the rows
within a block are shuffled anew in every epoch, and the next block is read while one is trained on. Charts, the
standardisation of η, the normaliser and the envelope come from a sample of rows that is held in memory.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.charts import Chart
from suffice.matching.objectives import Batch, Objective
from suffice.simulation import Simulations, StoredRows

BLOCK_BYTES = 2**25  # of x in one block
SAMPLE_BYTES = 2**25  # of x in the sample, at most
SAMPLE_ROWS = 50_000  # in the sample, at most


def resident(sims: Simulations) -> Simulations:
    """The same simulations if they are in memory; the first of them, read into memory, if they are in a store."""
    if not isinstance(sims.x, StoredRows):
        return sims
    row_bytes = max(1, sims.x.nbytes // len(sims))
    sample = sims[: max(1, min(SAMPLE_ROWS, SAMPLE_BYTES // row_bytes))]
    return replace(sample, x=np.asarray(sample.x))


@dataclass(frozen=True, eq=False, repr=False)
class Blocks:
    """Training pairs in a store, read in blocks of the same number of rows.

    `theta` are parameters of the sample, over which η is standardised. Weights w(θ) are found for each block.
    """

    sims: Simulations
    chart: Chart
    objective: Objective
    theta: Float[Array, "m p"]
    batch: int
    weights: dict[int, Float[np.ndarray, " n"]] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows in a block: whole batches, and all blocks alike, so that one program trains on each."""
        wanted = max(1, -(-self.sims.x.nbytes // BLOCK_BYTES))
        return max(1, len(self.sims) // wanted // self.batch) * self.batch

    def __len__(self) -> int:
        return len(self.sims) // self.rows

    def __repr__(self) -> str:
        return f"Blocks({len(self)} of {self.rows} rows, {self.sims.provenance})"

    def load(self, number: int) -> Batch:
        """One block in the coordinates of the fit, weighted."""
        part = self.sims[number * self.rows : (number + 1) * self.rows]
        y = _forward(self.chart, jnp.asarray(np.asarray(part.x)))
        if number not in self.weights:
            self.weights[number] = np.asarray(self.objective.weights(np.asarray(y), part.theta))
        return Batch(y, jnp.asarray(part.theta), jnp.asarray(self.weights[number]))


def stream_epochs(
    run: Any, state: Any, key: PRNGKeyArray, window: tuple[int, int], blocks: Blocks
) -> tuple[Any, Array]:
    """The epochs of the window (first, count): `run(state, key, epoch, pairs)` on each block; the mean loss of each."""
    first, count = window
    double = jax.enable_x64.value
    order = [
        (epoch, int(number))
        for epoch in range(first, first + count)
        for number in jax.random.permutation(jax.random.fold_in(key, epoch), len(blocks))
    ]

    def load(place: int) -> Batch:
        with jax.enable_x64(double):
            return blocks.load(order[place][1])

    losses = np.zeros((count, len(blocks)))
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(load, 0)
        for place, (epoch, number) in enumerate(order):
            pairs = coming.result()
            if place + 1 < len(order):
                coming = reader.submit(load, place + 1)
            state, loss = run(state, jax.random.fold_in(key, number), epoch, pairs)
            losses[epoch - first, number] = float(loss)
    return state, jnp.asarray(losses.mean(1))


@eqx.filter_jit
def _forward(chart: Chart, x: Array) -> Array:
    return jax.vmap(chart.forward)(x)
