"""The study of inner steps of exchange MCMC, and its time tables."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from suffice.experiments.drawing import boxes
from suffice.experiments.item import Result
from suffice.experiments.lab import Lab
from suffice.experiments.methods import LABELS
from suffice.experiments.published import EXCHANGE_MINUTES

Group = Literal["iid", "series"]


@dataclass(frozen=True)
class InnerSteps:
    """W₂ and error of the mean by the number of inner steps, for Exc-SM and Exc-SSM.

    Args:
        group: of models.
    """

    group: Group

    def __call__(self, lab: Lab) -> Result:
        """One row a model, fit and number of steps."""
        rows, columns = [], {}
        for name in lab.scale.group(self.group):
            for method in lab.scale.methods_of(name, ("Exc-SM", "Exc-SSM")):
                measures: dict[str, dict[str, np.ndarray]] = {"W₂": {}, "error of the mean": {}}
                for steps in lab.scale.inner_steps:
                    found = lab.measured(name, method, lab.scale.other_inner(name, steps))
                    distances, errors = found.arrays["W2"], found.arrays["mean error"]
                    measures["W₂"][str(steps)], measures["error of the mean"][str(steps)] = distances, errors
                    rows.append(
                        {
                            "model": LABELS[name],
                            "method": method,
                            "inner steps": steps,
                            "median W2": round(float(np.median(distances)), 4),
                            "median mean error": round(float(np.median(errors)), 4),
                            "median sd ratio": round(float(np.median(found.arrays["sd ratio"])), 3),
                            "observations": len(distances),
                        }
                    )
                columns[f"{LABELS[name]}, {method}"] = measures
        return Result({"": pd.DataFrame(rows)}, {"": boxes(columns)})


@dataclass(frozen=True)
class InnerTime:
    """The time of exchange MCMC by the number of inner steps.

    Args:
        group: of models.
    """

    group: Group

    def __call__(self, lab: Lab) -> Result:
        """One row a model: seconds for one observation when many run at once, beside the paper's minutes."""
        warmup, draws = lab.scale.exchange
        rows = []
        for name in lab.scale.group(self.group):
            for steps in lab.scale.inner_steps:
                found = lab.measured(name, "Exc-SM", lab.scale.other_inner(name, steps))
                number = len(found.arrays["W2"])
                each = found.values["seconds"] / number
                minutes = EXCHANGE_MINUTES[self.group].get(steps)
                rows.append(
                    {
                        "model": LABELS[name],
                        "inner steps": steps,
                        "seconds each": round(each, 2),
                        "ESS": int(np.median(found.arrays["ESS"])),
                        "ESS a second": round(float(np.sum(found.arrays["ESS"]) / found.values["seconds"]), 1),
                        "observations": number,
                        "outer steps": warmup + draws,
                        "published minutes": "–" if minutes is None else minutes,
                    }
                )
        note = (
            f"Seconds of {warmup + draws} outer steps for one observation, all observations of a block at once, "
            "compilation included, on two cores; the paper: 20,000 outer steps, one core, one observation at a time. "
            "ESS: effective draws of the worse parameter, a median; a second: of all observations, by the time of all."
        )
        return Result({"": pd.DataFrame(rows)}, notes=(note,))
