"""Simulations from and to arrays and tables of other libraries."""

import jax
import numpy as np
import pandas as pd
import pytest

import suffice as sf
from suffice.simulation import Status


@pytest.fixture(scope="module")
def sims() -> sf.Simulations:
    return sf.simulate(jax.random.key(1), sf.zoo.gamma(), 300)


def test_arrays_make_the_same_simulations_and_the_same_fit(sims: sf.Simulations) -> None:
    model, training = sf.zoo.gamma(), sf.Training(epochs=1, batch_size=100)
    again = sf.Simulations.from_arrays(sims.theta, sims.x, model.names)
    assert again.key is None
    fits = [sf.fit(jax.random.key(2), model, each, training=training) for each in (sims, again)]
    np.testing.assert_array_equal(*(fit.statistics(sims.x[:5]) for fit in fits))


def test_names_come_from_the_columns_of_a_frame(sims: sf.Simulations) -> None:
    frame = pd.DataFrame(sims.theta, columns=list(sims.names))
    assert sf.Simulations.from_arrays(frame, sims.x).names == sims.names
    assert sf.Simulations.from_arrays(sims.theta, sims.x).names == ("theta1", "theta2")


def test_rows_that_are_not_finite_are_failures() -> None:
    x = np.ones((4, 3))
    x[1, 2] = np.nan
    theta = np.ones((4, 1))
    theta[3, 0] = np.inf
    found = sf.Simulations.from_arrays(theta, x)
    assert [Status(value).name for value in found.status] == ["GOOD", "NOT_FINITE", "GOOD", "NOT_FINITE"]


@pytest.mark.parametrize(
    ("theta", "x", "names", "words"),
    [
        (np.ones(3), np.ones((3, 2)), None, r"theta has shape \(3,\)"),
        (np.ones((3, 1)), np.ones((2, 2)), None, "one row a simulation in each"),
        (np.ones((3, 2)), np.ones((3, 2)), ["a"], "2 columns: give a name for each"),
        (np.ones((3, 2)), np.ones((3, 2)), ["a", "a"], "2 columns: give a name for each"),
    ],
)
def test_wrong_arrays_are_refused(theta: np.ndarray, x: np.ndarray, names: list[str] | None, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        sf.Simulations.from_arrays(theta, x, names)


def test_a_table_holds_every_number_once(sims: sf.Simulations) -> None:
    table = sims.to_pandas()
    assert list(table.columns) == ["k", "theta", *(f"x{i}" for i in range(1, 11)), "status"]
    np.testing.assert_array_equal(table[["k", "theta"]], sims.theta)
    np.testing.assert_array_equal(table.loc[:, "x1":"x10"], sims.x)
    assert set(table["status"]) == {"GOOD"}
    series = sf.Simulations.from_arrays(np.ones((2, 1)), np.arange(12.0).reshape(2, 3, 2)).to_pandas()
    np.testing.assert_array_equal(series["x3_1"], [4.0, 10.0])


def test_they_survive_a_file(sims: sf.Simulations, tmp_path: object) -> None:
    made = sf.Simulations.from_arrays(sims.theta, sims.x, sims.names)
    again = sf.load(made.save(f"{tmp_path}/pairs.npz"))
    np.testing.assert_array_equal(again.x, sims.x)
    assert again.names == sims.names
