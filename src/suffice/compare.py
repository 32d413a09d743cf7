"""`compare`: several methods on the same observations and budget, held against the exact posterior and the truth."""

import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray
from numpy.typing import ArrayLike

from suffice.diagnostics import wasserstein
from suffice.errors import SamplingWarning, SimulationWarning
from suffice.fitting import Fit
from suffice.grid import GridPosterior
from suffice.model import Model, require_model
from suffice.posterior import Posterior
from suffice.progress import Advance, bar
from suffice.randomness import require_key
from suffice.requiring import require_kind
from suffice.sampling import sample_each
from suffice.sampling.running import Method, checked_rows, require_method
from suffice.simulation import Simulations
from suffice.zoo import exact_posterior

if TYPE_CHECKING:
    from pandas import DataFrame

Reference = Posterior | GridPosterior


@dataclass(frozen=True, eq=False)
class Curve:
    """How W₂ falls as a sampler spends simulations.

    Attributes:
        simulations: spent up to each iteration, on one observation.
        wasserstein: to the reference, by observation and iteration.
    """

    simulations: Int[np.ndarray, " iterations"]
    wasserstein: Float[np.ndarray, "n iterations"]

    @property
    def median(self) -> Float[np.ndarray, " iterations"]:
        """The median over observations."""
        return np.median(self.wasserstein, axis=0)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one method made of the observations.

    Attributes:
        wasserstein: W₂ to the reference of each observation; nan without references.
        mean_error: distance of the posterior mean from the reference's; nan without references.
        covered: whether the interval of each observation and parameter holds the truth; None without truths.
        doubtful: how many of the posteriors come with a warning.
        training_simulations: that the method's fit was trained on, once for all observations.
        inference_simulations: for each observation.
        seconds: for all observations, training not counted.
        curve: by iteration, where the method keeps its history.
    """

    wasserstein: Float[np.ndarray, " n"]
    mean_error: Float[np.ndarray, " n"]
    covered: Float[np.ndarray, "n p"] | None
    doubtful: int
    training_simulations: int
    inference_simulations: float
    seconds: float
    curve: Curve | None


@dataclass(frozen=True, eq=False)
class Comparison:
    """The outcome of each method, by its name.

    Attributes:
        outcomes: by method.
        draws: of either posterior that W₂ is taken of: it depends on their number.
        level: of the credible intervals whose coverage is counted.
    """

    outcomes: Mapping[str, Outcome]
    draws: int
    level: float

    def table(self) -> "DataFrame":
        """One row a method: medians over observations of W₂ and error of the mean, coverage, cost."""
        from pandas import DataFrame

        rows = {
            name: {
                "W2": float(np.median(found.wasserstein)),
                "mean error": float(np.median(found.mean_error)),
                f"coverage {self.level:.0%}": np.nan if found.covered is None else float(np.mean(found.covered)),
                "doubtful": found.doubtful,
                "training simulations": found.training_simulations,
                "simulations each": found.inference_simulations,
                "seconds": found.seconds,
            }
            for name, found in self.outcomes.items()
        }
        return DataFrame.from_dict(rows, orient="index")

    def simulations_to_match(self, target: str) -> "DataFrame":
        """How many simulations each method with a history needs until its median W₂ is no larger than `target`'s.

        Training and inference apart; nan where it never is.
        """
        from pandas import DataFrame

        if target not in self.outcomes:
            raise ValueError(f"There is no method {target!r}: there are {', '.join(self.outcomes)}.")
        goal = float(np.median(self.outcomes[target].wasserstein))
        rows = {}
        for name, found in self.outcomes.items():
            if name == target or found.curve is None:
                continue
            reached = np.flatnonzero(found.curve.median <= goal)
            first = int(reached[0]) if len(reached) else None
            rows[name] = {
                "iterations": np.nan if first is None else first + 1,
                "simulations each": np.nan if first is None else int(found.curve.simulations[first]),
                "training simulations": found.training_simulations,
            }
        return DataFrame.from_dict(rows, orient="index")


def compare(
    key: PRNGKeyArray,
    model: Model,
    observations: Simulations | ArrayLike,
    methods: Mapping[str, Method],
    *,
    budget: int | None = None,
    reference: Callable[[np.ndarray], Reference] | None = None,
    num_draws: int = 1000,
    num_chains: int = 4,
    draws: int = 1000,
    level: float = 0.9,
    curves: bool = True,
    progress: bool = True,
) -> Comparison:
    """Give the same observations to each method and measure what comes out.

    Args:
        key: decides all draws; each method gets the same.
        model: where the observations come from.
        observations: rows of x; `Simulations` also tell the truths, so that coverage can be counted. Failed ones are
            left out.
        methods: settings objects by the name that the table shows.
        budget: of simulations for each observation, which samplers that simulate stop at; none if not given.
        reference: gives the posterior to hold against; `zoo.exact_posterior` of models with a known likelihood and up
            to two parameters if not given.
        num_draws: of each chain, for methods that run chains.
        num_chains: chains.
        draws: of either posterior that W₂ is taken of.
        level: of the credible intervals whose coverage is counted.
        curves: whether to measure W₂ by iteration too, where there is a history: as many transport problems.
        progress: whether to show bars.
    """
    key = require_key(key)
    require_model(model)
    require_kind(methods, Mapping, "methods", "a dictionary from names to methods, such as {'direct': Direct(fit)}")
    for name, method in methods.items():
        require_method(method, f"The method {name!r}")
    truth = None
    if isinstance(observations, Simulations):
        failed = len(observations) - observations.num_good
        if failed:
            left = f"{failed} of {len(observations)} simulations failed and are left out of the comparison."
            warnings.warn(left, SimulationWarning, stacklevel=2)
        truth = observations.good.theta
    rows = checked_rows(model, observations.good.x if isinstance(observations, Simulations) else observations)
    limited = {name: within_budget(name, method, budget) for name, method in methods.items()}
    references = _references(key, model, rows, reference, draws)
    outcomes = {}
    for name, method in limited.items():
        began = time.monotonic()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SamplingWarning)  # counted in the table instead
            found = sample_each(key, method, rows, num_draws=num_draws, num_chains=num_chains, progress=progress)
        seconds = time.monotonic() - began
        with bar(len(found), f"measuring {name}", show=progress) as advance:
            outcomes[name] = _outcome(method, found, references, truth, draws, level, seconds, advance, curves=curves)
    return Comparison(outcomes, draws, level)


def within_budget(name: str, method: Method, budget: int | None) -> Method:
    """The same method, made to stop at so many simulations for each observation."""
    if budget is None:
        return method
    settings: Any = method
    names = {field.name for field in fields(settings)}
    if "budget" in names:
        return replace(settings, budget=budget)
    if {"particles", "simulations", "iterations"} <= names:
        affordable = budget // (settings.particles * settings.simulations)
        if affordable < 1:
            raise ValueError(
                f"One iteration of {name!r} takes {settings.particles * settings.simulations} simulations, but the "
                f"budget is {budget}. Raise it, or give the method fewer particles or simulations."
            )
        return replace(settings, iterations=min(settings.iterations, affordable))
    return method


def training_simulations(method: Method) -> int:
    """On how many simulations the fit of this method was trained: of its family, or of its statistics."""
    fits = [getattr(method, "fit", None), getattr(getattr(method, "statistics", None), "__self__", None)]
    return sum(record["num"] for fit in fits if isinstance(fit, Fit) for record in fit.settings.get("simulations", ()))


def _references(
    key: PRNGKeyArray,
    model: Model,
    rows: np.ndarray,
    reference: Callable[[np.ndarray], Reference] | None,
    draws: int,
) -> list[tuple[Reference, np.ndarray]] | None:
    """The reference posterior of each observation, and as many of its draws as W₂ takes."""
    if reference is None:
        if model.log_likelihood is None or model.num_parameters > 2:
            return None

        def reference(row: np.ndarray) -> Reference:
            return exact_posterior(model, row)

    found = [reference(row) for row in rows]
    return [(post, post.resample(jax.random.fold_in(key, i), draws).flat) for i, post in enumerate(found)]


def _outcome(
    method: Method,
    posteriors: list[Posterior],
    references: list[tuple[Reference, np.ndarray]] | None,
    truth: Float[np.ndarray, "n p"] | None,
    draws: int,
    level: float,
    seconds: float,
    advance: Advance,
    *,
    curves: bool,
) -> Outcome:
    distances, errors, by_iteration = [], [], []
    for i, posterior in enumerate(posteriors):
        if references is None:
            distances.append(np.nan)
            errors.append(np.nan)
        else:
            exact, sample = references[i]
            distances.append(wasserstein(posterior.thinned(draws), sample))
            errors.append(float(np.linalg.norm(posterior.mean - exact.mean)))
            if curves and "history_theta" in posterior.info:
                by_iteration.append(_by_iteration(posterior, sample, draws))
        advance(1)
    curve = None
    if by_iteration and len({len(row) for row in by_iteration}) == 1:
        curve = Curve(np.asarray(posteriors[0].info["history_simulations"]), np.stack(by_iteration))
    covered = None
    if truth is not None:
        covered = np.array([_holds(post, row, level) for post, row in zip(posteriors, truth, strict=True)])
    return Outcome(
        np.array(distances),
        np.array(errors),
        covered,
        sum(bool(posterior.info.get("doubts")) for posterior in posteriors),
        training_simulations(method),
        float(np.mean([posterior.info.get("simulations", 0) for posterior in posteriors])),
        seconds,
        curve,
    )


def _by_iteration(posterior: Posterior, sample: np.ndarray, draws: int) -> Float[np.ndarray, " iterations"]:
    theta, weights = posterior.info["history_theta"], posterior.info.get("history_weights")
    steps = [
        Posterior(theta[t][None], posterior.names, None if weights is None else weights[t][None])
        for t in range(len(theta))
    ]
    return np.array([wasserstein(step.thinned(draws), sample) for step in steps])


def _holds(posterior: Posterior, truth: Float[np.ndarray, " p"], level: float) -> Float[np.ndarray, " p"]:
    low, high = posterior.interval(level)
    return ((low <= truth) & (truth <= high)).astype(float)
