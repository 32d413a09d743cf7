"""Lorenz96: posteriors for one observation, predictive scores over many, and the bandwidth of the kernel score."""

from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import pandas as pd
from jaxtyping import Float

from suffice.charts import bounds
from suffice.diagnostics import energy_score, kernel_bandwidth, kernel_score
from suffice.experiments.cache import Record
from suffice.experiments.drawing import boxes, curves, marginals
from suffice.experiments.item import Result
from suffice.experiments.lab import Lab
from suffice.experiments.methods import LABELS, model_of
from suffice.experiments.published import BANDWIDTH
from suffice.simulation import simulate_at

METHODS = {
    "lorenz96-small": ("ABC-SSM", "ABC-FP", "Exc-SSM", "Direct", "Direct-innovations"),
    "lorenz96-large": ("ABC-SSM", "ABC-FP", "Direct"),
}
RELEASED_THETA = (2.0, 0.5, 1.0, 0.4)  # where the released code simulates for γ (D6)
OURS_SAID = (
    "Ours: Direct with default networks, by exact score matching, on the small configuration, and by a regression on "
    "innovations; by the latter alone on the large."
)


@dataclass(frozen=True)
class LorenzPosteriors:
    """Posteriors for the first observation of each configuration."""

    def __call__(self, lab: Lab) -> Result:
        """Marginal densities; the table has means and standard deviations."""
        shown, truths, prior, rows = {}, {}, {}, []
        for name in lab.scale.lorenz:
            model, label = model_of(name), LABELS[name]
            shown[label] = {
                method: lab.first_posterior(name, method) for method in lab.scale.methods_of(name, METHODS[name])
            }
            truths[label] = lab.observations(name).theta[0]
            low, high = bounds(model.prior.support, (model.num_parameters,))
            prior[label] = {"low": np.asarray(low), "high": np.asarray(high)}
            for method, post in shown[label].items():
                for k, parameter in enumerate(model.names):
                    numbers = {"truth": truths[label][k], "mean": post.mean[k], "sd": post.sd[k]}
                    rounded = {key: round(float(value), 3) for key, value in numbers.items()}
                    rows.append({"model": label, "method": method, "parameter": parameter} | rounded)
        widths = _widths(lab)
        return Result({"": pd.DataFrame(rows), "widths": widths}, {"": marginals(shown, truths, prior)}, (OURS_SAID,))


def _widths(lab: Lab) -> pd.DataFrame:
    """The median standard deviation of each parameter over observations, by method."""
    rows = []
    for name in lab.scale.lorenz:
        model = model_of(name)
        theta = lab.observations(name).theta
        for method in lab.scale.methods_of(name, METHODS[name]):
            posteriors = lab.sampled(name, method).posteriors
            sd = np.median([post.sd for post in posteriors], axis=0)
            errors = [np.abs(post.mean - truth) for post, truth in zip(posteriors, theta, strict=False)]
            cells = {f"sd {parameter}": round(float(sd[k]), 4) for k, parameter in enumerate(model.names)}
            middle = np.median(errors, axis=0)
            cells |= {f"error {parameter}": round(float(middle[k]), 4) for k, parameter in enumerate(model.names)}
            rows.append({"model": LABELS[name], "method": method} | cells | {"observations": len(posteriors)})
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class CumulativeScores:
    """Energy and kernel scores of the posterior predictive, summed over time steps."""

    def __call__(self, lab: Lab) -> Result:
        """Boxes for each configuration; the table has medians and quartiles."""
        rows, columns = [], {}
        for name in lab.scale.lorenz:
            measures: dict[str, dict[str, np.ndarray]] = {"energy score": {}, "kernel score": {}}
            for method in lab.scale.methods_of(name, METHODS[name]):
                arrays = scores(lab, name, method).arrays
                cells: dict[str, object] = {"model": LABELS[name], "method": method}
                for score in ("energy", "kernel"):
                    totals = arrays[score].sum(axis=1)
                    measures[f"{score} score"][method] = totals
                    low, middle, high = np.quantile(totals, [0.25, 0.5, 0.75])
                    cells |= {f"{score} median": round(float(middle), 3)}
                    cells |= {f"{score} 25%": round(float(low), 3), f"{score} 75%": round(float(high), 3)}
                    if f"{score} released" in arrays:
                        middle = np.median(arrays[f"{score} released"].sum(axis=1))
                        cells[f"{score} as released (D5)"] = round(float(middle), 2)
                rows.append(cells | {"observations": len(arrays["energy"])})
            columns[LABELS[name]] = measures
        note = f"{lab.scale.predicted} predictive simulations for each observation; smaller is better. {OURS_SAID}"
        return Result({"": pd.DataFrame(rows)}, {"": boxes(columns, from_zero=False)}, (note,))


@dataclass(frozen=True)
class ScoresByStep:
    """The same scores at every time step."""

    def __call__(self, lab: Lab) -> Result:
        """Medians over observations with their middle 95%; the table has them at a few steps."""
        rows: list[dict[str, object]] = []
        columns: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
        for name in lab.scale.lorenz:
            for score in ("energy", "kernel"):
                lines = {}
                for method in lab.scale.methods_of(name, METHODS[name]):
                    values = scores(lab, name, method).arrays[score]
                    lines[method] = (np.arange(1, values.shape[1] + 1), values)
                    medians = np.median(values, axis=0)
                    for t in np.unique(np.linspace(0, len(medians) - 1, 5).astype(int)):
                        cells = {"model": LABELS[name], "score": score, "method": method, "step": int(t) + 1}
                        rows.append(cells | {"median": round(float(medians[t]), 4)})
                columns[f"{LABELS[name]}, {score} score"] = lines
        return Result({"": pd.DataFrame(rows)}, {"": curves(columns, x="time step", y="score")})


@dataclass(frozen=True)
class Bandwidth:
    """γ of the kernel score, from simulations of the prior as the text says, and at the released code's fixed θ."""

    def __call__(self, lab: Lab) -> Result:
        """One row a configuration."""
        rows = []
        for name in lab.scale.lorenz:
            found = bandwidths(lab, name).values
            cells = {
                "γ, prior simulations": round(found["prior"], 3),
                "γ, fixed θ as released (D6)": round(found["fixed"], 3),
                "published": BANDWIDTH[name],
            }
            rows.append({"model": LABELS[name]} | cells | {"simulations": lab.scale.bandwidth_simulations})
        return Result({"": pd.DataFrame(rows)})


def bandwidth(lab: Lab, name: str) -> float:
    """The paper's γ from simulations of the prior."""
    return float(bandwidths(lab, name).values["prior"])


def bandwidths(lab: Lab, name: str) -> Record:
    """γ from simulations of the prior, and from as many at the released code's θ."""
    number = lab.scale.bandwidth_simulations

    def make(_: Path) -> tuple[Record, int]:
        model, key = model_of(name), lab.key("bandwidth", name)
        theta = np.tile(np.array(RELEASED_THETA, np.float32), (number, 1))
        fixed = np.asarray(simulate_at(jax.random.fold_in(key, 1), model, theta).x)
        values = {"prior": kernel_bandwidth(key, model, number), "fixed": kernel_bandwidth(key, fixed, number)}
        return Record({}, values), 2 * number

    return lab.cache.fetch(f"bandwidth-{name}", {"model": name, "number": number, "seed": lab.seed}, make, lasts=True)


def scores(lab: Lab, name: str, method: str) -> Record:
    """Both scores of each observation at every time step, and as the released code takes them on the small one."""
    number = lab.scale.observations_of(name, method)
    settings = lab.method_settings(name, method, None) | {"number": number, "predicted": lab.scale.predicted}
    settings |= {"bandwidth": lab.scale.bandwidth_simulations}

    def make(_: Path) -> tuple[Record, int]:
        model, gamma = model_of(name), bandwidth(lab, name)
        found: dict[str, list[np.ndarray]] = {}
        for i, (post, observed) in enumerate(
            zip(lab.sampled(name, method).posteriors, lab.observations(name).x, strict=False)
        ):
            key = jax.random.fold_in(lab.key("predictive", name, method), i)
            predicted = post.predictive(key, model, lab.scale.predicted)
            made = {
                "energy": energy_score(predicted, observed).per_step,
                "kernel": kernel_score(predicted, observed, gamma).per_step,
            }
            if name == "lorenz96-small":
                made |= _as_released(predicted, observed, gamma)
            for score, values in made.items():
                found.setdefault(score, []).append(values)
        return Record({score: np.stack(values) for score, values in found.items()}), number * lab.scale.predicted

    return lab.cache.fetch(f"scores-{name}-{method}", settings, make, lasts=True)


def _as_released(
    predicted: Float[np.ndarray, "m t k"], observed: Float[np.ndarray, "t k"], gamma: float
) -> dict[str, np.ndarray]:
    """Scores as the released code takes them (D5): each variable's value as an observation of all variables."""
    width = observed.shape[1]
    targets = [np.repeat(observed[:, k : k + 1], width, axis=1) for k in range(width)]
    return {
        "energy released": np.sum([energy_score(predicted, target).per_step for target in targets], axis=0),
        "kernel released": np.sum([kernel_score(predicted, target, gamma).per_step for target in targets], axis=0),
    }
