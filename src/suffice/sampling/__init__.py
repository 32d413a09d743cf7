"""Samplers of posteriors from a fitted family, and the verbs `sample` and `sample_each` for every method.

Importing blackjax starts JAX's backend, after which its platform and devices can no longer be chosen. What stands on it
is therefore imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from suffice.sampling.direct import Direct as Direct
from suffice.sampling.likelihood import MaximumLikelihood as MaximumLikelihood
from suffice.sampling.likelihood import maximum_likelihood as maximum_likelihood
from suffice.sampling.likelihood import profile as profile
from suffice.sampling.running import Method as Method
from suffice.sampling.running import sample as sample
from suffice.sampling.running import sample_each as sample_each

if TYPE_CHECKING:
    from suffice.sampling.exchange import Exchange as Exchange
    from suffice.sampling.inner import InnerDrift as InnerDrift
    from suffice.sampling.inner import diagnose_inner as diagnose_inner
    from suffice.sampling.kernels import Hmc as Hmc
    from suffice.sampling.kernels import Kernel as Kernel
    from suffice.sampling.kernels import RandomWalk as RandomWalk

_LATER = {
    "Exchange": "exchange",
    "InnerDrift": "inner",
    "diagnose_inner": "inner",
    "Hmc": "kernels",
    "Kernel": "kernels",
    "RandomWalk": "kernels",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_LATER[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})
