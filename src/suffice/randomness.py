"""Random keys: the only source of randomness, checked at the door and written down with every result."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.random import define_prng_impl
from jaxtyping import Array, Key, PRNGKeyArray

FEWEST = 32  # numbers in one draw from which on the written-out rounds are faster


def require_key(key: Any) -> PRNGKeyArray:
    """`key` as one typed JAX key; a sentence instead of a stack trace for anything else."""
    if isinstance(key, jax.Array) and key.shape == () and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key):
        return key
    if isinstance(key, jax.Array) and key.shape == (2,) and key.dtype == np.uint32:
        return jax.random.wrap_key_data(key)
    raise TypeError(f"key is {key!r}, but must be one JAX random key: jax.random.key(0), or a piece of a split one.")


def key_record(key: PRNGKeyArray) -> dict[str, Any]:
    """The key as plain values that can be written to a file."""
    return {
        "implementation": str(jax.random.key_impl(key)),
        "data": np.asarray(jax.random.key_data(key)).tolist(),
    }


def key_from_record(record: dict[str, Any]) -> PRNGKeyArray:
    """The key that `key_record` wrote."""
    data = jnp.asarray(record["data"], dtype=np.uint32)
    return jax.random.wrap_key_data(data, impl=record["implementation"])


def fast(key: Key[Array, "..."]) -> Key[Array, "..."]:
    """The same key with the same numbers, made several times faster on the CPU.

    JAX compiles its Threefry generator for the CPU as a loop over rounds that runs through memory; written out, the
    rounds fuse with whatever uses the numbers. For uniform, normal and the like: JAX makes Gamma and Poisson numbers
    from its own keys only, or faster. Keys of another generator are given back as they are.
    """
    if str(jax.random.key_impl(key)) != "threefry2x32":
        return key
    return jax.random.wrap_key_data(jax.random.key_data(key), impl=_unrolled_threefry)


def _plain(key_data: Array) -> PRNGKeyArray:
    return jax.random.wrap_key_data(key_data, impl="threefry2x32")


def _random_bits(key_data: Array, bit_width: int, shape: tuple[int, ...]) -> Array:
    size = math.prod(shape)
    written_out = FEWEST <= size < 2**32 and bit_width == 32 and jax.threefry_partitionable.value
    if not written_out:
        return jax.random.bits(_plain(key_data), shape, np.dtype(f"uint{bit_width}"))
    counts = jax.lax.iota(np.uint32, size)
    low, high = _threefry(key_data[0], key_data[1], jnp.zeros_like(counts), counts)
    return (low ^ high).reshape(shape)


def _threefry(key0: Array, key1: Array, x0: Array, x1: Array) -> tuple[Array, Array]:
    """Threefry-2x32 with 20 rounds (Salmon et al., 2011), written out."""
    keys = (key0, key1, key0 ^ key1 ^ np.uint32(0x1BD11BDA))
    x0, x1 = x0 + keys[0], x1 + keys[1]
    for step in range(5):
        for turn in ((13, 15, 26, 6), (17, 29, 16, 24))[step % 2]:
            x0 = x0 + x1
            x1 = x0 ^ ((x1 << np.uint32(turn)) | (x1 >> np.uint32(32 - turn)))
        x0 = x0 + keys[(step + 1) % 3]
        x1 = x1 + keys[(step + 2) % 3] + np.uint32(step + 1)
    return x0, x1


_unrolled_threefry = define_prng_impl(
    key_shape=(2,),
    seed=lambda seed: jax.random.key_data(jax.random.key(seed, impl="threefry2x32")),
    split=lambda key_data, shape: jax.random.key_data(jax.random.split(_plain(key_data), shape)),
    random_bits=_random_bits,
    fold_in=lambda key_data, data: jax.random.key_data(jax.random.fold_in(_plain(key_data), data)),
    name="threefry2x32_unrolled",
    tag="3fu",
)
