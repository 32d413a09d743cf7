"""Estimates of a log-likelihood by fresh simulations at many θ: compiled, in bounded memory, on all cores."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PRNGKeyArray

from suffice.simulation.executors import available_cores
from suffice.surrogates.summaries import Summaries

LANES = 1024  # simulations made at once
NUMBERS = 2**21  # numbers in the x of simulations made at once, at most
HOST_NUMBERS = 2**25  # the same where they are made on the host
PIECES = 4  # calls of the compiled program for each worker, between which progress is shown


@runtime_checkable
class Estimator(Protocol):
    """A surrogate of the log-likelihood at one θ, from statistics of simulations at that θ; JAX code."""

    def log_likelihood(
        self, rows: Float[Array, "n s"], good: Bool[Array, " n"], evidence: Float[Array, "r s"]
    ) -> Float[Array, ""]:
        """The estimate, summed over the iid replicates in `evidence`; −inf where there are too few good rows."""
        ...


class Estimates(NamedTuple):
    """Estimated log-likelihoods, and how many simulations failed at each θ."""

    values: Float[Array | np.ndarray, "*n"]
    failed: Int[Array | np.ndarray, "*n"]


class Likelihood(eqx.Module):
    """The estimated log-likelihood: statistics, the surrogate of their density, and simulations at each θ."""

    summaries: Summaries = eqx.field(static=True)
    estimator: Estimator
    simulations: int = eqx.field(static=True)

    @property
    def group(self) -> int:
        """How many θ are simulated at once."""
        numbers = self.simulations * self.summaries.model.data_size
        return max(1, min(LANES // self.simulations, NUMBERS // numbers))

    def traced(self, keys: Key[Array, " n"], theta: Float[Array, "n p"], evidence: Float[Array, "n r s"]) -> Estimates:
        """The estimates at rows of θ, each with a key and evidence of its own; JAX code."""
        one = partial(_estimate, self.summaries, self.estimator, self.simulations)
        num, group = len(theta), min(self.group, len(theta))
        order = np.minimum(np.arange(-(-num // group) * group), num - 1).reshape(-1, group)
        rows = (keys[order], theta[order], evidence[order])
        if group == 1:
            found = jax.lax.map(lambda row: one(*row), jax.tree.map(lambda part: part[:, 0], rows))
        else:
            found = jax.lax.map(lambda row: jax.vmap(one)(*row), rows)
        return jax.tree.map(lambda part: part.reshape(-1)[:num], found)

    def on_host(
        self, keys: Key[Array, " n"], theta: Float[np.ndarray, "n p"], evidence: Float[np.ndarray, "n r s"]
    ) -> Estimates:
        """The same where simulator or statistics are no JAX code: many θ in one batch of simulations."""
        size = max(1, HOST_NUMBERS // (self.simulations * self.summaries.model.data_size))
        parts = []
        for start in range(0, len(theta), size):
            part = slice(start, start + size)
            rows, good = self.summaries.simulated(keys[start], np.repeat(theta[part], self.simulations, axis=0))
            shape = (-1, self.simulations)
            rows, good = rows.reshape(*shape, rows.shape[1]), good.reshape(shape)
            values = _log_likelihoods(self.estimator, *map(jnp.asarray, (rows, good, evidence[part])))
            parts.append(Estimates(np.asarray(values), np.sum(~good, axis=1)))
        return Estimates(*(np.concatenate(values) for values in zip(*parts, strict=True)))

    def at(
        self,
        key: PRNGKeyArray,
        theta: Float[np.ndarray, "n p"],
        evidence: Float[np.ndarray, "r s"],
        done: Callable[[int], None] = lambda _: None,
    ) -> Estimates:
        """The estimates at rows of θ, given one observation; row i uses `fold_in(key, i)`, on whatever core."""
        num, workers = len(theta), available_cores()
        if not self.summaries.traced:
            keys = jax.vmap(jax.random.fold_in, (None, 0))(key, np.arange(num, dtype=np.uint32))
            found = self.on_host(keys, theta, np.broadcast_to(evidence, (num, *evidence.shape)))
            done(num)
            return found
        size = -(-num // (PIECES * workers))
        size = min(num, -(-size // self.group) * self.group)
        rows = [np.minimum(np.arange(size) + start, num - 1) for start in range(0, num, size)]
        double = jax.enable_x64.value  # a thread does not inherit it

        def estimate(part: Int[np.ndarray, " piece"]) -> Estimates:
            with jax.enable_x64(double):
                arrays = map(jnp.asarray, (part.astype(np.uint32), theta[part], evidence))
                found = _traced(self, key, *arrays)
                values = Estimates(*(np.asarray(values) for values in found))
            done(size)
            return values

        with ThreadPoolExecutor(workers) as pool:
            parts = [estimate(rows[0]), *pool.map(estimate, rows[1:])]  # the first goes ahead: it compiles once
        return Estimates(*(np.concatenate(values)[:num] for values in zip(*parts, strict=True)))


def _estimate(
    summaries: Summaries,
    estimator: Estimator,
    number: int,
    key: PRNGKeyArray,
    theta: Float[Array, " p"],
    evidence: Float[Array, "r s"],
) -> Estimates:
    rows, good = summaries.traced_simulated(key, theta, number)
    return Estimates(estimator.log_likelihood(rows, good, evidence), jnp.sum(~good))


@eqx.filter_jit
def _traced(likelihood: Likelihood, key: PRNGKeyArray, indices: Array, theta: Array, evidence: Array) -> Estimates:
    keys = jax.vmap(jax.random.fold_in, (None, 0))(key, indices)
    return likelihood.traced(keys, theta, jnp.broadcast_to(evidence, (len(theta), *evidence.shape)))


@eqx.filter_jit
def _log_likelihoods(estimator: Estimator, rows: Array, good: Array, evidence: Array) -> Array:
    return jax.lax.map(lambda row: estimator.log_likelihood(*row), (rows, good, evidence))
