"""The value `Simulations`: slices, splits, joins, files."""

from pathlib import Path

import jax
import numpy as np
import pytest

import suffice as sf


@pytest.fixture(scope="module")
def sims() -> sf.Simulations:
    return sf.simulate(jax.random.key(1), sf.zoo.gamma(), 300)


def same(one: sf.Simulations, other: sf.Simulations) -> bool:
    parts = ("theta", "x", "status")
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in parts)


def test_numpy_out(sims: sf.Simulations) -> None:
    assert isinstance(sims.theta, np.ndarray)
    assert isinstance(sims.x, np.ndarray)
    assert repr(sims) == "Simulations(300 of x(10,), theta(k, theta), 0 failed)"


@pytest.mark.parametrize(("first", "number"), [(0.9, 270), (100, 100)])
def test_split_and_join(sims: sf.Simulations, first: int | float, number: int) -> None:
    train, test = sims.split(first)
    assert (len(train), len(test)) == (number, 300 - number)
    assert same(train.concatenate(test), sims)
    assert len(train.concatenate(test).provenance) == 1


@pytest.mark.parametrize("first", [0, 300, 1.0, -3])
def test_an_empty_side_is_refused(sims: sf.Simulations, first: int | float) -> None:
    with pytest.raises(ValueError, match="leaves one side empty"):
        sims.split(first)


def test_joining_the_same_simulations_twice_is_refused(sims: sf.Simulations) -> None:
    with pytest.raises(ValueError, match=r"300 of the simulations to be joined occur twice.*key of its own"):
        sims.concatenate(sims)


def test_joining_two_runs(sims: sf.Simulations) -> None:
    other = sf.simulate(jax.random.key(2), sf.zoo.gamma(), 50)
    both = sims.concatenate(other)
    assert len(both) == 350
    assert len(both.provenance) == 2
    assert both.key is None
    assert sims.key == jax.random.key(1)


def test_joining_different_models_is_refused(sims: sf.Simulations) -> None:
    with pytest.raises(ValueError, match="different models"):
        sims.concatenate(sf.simulate(jax.random.key(2), sf.zoo.beta(), 50))


def test_save_and_load(sims: sf.Simulations, tmp_path: Path) -> None:
    loaded = sf.load(sims.save(tmp_path / "sims.npz"))
    assert same(loaded, sims)
    assert loaded.names == sims.names
    assert loaded.provenance == sims.provenance
    assert loaded.key == jax.random.key(1)
    with np.load(tmp_path / "sims.npz") as plain:  # anyone's numpy reads it
        assert np.array_equal(plain["theta"], sims.theta)


def test_the_same_seed_gives_the_same_file(sims: sf.Simulations, tmp_path: Path) -> None:
    again = sf.simulate(jax.random.key(1), sf.zoo.gamma(), 300)
    assert sims.save(tmp_path / "a").read_bytes() == again.save(tmp_path / "b").read_bytes()
