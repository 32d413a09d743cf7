"""What all ABC samplers share: their common settings, checked, and what they look at before any work."""

import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, PRNGKeyArray
from numpy.typing import ArrayLike

from suffice.abc.distances import Distance, Euclidean, Ruler, ruler_of
from suffice.abc.measuring import Measure, require_sound
from suffice.abc.space import Space
from suffice.errors import ModelError
from suffice.model import Model

DEFAULT_DISTANCE = Euclidean()
MOST_ROUNDS = 20  # rounds of simulations in search of enough that do not fail


@runtime_checkable
class Request(Protocol):
    """What is asked of a method by `sample`: see `suffice.sampling.chains.Run`."""

    @property
    def num_draws(self) -> int:
        """Draws of each chain."""
        ...

    @property
    def num_chains(self) -> int:
        """Chains."""
        ...

    @property
    def checkpoint(self) -> Any:
        """A file to go on from."""
        ...

    @property
    def progress(self) -> bool:
        """Whether to show a bar."""
        ...


class Start(NamedTuple):
    """θ from the prior with simulations of each, one after another, of which the first went well; and their cost."""

    theta: Float[np.ndarray, "n p"]
    statistics: Float[np.ndarray, "m s"]
    good: Bool[np.ndarray, " m"]
    simulations: int
    failed: int


class Prepared(NamedTuple):
    """Statistics and distance, tried out and ready, and the statistics of each observation."""

    measure: Measure
    ruler: Ruler
    space: Space
    observed: Float[np.ndarray, "n s"]
    simulations: int
    failed: int
    began: float


@dataclass(frozen=True, eq=False)
class AbcSettings:
    """Settings common to all ABC samplers.

    Args:
        model: prior and simulator.
        statistics: any function of one x that gives a vector: `fit.statistics`, `model.sufficient_statistics`, one of
            your own. JAX code is compiled with the simulator; numpy code runs on the host.
        distance: `Euclidean()`, `Mahalanobis()`, or any function of two vectors of statistics.
        adjust: regression adjustment of the draws; True or "linear": Beaumont, Zhang and Balding (2002);
            "heteroscedastic": Blum and François (2010).
        scale_simulations: fresh simulations from the prior on which statistics are checked and the distance scaled.
        budget: of simulations, at most, `scale_simulations` included.
        acceptance_floor: stop when a smaller share of proposals is accepted.
        tolerance: stop when it is reached.
        seconds: stop after this time, at the next step.
        keep_history: keep the particles of every iteration in `info["history_theta"]`.
        executor: where simulations of a model that is no JAX code run.
    """

    model: Model
    statistics: Callable[..., Any]
    _: KW_ONLY
    distance: Distance = DEFAULT_DISTANCE
    adjust: bool | Literal["linear", "heteroscedastic"] = False
    scale_simulations: int = 1000
    budget: int | None = None
    acceptance_floor: float = 0.0
    tolerance: float | None = None
    seconds: float | None = None
    keep_history: bool = True
    executor: Any = None

    def __post_init__(self) -> None:
        if not callable(self.statistics):
            raise TypeError(
                f"statistics is a {type(self.statistics).__name__}, but must be a function of one x that gives a "
                "vector, such as fit.statistics or model.sufficient_statistics."
            )
        if not (hasattr(self.distance, "ruler") or callable(self.distance)):
            raise TypeError(f"distance is {self.distance!r}, but must be Euclidean(), Mahalanobis() or a function.")
        if self.adjust not in (False, True, "linear", "heteroscedastic"):
            raise ValueError(f"adjust is {self.adjust!r}, but must be False, True, 'linear' or 'heteroscedastic'.")
        if not 0.0 <= self.acceptance_floor < 1.0:
            raise ValueError(f"acceptance_floor is {self.acceptance_floor!r}, but must be at least 0 and less than 1.")
        for name in ("tolerance", "seconds"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name} is {value!r}, but must be positive, or None.")
        require_whole(self, scale_simulations=10)

    def require_budget(self, least: int) -> None:
        """Refuse a budget that does not pay for one iteration."""
        least += self.scale_simulations
        if self.budget is not None and (isinstance(self.budget, bool) or self.budget < least):
            raise ValueError(
                f"The budget is {self.budget!r} simulations, but a first iteration takes {least}, of which "
                f"{self.scale_simulations} for the scale of the distance. Raise it, or use fewer particles."
            )

    def observation(self, observed: ArrayLike, *, iid: bool) -> np.ndarray:
        """See `Method`."""
        if iid:
            raise ValueError(
                f"{type(self).__name__} compares one observation with one simulation, so it takes no iid replicates. "
                "Make them part of x: a model whose simulator gives them all, with statistics of all."
            )
        return self.model.observation(observed)

    def prepare(self, key: PRNGKeyArray, observations: Float[np.ndarray, "n ..."], run: Request) -> Prepared:
        """Check statistics and distance on fresh simulations from the prior, and make them ready."""
        began = time.monotonic()
        if run.checkpoint is not None:
            raise ValueError(
                f"{type(self).__name__} keeps no checkpoint. Leave checkpoint out; seconds and budget end a run early "
                "with what it has."
            )
        measure = Measure.of(self.model, self.statistics, observations[0], self.executor)
        _, pilot = measure.from_prior(key, self.scale_simulations)
        ruler, observed = self.ready(measure, np.asarray(pilot.statistics)[pilot.simulated], observations)
        failed = self.scale_simulations - int(np.sum(pilot.good))
        return Prepared(
            measure, ruler, Space.of(self.model.prior), observed, self.scale_simulations, failed, began
        )  # fmt: skip

    def ready(
        self, measure: Measure, values: Float[np.ndarray, "m s"], observations: Float[np.ndarray, "n ..."]
    ) -> tuple[Ruler, Float[np.ndarray, "n s"]]:
        """The distance made ready on these statistics, and those of the observations; both are checked."""
        if len(values) < 3:
            raise ModelError("Fewer than 3 simulations from the prior went well: see suffice.check(model).")
        require_sound(values)
        observed = np.asarray(measure.of_data(observations).statistics)
        broken = np.argwhere(~np.isfinite(observed))
        if len(broken):
            row, component = broken[0].tolist()
            raise ModelError(f"Statistic {component} of observation {row} is {observed[row, component]}, not finite.")
        return ruler_of(self.distance, values), observed


def from_prior(key: PRNGKeyArray, measure: Measure, num: int, replicates: int = 1) -> Start:
    """`num` simulations from the prior that went well: rounds until there are enough; and replicates at their θ."""
    rounds: list[tuple[np.ndarray, np.ndarray]] = []
    used = found = 0
    for number in range(MOST_ROUNDS):
        asked = num if measure.traceable else num - found
        theta, measured = measure.from_prior(jax.random.fold_in(key, number), asked)
        good = np.asarray(measured.good)
        rounds.append((theta[good], np.asarray(measured.statistics)[good]))
        used, found = used + asked, found + int(np.sum(good))
        if found >= num:
            thetas, statistics = (np.concatenate(parts)[:num] for parts in zip(*rounds, strict=True))
            start = Start(thetas, statistics, np.ones(num, bool), used, used - found)
            return (
                start
                if replicates == 1
                else _replicated(jax.random.fold_in(key, MOST_ROUNDS), measure, start, replicates)
            )
    raise ModelError(
        f"Only {found} of {used} simulations from the prior went well, too few for {num} particles. "
        "Correct the model where it fails: see suffice.check(model)."
    )


def _replicated(key: PRNGKeyArray, measure: Measure, start: Start, replicates: int) -> Start:
    count, more = len(start.theta), replicates - 1
    measured = measure.at(key, np.repeat(start.theta, more, axis=0))
    values = np.asarray(measured.statistics).reshape(count, more, -1)
    good = np.asarray(measured.good).reshape(count, more)
    return Start(
        start.theta,
        np.concatenate([start.statistics[:, None], values], axis=1).reshape(count * replicates, -1),
        np.concatenate([start.good[:, None], good], axis=1).reshape(-1),
        start.simulations + count * more,
        start.failed + int(np.sum(~good)),
    )


def distances(
    ruler: Ruler, statistics: Float[np.ndarray, "n s"], observed: Float[np.ndarray, " s"]
) -> Float[np.ndarray, " n"]:
    """How far these statistics are from the observed ones."""
    rows = np.broadcast_to(observed, statistics.shape)
    if not ruler.traceable:
        return ruler.on_host(statistics, rows)
    return np.asarray(ruler(jnp.asarray(statistics), jnp.asarray(rows)))


def require_whole(settings: Any, **least: int) -> None:
    """Refuse fields that are no whole numbers of at least this."""
    for name, bound in least.items():
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < bound:
            raise ValueError(f"{name} is {value!r}, but must be a whole number of at least {bound}.")
