"""Posteriors of models with a known likelihood: pictures for one observation, boxplots over many."""

from dataclasses import dataclass
from typing import Literal

import jax
import numpy as np
import pandas as pd

from suffice.charts import bounds
from suffice.experiments.cache import Record
from suffice.experiments.drawing import boxes, densities
from suffice.experiments.item import Result
from suffice.experiments.lab import Lab
from suffice.experiments.methods import FIRST, FIRST_SAID, LABELS, OUR_METHODS, OURS_SAID, PAPER_METHODS, model_of
from suffice.experiments.released import RELEASED_SAID
from suffice.experiments.scales import DEFECTS
from suffice.posterior import Posterior

Group = Literal["iid", "series"]


@dataclass(frozen=True)
class PosteriorPictures:
    """Exact and approximate posteriors for the first observation of each model.

    Args:
        group: of models.
        methods: shown after the exact posterior.
    """

    group: Group
    methods: tuple[str, ...] = ("Exc-SM", "Exc-SSM", "ABC-SM", "ABC-SSM", "Direct")

    def __call__(self, lab: Lab) -> Result:
        """A row of panels for each model; the table has means and standard deviations."""
        shown: dict[str, dict[str, Posterior]] = {}
        truths, prior, rows = {}, {}, []
        for name in lab.scale.group(self.group):
            model, label, methods = model_of(name), LABELS[name], lab.scale.methods_of(name, self.methods)
            exact = lab.exact(name, lab.scale.observations).arrays
            shown[label] = {"exact": Posterior(exact["draws"][0][None], model.names)}
            shown[label] |= {method: lab.first_posterior(name, method) for method in methods}
            truths[label] = lab.observations(name).theta[0]
            low, high = bounds(model.prior.support, (model.num_parameters,))
            prior[label] = {"low": np.asarray(low), "high": np.asarray(high)}
            rows += [_moments(label, method, post, truths[label]) for method, post in shown[label].items()]
        return Result({"": pd.DataFrame(rows)}, {"": densities(shown, truths, prior)}, (OURS_SAID,))


def _moments(model: str, method: str, post: Posterior, truth: np.ndarray) -> dict[str, object]:
    cells: dict[str, object] = {"model": model, "method": method}
    for k, name in enumerate(post.names):
        mean, sd = f"{post.mean[k]:.3f}", f"{post.sd[k]:.3f}"
        cells |= {f"parameter {k + 1}": name, f"truth {k + 1}": f"{truth[k]:.3f}"}
        cells |= {f"mean {k + 1}": mean, f"sd {k + 1}": sd}
    return cells


@dataclass(frozen=True)
class Boxplots:
    """W₂ to the exact posterior and error of the posterior mean over observations, by method.

    Args:
        group: of models.
        methods: the paper's, the first iteration of PMC-RE, ours, and those with a defect of the released code.
    """

    group: Group
    methods: tuple[str, ...] = (*PAPER_METHODS, FIRST, *OUR_METHODS, *DEFECTS)

    def __call__(self, lab: Lab) -> Result:
        """Boxes for each model; the table has medians, quartiles, and what it took."""
        rows, columns = [], {}
        for name in lab.scale.group(self.group):
            measures: dict[str, dict[str, np.ndarray]] = {"W₂": {}, "error of the mean": {}}
            floor = _floor(lab, name)
            for method in lab.scale.methods_of(name, self.methods):
                found = lab.measured(name, method)
                distances, errors = found.arrays["W2"], found.arrays["mean error"]
                measures["W₂"][method], measures["error of the mean"][method] = distances, errors
                low, middle, high = np.quantile(distances, [0.25, 0.5, 0.75])
                cells = {"median W2": middle, "25% W2": low, "75% W2": high, "W2 of two exact samples": floor}
                cells |= {
                    "median mean error": np.median(errors),
                    "median sd ratio": np.median(found.arrays["sd ratio"]),
                }
                rounded = {key: round(float(value), 4) for key, value in cells.items()}
                counts = {"observations": len(distances), "doubtful": _doubtful(method, found)}
                rows.append(
                    {"model": LABELS[name], "method": method}
                    | rounded
                    | counts
                    | {"seconds": round(found.values["seconds"], 1)}
                )
            columns[LABELS[name]] = measures
        draws = lab.scale.transport_draws
        note = (
            f"W₂ between {draws} draws of either posterior (the paper's figure: 10,000 of exchange chains, 1,000 of "
            "others). Whiskers: the middle 95%."
        )
        released = (RELEASED_SAID,) if self.group == "iid" else ()
        return Result({"": pd.DataFrame(rows)}, {"": boxes(columns)}, (note, FIRST_SAID, OURS_SAID, *released))


def _doubtful(method: str, found: Record) -> int | str:
    """How many posteriors come with doubts; empty with D2, where data are held against the family without it."""
    return "" if method == "Exc-SM-D2" else int(found.values["doubtful"])


def _floor(lab: Lab, name: str) -> float:
    """The median W₂ of two samples of the exact posterior: what no method can beat."""
    from suffice.diagnostics import wasserstein
    from suffice.zoo import exact_posterior

    draws = lab.scale.transport_draws
    exact, rows = lab.exact(name, lab.scale.observations).arrays["draws"], lab.observations(name).x[:5]
    keys = jax.random.split(lab.key("floor", name), len(rows))
    others = [exact_posterior(model_of(name), row).resample(key, draws) for row, key in zip(rows, keys, strict=True)]
    return float(np.median([wasserstein(one, other) for one, other in zip(others, exact, strict=False)]))
