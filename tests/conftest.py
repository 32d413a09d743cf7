"""Shared by all tests: the compilation cache, the random keys."""

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import jax
import jaxtyping
import pytest

# One cache for each worker: two of them must not write the same entry at once.
CACHE = Path(__file__).parent.parent / ".cache" / "jax" / os.environ.get("PYTEST_XDIST_WORKER", "alone")
jax.config.update("jax_compilation_cache_dir", str(CACHE))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)
# Most tests compile much and run little, so programs are not optimised; tests that run long ask for `optimised`.
jax.config.update("jax_disable_most_optimizations", True)

# Files that take longest, longest first.
LONGEST = (
    "tests/sampling/test_exchange.py",
    "tests/test_docs.py",
    "tests/test_cli.py",
    "tests/sampling/test_direct.py",
    "tests/fitting/test_fit.py",
    "tests/statistical/test_score_matching.py",
    "tests/family/test_normaliser.py",
    "tests/matching/test_objectives.py",
    "tests/oracles/test_derivatives.py",
    "tests/experiments/test_reproduce.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first: at the end no worker waits for another that has just begun one."""
    place = {name: i for i, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.nodeid.split("::")[0], len(LONGEST)))


MOST_MAPPINGS = 25_000  # of memory, of which every compiled program takes some; Linux allows a process 65,530


@pytest.fixture(scope="module", autouse=True)
def programs_are_dropped() -> Iterator[None]:
    """A worker that compiles for hundreds of tests would run out of mappings, and crash in the compiler."""
    yield
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > MOST_MAPPINGS:
        jax.clear_caches()
        gc.collect()


@pytest.fixture
def key() -> jax.Array:
    return jax.random.key(20260101)


@pytest.fixture
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="module")
def optimised() -> Iterator[None]:
    """Programs as users run them: slower to compile, faster to run."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def unchecked_types() -> Iterator[None]:
    """Without run-time type checks, as users run it: for tests of what the library itself says of wrong types."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
