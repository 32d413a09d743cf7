"""The verbs `sample` and `sample_each`: from a method and an observation to a posterior."""

import os
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import PRNGKeyArray
from numpy.typing import ArrayLike

from suffice.errors import ModelError, SupportError
from suffice.model import Model
from suffice.posterior import Posterior
from suffice.randomness import key_record, require_key
from suffice.requiring import require_kind, require_numbers
from suffice.sampling.believing import note_doubts
from suffice.sampling.chains import Run


@runtime_checkable
class Method(Protocol):
    """A way to a posterior: a settings object."""

    def observation(self, observed: ArrayLike, *, iid: bool) -> np.ndarray:
        """`observed` as an array that this method can use, or an error that says what is wrong with it."""
        ...

    def sample_each(self, key: PRNGKeyArray, observations: np.ndarray, run: Run) -> list[Posterior]:
        """A posterior for each of the observations, all at once."""
        ...


def sample(
    key: PRNGKeyArray,
    method: Method,
    observed: ArrayLike,
    *,
    num_draws: int = 1000,
    num_chains: int = 4,
    iid: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> Posterior:
    """The posterior given `observed`, by any method.

    Args:
        key: decides the draws.
        method: a settings object, such as `Exchange(fit)`.
        observed: data of the shape of one x; iid replicates of it along one more leading axis with `iid=True`.
        num_draws: draws of each chain that are kept, after warm-up.
        num_chains: chains; several show whether they agree.
        iid: whether `observed` holds independent replicates given the same θ.
        checkpoint: a file from which a killed run goes on with the same draws.
        progress: whether to show a bar.
    """
    run = Run(num_draws, num_chains, iid, checkpoint, progress)
    return _posteriors(key, method, require_numbers(observed, "the observation")[None], run)[0]


def sample_each(
    key: PRNGKeyArray,
    method: Method,
    observations: ArrayLike,
    *,
    num_draws: int = 1000,
    num_chains: int = 4,
    iid: bool = False,
    checkpoint: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> list[Posterior]:
    """A posterior for each of many observations (rows), in one compiled program; arguments as for `sample`."""
    return _posteriors(key, method, observations, Run(num_draws, num_chains, iid, checkpoint, progress))


def _posteriors(key: PRNGKeyArray, method: Method, observations: ArrayLike, run: Run) -> list[Posterior]:
    """What both verbs do, one call below either, so that warnings point at who called the verb."""
    key = require_key(key)
    require_method(method)
    checked = checked_rows(method, observations, iid=run.iid)
    posteriors = method.sample_each(key, checked, run)
    for observed, posterior in zip(checked, posteriors, strict=True):
        posterior.info.update(key=key_record(key), observed=observed, iid=run.iid)
    note_doubts(posteriors)
    return posteriors


def require_method(method: Any, what: str = "method") -> None:
    """Refuse what is no method, such as the fit that one is made of."""
    require_kind(
        method,
        Method,
        what,
        "a settings object: Direct(fit), Exchange(fit), or one of (model, statistics), that is Rejection, "
        "PopulationAbc, SequentialAbc, MarkovAbc, Annealing, SyntheticLikelihood, RatioEstimation",
    )


def checked_rows(judge: Method | Model, observations: ArrayLike, *, iid: bool = False) -> np.ndarray:
    """The rows of `observations` as the method, or the model, can use them; an error names the one it is about."""
    rows = list(require_numbers(observations, "the array of observations"))
    if not rows:
        raise ValueError("There are no observations: give at least one row.")
    checked = []
    for i, row in enumerate(rows):
        try:
            checked.append(judge.observation(row, iid=iid))
        except (ModelError, SupportError) as error:
            if len(rows) == 1:
                raise
            raise type(error)(f"Observation {i} of {len(rows)}, counted from 0: {error}") from error
    return np.stack(checked)
