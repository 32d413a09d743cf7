"""The paper's tables of settings, as the library has them."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from suffice.charts import bounds
from suffice.experiments.item import Result
from suffice.experiments.lab import PAPER_KINDS, Lab
from suffice.experiments.methods import LABELS, model_of
from suffice.family.architectures import PAPER
from suffice.fitting import Training


@dataclass(frozen=True)
class Priors:
    """Bounds of the uniform priors."""

    def __call__(self, lab: Lab) -> Result:
        """One row a model and parameter."""
        rows = []
        for name, label in LABELS.items():
            model = model_of(name)
            low, high = bounds(model.prior.support, (model.num_parameters,))
            rows += [
                {"model": label, "parameter": parameter, "from": f"{low[k]:g}", "to": f"{high[k]:g}"}
                for k, parameter in enumerate(model.names)
            ]
        return Result({"": pd.DataFrame(rows)})


@dataclass(frozen=True)
class Architectures:
    """Layer widths of the paper's networks."""

    def __call__(self, lab: Lab) -> Result:
        """One row a model and network."""
        rows = []
        for name, made in PAPER.items():
            model = made.model()
            p, size = model.num_parameters, int(np.prod(model.data_shape))
            series = 1 if len(model.data_shape) == 1 else model.data_shape[1]
            networks = {"η": (p, *made.natural_widths, p)}
            if made.order is None:
                networks |= {"f": (size, *made.widths, p + 1), "s": (size, *made.widths, p)}
            else:
                summed = made.order * series + made.window_outputs
                networks["φ of f and s"] = ((made.order + 1) * series, *made.window_widths, made.window_outputs)
                networks |= {"ρ of f": (summed, *made.widths, p + 1), "ρ of s": (summed, *made.widths, p)}
            for network, widths in networks.items():
                rows.append({"model": LABELS[name], "network": network, "widths": "-".join(map(str, widths))})
        return Result({"": pd.DataFrame(rows)})


@dataclass(frozen=True)
class Hyperparameters:
    """Settings of the paper's training."""

    def __call__(self, lab: Lab) -> Result:
        """One row a model and objective."""
        rows = []
        for name in LABELS:
            for kind in PAPER_KINDS:
                if name.startswith("lorenz") and kind == "SM":
                    continue
                made = Training.paper(name, kind)
                natural = "" if made.natural_learning_rate is None else f"{made.natural_learning_rate:g}"
                rows.append(
                    {
                        "model": LABELS[name],
                        "by": kind,
                        "rate of f": f"{made.learning_rate:g}",
                        "rate of η": natural,
                        "T": made.epochs,
                        "T_start": made.first_check,
                        "T_check": made.check_every,
                        "scheduler": "yes" if made.schedule == "exponential" else "no",
                    }
                )
        return Result({"": pd.DataFrame(rows)})
