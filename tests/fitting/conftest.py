"""Fits shared by the tests of this folder."""

import jax
import pytest

import suffice as sf

SETTINGS = sf.Training(epochs=6, batch_size=250, check_every=2)


@pytest.fixture(scope="session")
def gamma_sims() -> sf.Simulations:
    return sf.simulate(jax.random.key(0), sf.zoo.gamma(), 2000)


@pytest.fixture(scope="session")
def gamma_fit(gamma_sims: sf.Simulations) -> sf.Fit:
    return sf.fit(jax.random.key(1), sf.zoo.gamma(), gamma_sims, training=SETTINGS)
