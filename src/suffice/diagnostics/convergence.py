"""Have the chains converged: the measures of `suffice.convergence`, of a posterior or of an array of draws."""

from typing import TYPE_CHECKING, Literal

import numpy as np
from jaxtyping import Float

from suffice import convergence
from suffice.posterior import Posterior
from suffice.requiring import require_kind

if TYPE_CHECKING:
    from pandas import DataFrame

Draws = Posterior | Float[np.ndarray, "chain draw p"]


def summary(posterior: Posterior) -> "DataFrame":
    """One row a parameter: mean, sd, quantiles, R-hat, effective sizes and Monte Carlo standard errors."""
    require_kind(posterior, Posterior, "posterior", "a Posterior; rhat and ess take an array of draws too")
    return posterior.summary()


def rhat(draws: Draws) -> Float[np.ndarray, " p"]:
    """The rank-normalised split R-hat of each parameter (Vehtari et al., 2021).

    Near 1 where the chains agree; nan for a single chain and for weighted draws, which have none.
    """
    return draws.convergence.rhat if isinstance(draws, Posterior) else convergence.rhat(draws)


def ess(draws: Draws, kind: Literal["bulk", "tail"] = "bulk") -> Float[np.ndarray, " p"]:
    """How many independent draws those of each parameter are worth, for the bulk or for the tails.

    Weighted draws are worth 1/Σw².
    """
    if isinstance(draws, Posterior):
        return draws.convergence.ess_bulk if kind == "bulk" else draws.convergence.ess_tail
    return convergence.ess(draws, kind)
