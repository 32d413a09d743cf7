"""From draws to posteriors: what every sampler of a fit knows of its observations and writes down with the draws."""

from typing import Any

import numpy as np
from jaxtyping import Float

from suffice.fitting import Fit
from suffice.posterior import Posterior


def posteriors(
    fit: Fit,
    observations: Float[np.ndarray, "n ..."],
    draws: Float[np.ndarray, "n chain draw p"],
    numbers: dict[str, np.ndarray],
    common: dict[str, Any],
) -> list[Posterior]:
    """One posterior for each observation; `numbers` have a row for each of them, `common` is the same for all."""
    tails = fit.outside_training(observations.reshape(-1, *fit.data_shape)).reshape(len(observations), -1).min(axis=1)
    common = common | {"observations": len(observations)}
    return [
        Posterior(
            draws[i],
            fit.names,
            info=common
            | {name: values[i] if values.ndim > 1 else float(values[i]) for name, values in numbers.items()}
            | {"outside_training": float(tails[i])},
        )
        for i in range(len(observations))
    ]
