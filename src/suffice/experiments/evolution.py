"""W₂ by iteration of the sequential methods, and the simulations they need to match Exc-SM."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd

from suffice.experiments.cache import Record
from suffice.experiments.drawing import curves
from suffice.experiments.item import Result
from suffice.experiments.lab import Lab
from suffice.experiments.methods import FIRST, LABELS, SEQUENTIAL
from suffice.experiments.published import ITERATIONS_TO_MATCH, SIMULATIONS_PER_ITERATION


@dataclass(frozen=True)
class Evolution:
    """Median W₂ against the simulations spent, with Exc-SM as a level.

    Args:
        group: of models.
        methods: sequential ones.
    """

    group: Literal["iid", "series"]
    methods: tuple[str, ...] = SEQUENTIAL

    def __call__(self, lab: Lab) -> Result:
        """A panel for each model; the table has the medians at a few iterations."""
        rows, levels = [], {}
        columns: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
        for name in lab.scale.group(self.group):
            label = LABELS[name]
            levels[label] = ("Exc-SM", float(np.median(lab.measured(name, "Exc-SM").arrays["W2"])))
            columns[label] = {}
            for method in lab.scale.methods_of(name, self.methods):
                arrays = lab.measured(name, method).arrays
                columns[label][method] = (arrays["simulations"], arrays["curve"])
                medians = np.median(arrays["curve"], axis=0)
                for t in np.unique(np.linspace(0, len(medians) - 1, 3).astype(int)):
                    rows.append(
                        {
                            "model": label,
                            "method": method,
                            "iteration": int(arrays["iterations"][t]),
                            "simulations": int(arrays["simulations"][t]),
                            "median W2": round(float(medians[t]), 4),
                            "Exc-SM": round(levels[label][1], 4),
                        }
                    )
        drawn = curves(
            columns,
            x="simulations for each observation",
            y="W₂ to the exact posterior",
            levels=levels,
            logarithmic=True,
        )
        return Result({"": pd.DataFrame(rows)}, {"": drawn})


@dataclass(frozen=True)
class SimulationsNeeded:
    """How many simulations each sequential method needs until its median W₂ is no larger than Exc-SM's.

    Args:
        target: whose median W₂ is to be matched.
        others: further targets, ours.
    """

    target: str = "Exc-SM"
    others: tuple[str, ...] = ("Direct",)

    def __call__(self, lab: Lab) -> Result:
        """One row a model, target and method, with totals for 1, 3 and 100 observations."""
        rows = []
        for name in lab.scale.group("likelihood"):
            for target in (self.target, *self.others):
                goal = float(np.median(lab.measured(name, target).arrays["W2"]))
                for method in lab.scale.methods_of(name, SEQUENTIAL):
                    first = lab.measured(name, FIRST) if method == "PMC-RE" and _has_first(lab, name) else None
                    cells = _reached(lab.measured(name, method), goal, method, lab.scale.simulations, first)
                    if target == self.target:
                        printed = ITERATIONS_TO_MATCH[name][method]
                        words = "–" if printed is None else printed
                        spent = "–" if printed is None else printed * SIMULATIONS_PER_ITERATION[method]
                        cells |= {"published iterations": words, "published simulations": spent}
                    else:
                        cells |= {"published iterations": "", "published simulations": ""}
                    rows.append({"model": LABELS[name], "to match": target, "method": method} | cells)
        note = (
            "–: never within the iterations made. Exc-SM and Direct need the training simulations only, whatever the "
            "number of observations. Medians over the observations that a method got; PMC-RE had its first iteration "
            "for all of them, and later ones for as many or fewer. Simulations of ABC include the 1,000 that scale its "
            "distance, which published ones do not."
        )
        return Result({"": pd.DataFrame(rows)}, notes=(note,))


def _has_first(lab: Lab, name: str) -> bool:
    return bool(lab.scale.methods_of(name, (FIRST,)))


def _reached(found: Record, goal: float, method: str, training: int, first: Record | None = None) -> dict[str, object]:
    """When the median W₂ reaches the goal, and what it takes; `first`: the first iteration for more observations."""
    medians = np.median(found.arrays["curve"], axis=0)
    number = np.full(len(medians), len(found.arrays["curve"]))
    if first is not None:
        medians[0], number[0] = np.median(first.arrays["curve"]), len(first.arrays["curve"])
    reached = np.flatnonzero(medians <= goal)
    trained = training if method.startswith("ABC") else 0
    if not len(reached):
        cells: dict[str, object] = {"observations": int(number[-1]), "iterations": "–", "simulations": "–"}
        return cells | {"training": trained} | {f"total {count} obs": "–" for count in (1, 3, 100)}
    step = int(reached[0])
    each = int(found.arrays["simulations"][step])
    cells = {"observations": int(number[step]), "iterations": int(found.arrays["iterations"][step])}
    cells |= {"simulations": each, "training": trained}
    return cells | {f"total {count} obs": trained + count * each for count in (1, 3, 100)}
