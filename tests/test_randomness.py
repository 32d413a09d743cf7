"""The fast generator gives JAX's own numbers, bit for bit."""

from collections.abc import Callable

import jax
import numpy as np
import pytest

from suffice.randomness import fast, key_from_record, key_record

USES: dict[str, Callable[[jax.Array], jax.Array]] = {
    "normal": lambda key: jax.random.normal(key, (7, 3)),
    "gamma": lambda key: jax.random.gamma(key, 1.3, (50,)),
    "permutation": lambda key: jax.random.permutation(key, 20),
    "bytes": lambda key: jax.random.bits(key, (5,), np.uint8),
    "scalar": lambda key: jax.random.uniform(key),
    "split": lambda key: jax.random.key_data(jax.random.split(key, (2, 3))),
    "fold": lambda key: jax.random.normal(jax.random.fold_in(key, 3), (4,)),
    "vectorised": lambda key: jax.vmap(lambda i: jax.random.normal(jax.random.fold_in(key, i), (9,)))(np.arange(5)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
@pytest.mark.parametrize("seed", [0, 123456789])
def test_the_same_numbers(use: Callable[[jax.Array], jax.Array], seed: int) -> None:
    key = jax.random.key(seed)
    reference = np.asarray(use(key))
    assert np.array_equal(reference, np.asarray(use(fast(key))))
    assert np.array_equal(reference, np.asarray(jax.jit(use)(fast(key))))


def test_the_same_numbers_in_float64(float64: None) -> None:
    key = jax.random.key(1)
    assert np.array_equal(jax.random.normal(key, (6,)), jax.random.normal(fast(key), (6,)))


def test_other_generators_are_left_alone() -> None:
    key = jax.random.key(0, impl="rbg")
    assert fast(key) is key


def test_keys_can_be_written_down() -> None:
    for key in (jax.random.key(42), jax.random.key(7, impl="rbg")):
        assert key_from_record(key_record(key)) == key
