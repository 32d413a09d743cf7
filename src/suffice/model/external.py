"""Simulators that are no JAX code: any Python function, any program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cloudpickle
import jax
import numpy as np
from numpyro.distributions import Distribution

from suffice.errors import ModelError
from suffice.model.worker import GOOD, NOT_FINITE, Job, Outcome, run_chunk

TRIALS = 5  # θ at which a shape is looked for, at most


@dataclass(frozen=True, eq=False)
class External:
    """A function or a command, the seconds a simulation may take, and how often a failed one is tried again."""

    function: Callable[[dict[str, float], np.random.Generator], Any] | None
    argv: tuple[str, ...]
    time_limit: float | None = None
    retries: int = 0

    def __post_init__(self) -> None:
        if not self.argv and not callable(self.function):
            raise ModelError(
                f"The simulator is {self.function!r}, but must be a function(theta, rng) -> x, or a command such as "
                '["Rscript", "simulator.R"].'
            )
        if not all(isinstance(part, str) for part in self.argv):
            raise ModelError(f"The command is {self.argv!r}, but must be a list of strings.")
        if self.time_limit is not None and not self.time_limit > 0:
            raise ModelError(f"time_limit is {self.time_limit!r}, but must be a positive number of seconds, or None.")
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise ModelError(f"retries is {self.retries!r}, but must be a whole number, 0 or more.")

    @cached_property
    def payload(self) -> bytes:
        """The function as it is sent to other processes; empty for a command."""
        if self.function is None:
            return b""
        try:
            return cloudpickle.dumps(self.function)
        except Exception as error:
            raise ModelError(
                f"The simulator cannot be sent to another process ({type(error).__name__}: {error}). It must not hold "
                "open files, locks, connections and the like: let it open them when it is called."
            ) from error

    def job(self, names: tuple[str, ...], shape: tuple[int, ...] | None, run: str = "") -> Job:
        """What a worker must know."""
        dtype = jax.dtypes.canonicalize_dtype(float).name
        return Job(self.payload, self.argv, names, shape, dtype, self.time_limit, self.retries, run)


def not_traceable(key: Any, theta: Any) -> Any:
    """Stands where a model of JAX code has its simulator."""
    raise ModelError(
        "This model's simulator is a Python function or a command, which cannot run inside compiled JAX code. Use "
        "suffice.simulate(key, model, num) or simulate_at(key, model, theta), which run it in worker processes."
    )


def trial_shape(prior: Distribution, names: tuple[str, ...], outside: External) -> tuple[int, ...]:
    """The shape of x at the first θ of a few at which the simulator gives one."""
    theta = np.asarray(prior.sample(jax.random.key(0), (TRIALS,)))
    for i in range(TRIALS):
        outcome = _trial(outside.job(names, None), theta[i], i)
        if outcome.status in (GOOD, NOT_FINITE):
            return require_shape(outcome.x.shape)
    at = ", ".join(f"{name} = {value:.4g}" for name, value in zip(names, theta[-1], strict=True))
    raise ModelError(
        f"The simulator failed at {TRIALS} of {TRIALS} parameters drawn from the prior; the last time, at {at}: "
        f"{outcome.error} Mend it, or give data_shape if it seldom works."
    )


def stand_in_shape(support: Any, markov_order: int | None) -> tuple[int, ...]:
    """A shape that agrees with the model's other settings, for a model that is made but not used.

    A child that imports the file of its simulator makes the model of that file again. To find its shape out there would
    take another child, which imports the file again, and so on without end.
    """
    width = (len(support),) if isinstance(support, Sequence) else ()
    return width if width and markov_order is None else (1 + (markov_order or 0), *width)


def require_shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape, if it is one that x may have."""
    if len(shape) not in (1, 2) or 0 in shape:
        raise ModelError(
            f"The simulator returns an x of shape {shape}, but x must be a vector (d,), a series (T,) or a "
            "multivariate series (T, K). Reshape it."
        )
    return shape


def _trial(job: Job, theta: np.ndarray, seed: int) -> Outcome:
    try:
        return Outcome(*run_chunk(tuple(job), theta[None], [seed])[0])
    except ImportError as error:
        raise ModelError(f"{error} Put what it needs where a new Python process can import it.") from error
