"""Methods by name, with their default settings."""

from collections.abc import Callable

from suffice.abc import Annealing, MarkovAbc, PopulationAbc, Rejection, SequentialAbc
from suffice.fitting import Fit
from suffice.model import Model
from suffice.sampling import Direct, Exchange
from suffice.sampling.running import Method
from suffice.surrogates import RatioEstimation, SyntheticLikelihood

METHODS: dict[str, Callable[[Model, Fit], Method]] = {
    "direct": lambda model, fit: Direct(fit),
    "exchange": lambda model, fit: Exchange(fit),
    "annealing": lambda model, fit: Annealing(model, fit.statistics),
    "rejection": lambda model, fit: Rejection(model, fit.statistics),
    "markov-abc": lambda model, fit: MarkovAbc(model, fit.statistics),
    "population-abc": lambda model, fit: PopulationAbc(model, fit.statistics),
    "sequential-abc": lambda model, fit: SequentialAbc(model, fit.statistics),
    "synthetic-likelihood": lambda model, fit: SyntheticLikelihood(model, fit.statistics),
    "ratio-estimation": lambda model, fit: RatioEstimation(model, fit.statistics),
}


def method_of(name: str, model: Model, fit: Fit) -> Method:
    """The method of that name, on this fit or with its statistics."""
    if name not in METHODS:
        raise ValueError(f"There is no method {name!r}. The methods are: {', '.join(METHODS)}.")
    return METHODS[name](model, fit)
