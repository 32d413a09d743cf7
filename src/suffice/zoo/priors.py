"""The prior of every model of the paper: uniform on a box."""

from collections.abc import Sequence

import numpy as np
import numpyro.distributions as dist


def uniform(low: Sequence[float], high: Sequence[float]) -> dist.Distribution:
    """θ uniform on the box from `low` to `high`."""
    return dist.Uniform(np.asarray(low), np.asarray(high)).to_event(1)
