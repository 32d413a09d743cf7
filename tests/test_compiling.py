"""Compiler options are taken by the CPU's compiler, left out where it does not know them, and given to no other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from suffice import compiling


def test_options_are_taken_by_the_compiler(key: jax.Array) -> None:
    x = jax.random.normal(key, (7, 5))
    options = compiling.compiler_options()
    assert options["xla_cpu_prefer_vector_width"] == "512"
    found = jax.jit(lambda x: jnp.sum(jnp.tanh(x @ x.T)), compiler_options=options)(x)
    np.testing.assert_allclose(found, np.tanh(np.asarray(x) @ np.asarray(x).T).sum(), rtol=1e-5)


def test_options_that_the_compiler_does_not_know_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "_WANTED", {"xla_cpu_of_the_future": True, "xla_cpu_prefer_vector_width": "256"})
    assert compiling.compiler_options() == {"xla_cpu_prefer_vector_width": "256"}


def test_other_backends_are_given_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert compiling.compiler_options() == {}
