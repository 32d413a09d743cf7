"""Fits to stores that are larger than memory."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import suffice as sf
from suffice.fitting import streaming
from suffice.fitting.streaming import Blocks, resident, stream_epochs
from suffice.simulation import StoredRows

SETTINGS = sf.Training(epochs=6, batch_size=250, check_every=2)


@pytest.fixture
def lazy(gamma_sims: sf.Simulations, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> sf.Simulations:
    """The simulations of `gamma_sims`, in a store of which little is held in memory."""
    monkeypatch.setattr(streaming, "BLOCK_BYTES", 40 * 700)
    monkeypatch.setattr(streaming, "SAMPLE_ROWS", 900)
    assert gamma_sims.key is not None
    made = sf.simulate(gamma_sims.key, sf.zoo.gamma(), len(gamma_sims), store=tmp_path / "sims")
    np.testing.assert_array_equal(made.x, gamma_sims.x)
    return sf.Simulations.open(tmp_path / "sims", memory=0)


def blocks_of(sims: sf.Simulations) -> Blocks:
    chart = sf.zoo.gamma().data_chart(resident(sims).x)
    return Blocks(sims, chart, sf.PosteriorMean(), jnp.asarray(sims.theta[:10]), 250)


def test_blocks_are_the_rows_of_the_store(lazy: sf.Simulations, gamma_sims: sf.Simulations) -> None:
    blocks = blocks_of(lazy)
    assert (len(blocks), blocks.rows) == (4, 500)
    parts = [blocks.load(i) for i in range(4)]
    y = jax.vmap(blocks.chart.forward)(gamma_sims.x)
    np.testing.assert_allclose(np.concatenate([part.y for part in parts]), y, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(np.concatenate([part.theta for part in parts]), gamma_sims.theta)


def test_each_epoch_sees_each_block_once_in_an_order_of_its_own(lazy: sf.Simulations, key: jax.Array) -> None:
    blocks = blocks_of(lazy)
    seen: list[tuple[int, int]] = []

    def run(state: Any, key: jax.Array, epoch: int, pairs: Any) -> tuple[Any, float]:
        number = int(np.flatnonzero((lazy.theta[::500] == np.asarray(pairs.theta[0])).all(1))[0])
        seen.append((epoch, number))
        return state + 1, 10.0 * epoch + number

    state, losses = stream_epochs(run, 0, key, (3, 5), blocks)
    assert state == 20
    orders = [tuple(number for epoch, number in seen if epoch == wanted) for wanted in range(3, 8)]
    assert all(sorted(order) == [0, 1, 2, 3] for order in orders)
    assert len(set(orders)) > 1
    np.testing.assert_allclose(losses, 10.0 * np.arange(3, 8) + 1.5)


def test_a_streamed_fit_is_as_good(lazy: sf.Simulations, gamma_fit: sf.Fit, tmp_path: Path) -> None:
    """The loss on the same held-out data falls as that of the fit in memory, far below where it began."""
    fit = sf.fit(jax.random.key(1), sf.zoo.gamma(), lazy, training=SETTINGS)
    assert fit.history.epochs == 6
    whole, streamed = gamma_fit.history, fit.history
    fell = whole.train_loss[0] - whole.train_loss[-1]
    assert streamed.train_loss[0] - streamed.train_loss[-1] > 0.5 * fell
    assert fit.normaliser is not None
    assert fit.statistics(np.asarray(lazy.x[:3])).shape == (3, 5)
    again = sf.fit(jax.random.key(1), sf.zoo.gamma(), lazy, training=SETTINGS, checkpoint=tmp_path / "checkpoint")
    np.testing.assert_array_equal(again.history.train_loss, streamed.train_loss)
    resumed = sf.fit(jax.random.key(1), sf.zoo.gamma(), lazy, training=SETTINGS, checkpoint=tmp_path / "checkpoint")
    np.testing.assert_array_equal(resumed.statistics(lazy.x[:9]), again.statistics(lazy.x[:9]))


def test_a_sample_is_held_in_memory(lazy: sf.Simulations, gamma_sims: sf.Simulations) -> None:
    assert isinstance(lazy.x, StoredRows)
    sample = resident(lazy)
    assert isinstance(sample.x, np.ndarray)
    np.testing.assert_array_equal(sample.x, gamma_sims.x[:900])
    assert resident(gamma_sims) is gamma_sims
