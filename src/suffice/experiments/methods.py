"""The methods by the names they have in the paper's figures, and ours beside them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from suffice import zoo
from suffice.abc import Annealing
from suffice.abc.distances import Euclidean
from suffice.experiments.released import with_defect
from suffice.experiments.scales import DEFECTS, IID, LORENZ, Scale
from suffice.fitting import Fit
from suffice.model import Model
from suffice.sampling import Direct, Exchange
from suffice.sampling.running import Method
from suffice.surrogates import RatioEstimation, SyntheticLikelihood

PAPER_METHODS = ("Exc-SM", "Exc-SSM", "ABC-SM", "ABC-SSM", "ABC-FP", "PMC-SL", "PMC-RE")
OUR_METHODS = ("Direct", "Direct-SM", "Exc-ours")
OURS_SAID = (
    "Ours: Direct and Exc-ours have default networks and training on the same simulations as the paper's fits; "
    "Direct-SM is Direct on the paper's own SM fit."
)
ONE_CHAIN = ("Exc-SM", "Exc-SSM", "Exc-SM-D2")
SEQUENTIAL = ("ABC-SM", "ABC-SSM", "ABC-FP", "PMC-SL", "PMC-RE")
FIRST = "PMC-RE-first"  # the first iteration of PMC-RE alone, for all observations
FIRST_SAID = f"{FIRST} is the first iteration of PMC-RE alone, for all observations; PMC-RE may have fewer."
FIT_OF = {  # which fit a method needs
    "Exc-SM": "SM",
    "Exc-SSM": "SSM",
    "ABC-SM": "SM",
    "ABC-SSM": "SSM",
    "ABC-FP": "FP",
    "Direct": "ours",
    "Direct-SM": "SM",
    "Direct-SSM": "SSM",
    "Direct-innovations": "innovations",
    "Exc-ours": "ours",
    "ABC-FP-D1": "FP",
    "Exc-SM-D2": "SM",
}
LABELS = {
    "beta": "Beta",
    "gamma": "Gamma",
    "gaussian": "Gaussian",
    "ar2": "AR(2)",
    "ma2": "MA(2)",
    "lorenz96-small": "Lorenz96 small",
    "lorenz96-large": "Lorenz96 large",
}


def model_of(name: str) -> Model:
    """The model of that name."""
    if name in LORENZ:
        return zoo.lorenz96("small" if name.endswith("small") else "large")
    return getattr(zoo, name)()


def autocovariances(x: Float[Array, " t"]) -> Float[Array, "2"]:
    """Lags 1 and 2, not centred: what the paper gives to synthetic likelihood and ratio estimation for series."""
    return jnp.stack([jnp.mean(x[lag:] * x[:-lag]) for lag in (1, 2)])


def statistics_of(name: str) -> Callable[..., Any]:
    """The statistics that surrogates get: exact sufficient ones of iid models, autocovariances of series."""
    statistics = model_of(name).sufficient_statistics
    if statistics is None:
        return autocovariances
    return statistics


def method_of(scale: Scale, name: str, label: str, fit: Fit | None, inner_steps: int | None) -> tuple[Method, Any]:
    """The settings object, and the numbers of draws and chains that `sample_each` is told."""
    model, one_chain = model_of(name), {"num_draws": scale.exchange[1], "num_chains": 1}
    chains = {"num_draws": scale.chains[1], "num_chains": scale.chains[2]}
    surrogate: dict[str, Any] = {
        "particles": scale.surrogate[0],
        "iterations": 1 if label == FIRST else scale.surrogate[1],
    }
    fit = None if fit is None else with_defect(label, fit)
    if label in ONE_CHAIN:
        assert fit is not None
        warmup = scale.exchange[0]
        steps, bridges = scale.chosen_inner[0 if name in IID else 1], 0
        if name in LORENZ:
            _, steps, bridges, warmup, draws = scale.lorenz_exchange
            one_chain = {"num_draws": draws, "num_chains": 1}
        settings = replace(Exchange.paper(name, fit), warmup=warmup, inner_steps=inner_steps or steps, bridges=bridges)
        return settings, one_chain
    if label == "Exc-ours":
        assert fit is not None
        return Exchange(fit, warmup=3 * scale.chains[0]), chains
    if label.startswith("Direct"):
        assert fit is not None
        return Direct(fit, warmup=scale.chains[0]), chains
    if label.startswith("ABC"):
        assert fit is not None
        distance = Euclidean(scaled=FIT_OF[label] != "FP")  # regressions are in θ's own units
        return Annealing(
            model, fit.statistics, particles=scale.particles, iterations=scale.iterations, distance=distance
        ), {}
    if label == "PMC-SL":
        return SyntheticLikelihood(model, statistics_of(name), scale.synthetic, standardise=False, **surrogate), {}
    if label in ("PMC-RE", FIRST):
        return RatioEstimation(model, statistics_of(name), scale.ratio, rule="one-standard-error", **surrogate), {}
    raise ValueError(f"There is no method {label!r}: there are {', '.join((*PAPER_METHODS, *OUR_METHODS, *DEFECTS))}.")
