"""Have the chains converged, and how well are their summaries known: arviz's measures on arrays of draws.

Rank-normalised R-hat, bulk and tail effective sample sizes and Monte Carlo standard errors (Vehtari et al., 2021).
"""

import warnings
from types import ModuleType
from typing import Any, Literal, NamedTuple

import numpy as np
from jaxtyping import Float


class Convergence(NamedTuple):
    """For each parameter: R-hat, effective sample sizes in the bulk and the tails, standard errors of mean and sd."""

    rhat: Float[np.ndarray, " p"]
    ess_bulk: Float[np.ndarray, " p"]
    ess_tail: Float[np.ndarray, " p"]
    mcse_mean: Float[np.ndarray, " p"]
    mcse_sd: Float[np.ndarray, " p"]


def convergence(draws: Float[np.ndarray, "chain draw p"]) -> Convergence:
    """All of them; R-hat needs two chains and is nan for one."""
    return Convergence(
        rhat(draws),
        ess(draws, "bulk"),
        ess(draws, "tail"),
        _measure("mcse", draws, method="mean"),
        _measure("mcse", draws, method="sd"),
    )


def rhat(draws: Float[np.ndarray, "chain draw p"]) -> Float[np.ndarray, " p"]:
    """The rank-normalised split R-hat of each parameter: near 1 where the chains agree; nan for a single chain.

    >>> chains = np.random.default_rng(0).normal(size=(4, 500, 1))
    >>> bool(rhat(chains)[0] < 1.01)
    True
    """
    if len(draws) < 2:
        return np.full(draws.shape[-1], np.nan)
    return _measure("rhat", draws, method="rank")


def ess(draws: Float[np.ndarray, "chain draw p"], kind: Literal["bulk", "tail"] = "bulk") -> Float[np.ndarray, " p"]:
    """How many independent draws those of each parameter are worth, for the bulk or for the tails."""
    return _measure("ess", draws, method=kind)


def _measure(name: str, draws: np.ndarray, **settings: str) -> np.ndarray:
    if draws.shape[1] < 4:
        return np.full(draws.shape[-1], np.nan)
    found = getattr(arviz(), name)({"theta": np.asarray(draws, np.float64)}, **settings)
    return np.atleast_1d(found["theta"].values)


def from_groups(groups: dict[str, dict[str, np.ndarray]]) -> Any:
    """Groups of variables, with axes (chain, draw, …) where they are draws, as arviz's own value."""
    library = arviz()
    if int(library.__version__.split(".")[0]) < 1:
        return library.from_dict(**groups)
    return library.from_dict(groups)


def arviz() -> ModuleType:
    """The module arviz, imported when it is needed (it takes seconds) and without its announcement."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz

    return arviz
