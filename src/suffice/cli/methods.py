"""Methods by name, with their default settings."""

import re
from collections.abc import Callable
from dataclasses import replace

from suffice.abc import Annealing, MarkovAbc, PopulationAbc, Rejection, SequentialAbc
from suffice.fitting import Fit
from suffice.model import Model
from suffice.posterior import Posterior
from suffice.sampling import Direct, Exchange
from suffice.sampling.exchange import require_sound
from suffice.sampling.running import Method
from suffice.simulation import Where
from suffice.surrogates import RatioEstimation, SyntheticLikelihood

METHODS: dict[str, Callable[[Model, Fit, Where], Method]] = {
    "direct": lambda model, fit, where: Direct(_with_prior(fit, model)),
    "exchange": lambda model, fit, where: Exchange(_with_prior(fit, model)),
    "annealing": lambda model, fit, where: Annealing(model, fit.statistics, executor=where),
    "rejection": lambda model, fit, where: Rejection(model, fit.statistics, executor=where),
    "markov-abc": lambda model, fit, where: MarkovAbc(model, fit.statistics, executor=where),
    "population-abc": lambda model, fit, where: PopulationAbc(model, fit.statistics, executor=where),
    "sequential-abc": lambda model, fit, where: SequentialAbc(model, fit.statistics, executor=where),
    "synthetic-likelihood": lambda model, fit, where: SyntheticLikelihood(model, fit.statistics, executor=where),
    "ratio-estimation": lambda model, fit, where: RatioEstimation(model, fit.statistics, executor=where),
}

AMORTISED = ("direct", "exchange", "rejection")  # do not simulate anew for each observation


def method_of(name: str, model: Model, fit: Fit, executor: Where = None) -> Method:
    """The method of that name, on this fit or with its statistics; `executor` says where it simulates, if it does."""
    if name not in METHODS:
        raise ValueError(f"There is no method {name!r}. The methods are: {', '.join(METHODS)}.")
    return METHODS[name](model, fit, executor)


def _with_prior(fit: Fit, model: Model) -> Fit:
    """The fit with the prior of the model, if its own could not be written to its file."""
    if fit.prior is not None:
        return fit
    require_sound(fit, model.prior)
    return replace(fit, prior=model.prior)


def method_behind(posterior: Posterior) -> str:
    """The name of the method that made a posterior, as above; of another method, its own."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "-", str(posterior.info.get("method", "unknown"))).lower()
