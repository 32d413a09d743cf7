"""From weighted draws to the posterior: adjustment, effective size, and what is written down."""

from typing import Any

import numpy as np
from jaxtyping import Float

from suffice.abc.adjustment import Draws, adjust
from suffice.abc.settings import AbcSettings
from suffice.abc.weighting import require_effective
from suffice.posterior import Posterior


def assemble(
    settings: AbcSettings,
    draws: Draws,
    observed: Float[np.ndarray, " s"],
    info: dict[str, Any],
    *,
    weighted: bool,
    num_chains: int = 1,
) -> Posterior:
    """The posterior of these draws, adjusted if the settings say so.

    Draws that are not `weighted` keep equal weights when they are adjusted: they follow a kernel of the distance as
    they are.
    """
    theta, weights = draws.theta, np.asarray(draws.weights, np.float64)
    if settings.adjust:
        adjusted = adjust(
            draws, observed, settings.model.prior, "linear" if settings.adjust is True else settings.adjust
        )
        theta = adjusted.theta
        weights = weights * adjusted.kernel if weighted else weights
        info = info | {"adjusted": adjusted.done}
    weights = weights / weights.sum()
    if weighted:
        info = info | {"ess": float(1.0 / np.sum(weights**2))}
        require_effective(info["ess"])
    distinct = len(np.unique(draws.theta[draws.weights > 0], axis=0))
    shape = (num_chains, len(theta) // num_chains)
    return Posterior(
        theta.reshape(*shape, -1),
        settings.model.names,
        weights.reshape(shape) if weighted else None,
        info | {"distinct": distinct, "distance": draws.distance.reshape(shape)},
    )
