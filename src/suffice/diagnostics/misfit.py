"""Misfit: whether the observation is like what the model predicts, and like what a fit was trained on."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from numpy.typing import ArrayLike

from suffice.charts import Chart
from suffice.fitting import Fit
from suffice.model import Model
from suffice.posterior import Posterior
from suffice.randomness import require_key
from suffice.simulation import Where

Statistic = Callable[[np.ndarray], Any]
Statistics = Mapping[str, Statistic] | Statistic | Fit


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """An observation among predictions of it.

    Attributes:
        names: of the statistics.
        observed: the statistics of the observation.
        predicted: those of each prediction.
        p_values: two-sided: small where the observed statistic lies in either tail of the predicted ones.
        statistics_p_value: how many predictions have statistics as far from the centre of all, taken together
            (Mahalanobis' distance).
        data_p_value: how many predictions are, as data, as far from the centre of all: squared deviations in units of
            each coordinate's spread, averaged over coordinates.
        level: the probability of a false alarm, at most, over all of these p-values together.
    """

    names: tuple[str, ...]
    observed: Float[np.ndarray, " s"]
    predicted: Float[np.ndarray, "m s"]
    p_values: Float[np.ndarray, " s"]
    statistics_p_value: float
    data_p_value: float
    level: float

    @property
    def threshold(self) -> float:
        """The p-value below which one counts: the level shared out to all of them (Bonferroni)."""
        return self.level / (len(self.names) + 2)

    @property
    def misfits(self) -> tuple[str, ...]:
        """What of the observation the predictions do not reach."""
        low, high = np.quantile(self.predicted, (0.05, 0.95), axis=0)
        found = [
            f"its {name} ({self.observed[i]:.3g}, predicted {low[i]:.3g} to {high[i]:.3g})"
            for i, name in enumerate(self.names)
            if self.p_values[i] <= self.threshold
        ]
        if self.statistics_p_value <= self.threshold and not found:
            found.append("its statistics taken together")
        if self.data_p_value <= self.threshold:
            found.append("the data as a whole")
        return tuple(found)

    @property
    def verdict(self) -> str:
        """In plain language: whether the observation is like the predictions, and what is not."""
        many = f"the {len(self.predicted)} predictions"
        if not self.misfits:
            return f"The observation is like {many}: no misfit found at level {self.level:g}."
        return f"The observation is unlike {many} in {', '.join(self.misfits)} (level {self.level:g})."


def predictive_check(
    key: PRNGKeyArray,
    model: Model,
    posterior: Posterior,
    observed: ArrayLike | None = None,
    *,
    statistics: Statistics | None = None,
    num: int = 1000,
    level: float = 0.05,
    executor: Where = None,
) -> PredictiveCheck:
    """Posterior predictive check: whether the model, at its posterior, makes data like the observation.

    Posterior predictive p-values have seen the observation and are conservative: a small one is a strong sign, a
    middling one a weak comfort.

    Args:
        key: decides the simulations.
        model: what simulates.
        posterior: of θ given the observation.
        observed: x, or iid replicates of it along one more leading axis; the posterior's own if not given.
        statistics: what is compared: a function of one data set to a number or a vector, several by name, or a `Fit`,
            for its learned statistics (averaged over replicates). If not given: mean, standard deviation, smallest
            and largest value, and for series the correlation of successive values.
        num: predictions.
        level: the probability of a false alarm, at most, of the verdict.
        executor: where simulators that are no JAX code run, as for `simulate`.
    """
    if observed is None:
        if "observed" not in posterior.info:
            raise ValueError("The posterior has no record of its observation: give observed.")
        observed = posterior.info["observed"]
    data, replicates = _observation(model, observed)
    _require_enough(num, data, model, statistics, level)
    x = posterior.predictive(key, model, num, replicates=replicates, executor=executor)
    return _check(data, x, model, statistics, level)


def prior_predictive_check(
    key: PRNGKeyArray,
    model: Model,
    observed: ArrayLike,
    *,
    statistics: Statistics | None = None,
    num: int = 1000,
    level: float = 0.05,
    executor: Where = None,
) -> PredictiveCheck:
    """Prior predictive check: whether the model, over its prior, makes data like the observation.

    An observation outside of everything the prior predicts is outside of everything a fit can be trained on. Arguments
    as for `predictive_check`.
    """
    key_prior, key_simulator = jax.random.split(require_key(key))
    data, replicates = _observation(model, observed)
    _require_enough(num, data, model, statistics, level)
    theta = np.asarray(model.prior.sample(key_prior, (num,)))
    drawn = Posterior(theta[None], model.names)
    x = drawn.predictive(key_simulator, model, replicates=replicates, executor=executor)
    return _check(data, x, model, statistics, level)


def outside_training(fit: Fit, observed: ArrayLike) -> Any:
    """The share of a fit's training data that lie farther out than `observed`: 0 where it is unlike any of them.

    Distances are Mahalanobis' in the space of the learned statistics. Of one x, or of each row of several. `sample`
    warns below 0.1%.
    """
    return fit.outside_training(observed)


def _observation(model: Model, observed: ArrayLike) -> tuple[np.ndarray, int | None]:
    """The observation, and how many replicates it has; None if it is one x."""
    data = np.asarray(observed)
    iid = data.ndim == len(model.data_shape) + 1
    return model.observation(data, iid=iid), len(data) if iid else None


def _check(
    data: np.ndarray, predictions: np.ndarray, model: Model, statistics: Statistics | None, level: float
) -> PredictiveCheck:
    good = np.asarray(Chart.unscaled(model.support, model.data_shape).inside(jnp.asarray(predictions)))
    predictions = predictions[np.all(good & np.isfinite(predictions), axis=tuple(range(1, predictions.ndim)))]
    rows = np.concatenate([data[None], predictions])
    _require_enough(len(predictions), data, model, statistics, level)
    names, values = _statistics(rows, model, statistics)
    observed, predicted = values[0], values[1:]
    above, below = (np.mean(side, axis=0) for side in (predicted >= observed, predicted <= observed))
    number = len(predicted)
    two_sided = 2 * (np.minimum(above, below) * number + 1) / (number + 1)
    return PredictiveCheck(
        names,
        observed,
        predicted,
        np.minimum(two_sided, 1.0),
        _tail(_mahalanobis(values)),
        _tail(_standardised(rows.reshape(len(rows), -1))),
        level,
    )


def _require_enough(number: int, data: np.ndarray, model: Model, statistics: Statistics | None, level: float) -> None:
    """The smallest p-value there can be must fall below the threshold."""
    many = len(_statistics(data[None], model, statistics)[0])
    needed = int(np.ceil(2 * (many + 2) / level))
    if number < needed:
        raise ValueError(
            f"With {many} statistics at level {level:g}, {number} usable predictions cannot show a misfit: give "
            f"num={needed} or more, or fewer statistics."
        )


def _tail(distances: Float[np.ndarray, " m"]) -> float:
    """The share of distances as large as the first one, that one among them."""
    return float(np.mean(distances >= distances[0]))


def _mahalanobis(rows: Float[np.ndarray, "m s"]) -> Float[np.ndarray, " m"]:
    """The squared distance of each row from the mean of all but the first, in their shape."""
    centred = rows - rows[1:].mean(axis=0)
    precision = np.linalg.pinv(np.atleast_2d(np.cov(rows[1:], rowvar=False)), rcond=1e-8, hermitian=True)
    return np.einsum("mi,ij,mj->m", centred, precision, centred)


def _standardised(rows: Float[np.ndarray, "m d"]) -> Float[np.ndarray, " m"]:
    """The mean squared deviation of each row from the mean of all but the first, in units of their spread."""
    centre, spread = rows[1:].mean(axis=0), rows[1:].std(axis=0)
    return np.mean(((rows - centre) / np.maximum(spread, 1e-12 * (1 + np.abs(centre)))) ** 2, axis=1)


def _statistics(
    rows: Float[np.ndarray, "m ..."], model: Model, statistics: Statistics | None
) -> tuple[tuple[str, ...], Float[np.ndarray, "m s"]]:
    """Names and values of the statistics of each row."""
    if isinstance(statistics, Fit):
        shape = statistics.data_shape
        flat = statistics.statistics(rows.reshape(-1, *shape))
        values = {"statistic": flat.reshape(len(rows), -1, flat.shape[-1]).mean(axis=1)}
    elif callable(statistics):
        values = {"statistic": _each(statistics, rows)}
    else:
        chosen = _usual(model) if statistics is None else statistics
        values = {name: _each(function, rows) for name, function in chosen.items()}
    names = []
    for name, value in values.items():
        names += [name] if value.shape[1] == 1 else [f"{name} {i + 1}" for i in range(value.shape[1])]
    return tuple(names), np.concatenate(list(values.values()), axis=1)


def _each(function: Statistic, rows: np.ndarray) -> Float[np.ndarray, "m s"]:
    return np.stack([np.ravel(np.asarray(function(row), np.float64)) for row in rows])


def _usual(model: Model) -> dict[str, Statistic]:
    usual: dict[str, Statistic] = {
        "mean": np.mean,
        "standard deviation": np.std,
        "minimum": np.min,
        "maximum": np.max,
    }
    if model.markov_order is None and len(model.data_shape) == 1:
        return usual
    axis = -len(model.data_shape)
    return usual | {"correlation of successive values": lambda x: _autocorrelation(np.moveaxis(x, axis, 0))}


def _autocorrelation(series: Float[np.ndarray, "steps ..."]) -> float:
    centred = series - series.mean()
    return float(np.sum(centred[1:] * centred[:-1]) / np.maximum(np.sum(centred**2), 1e-300))
