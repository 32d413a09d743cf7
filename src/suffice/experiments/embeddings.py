"""Learned statistics and natural parameters beside the exact ones of exponential family models."""

from dataclasses import dataclass
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Float

from suffice.diagnostics import mcc
from suffice.experiments.drawing import scatters
from suffice.experiments.item import Result
from suffice.experiments.lab import Lab
from suffice.experiments.methods import LABELS, model_of
from suffice.experiments.published import MCC
from suffice.simulation import Simulations, simulate

COLUMNS = ("weak in", "weak out", "strong in", "strong out")
Embedding = Literal["statistics", "natural"]


@dataclass(frozen=True)
class MccTable:
    """Mean correlation coefficients of fits by one objective, at the paper's settings and at ours.

    Args:
        objective: "SM" or "SSM".
    """

    objective: Literal["SM", "SSM"]

    def __call__(self, lab: Lab) -> Result:
        """One row a model, embedding and settings; medians over seeds."""
        rows = []
        for name in lab.scale.iid:
            for what in ("statistics", "natural"):
                printed = MCC[self.objective, name, what]
                rows.append(_row(name, what, "published", printed))
                for kind, settings in ((self.objective, "paper's, here"), (f"ours-{self.objective}", "ours")):
                    found = [_mcc(lab, name, what, kind, seed) for seed in range(lab.scale.seeds)]
                    rows.append(_row(name, what, settings, tuple(np.median(found, axis=0))))
            if name == "gaussian":
                found = [_mcc(lab, name, "released", self.objective, seed) for seed in range(lab.scale.seeds)]
                words = "paper's, against the released code's η (D8)"
                rows.append(_row(name, "natural", words, tuple(np.median(found, axis=0))))
        number, half = lab.scale.seeds, lab.scale.embedded // 2
        note = f"Median of {number} seed{'s' if number > 1 else ''}; {half} fresh pairs in, {half} out of sample."
        return Result({"": pd.DataFrame(rows)}, notes=(note,))


@dataclass(frozen=True)
class Embeddings:
    """Scatter plots of learned against exact embeddings.

    Args:
        objective: "SM" or "SSM".
    """

    objective: Literal["SM", "SSM"]

    def __call__(self, lab: Lab) -> Result:
        """One row of panels a model and embedding; the table has the correlation after the best linear map."""
        rows, panels = [], []
        for name in lab.scale.iid:
            for what in ("statistics", "natural"):
                for kind in (self.objective, f"ours-{self.objective}"):
                    learned, exact = embedded(lab, name, what, kind)
                    exact, mapped = aligned(learned, exact)
                    correlations = [float(np.corrcoef(exact[:, k], mapped[:, k])[0, 1]) for k in range(exact.shape[1])]
                    settings = "paper's, here" if kind == self.objective else "ours"
                    cells = {f"correlation {k + 1}": round(c, 4) for k, c in enumerate(correlations)}
                    rows.append({"model": LABELS[name], "embedding": what, "settings": settings} | cells)
                    if kind == self.objective:
                        panels.append((f"{LABELS[name]}, {what}", exact, mapped))
        note = "Drawn: the paper's settings. The linear map is fitted on half of the pairs, the other half is shown."
        return Result({"": pd.DataFrame(rows)}, {"": scatters(panels)}, (note,))


def embedded(
    lab: Lab, name: str, what: str, kind: str, seed: int = 0
) -> tuple[Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]:
    """Learned and exact values on fresh pairs; "released": the natural parameters of the released code (D8)."""
    fit, fresh, model = lab.fit(name, kind, seed), _fresh(lab, name), model_of(name)
    theta = jnp.asarray(fresh.theta)
    if what == "statistics":
        assert model.sufficient_statistics is not None
        return fit.statistics(fresh.x), np.asarray(jax.vmap(model.sufficient_statistics)(fresh.x))
    assert model.natural_parameters is not None
    exact = np.asarray(jax.vmap(model.natural_parameters)(theta))
    if what == "released":
        mean, sd = fresh.theta.T
        exact = np.stack([mean / sd**2, -0.5 / sd], axis=1)
    return np.asarray(jax.vmap(fit.family.natural)(theta)), exact


def aligned(
    learned: Float[np.ndarray, "n k"], exact: Float[np.ndarray, "n m"]
) -> tuple[Float[np.ndarray, "h m"], Float[np.ndarray, "h m"]]:
    """The exact values, standardised, and the linear map of the learned ones that is closest, on the other half."""
    target = (exact - exact.mean(0)) / exact.std(0)
    design = np.column_stack([np.ones(len(learned)), (learned - learned.mean(0)) / (learned.std(0) + 1e-30)])
    half = len(exact) // 2
    coefficients = np.linalg.lstsq(design[:half], target[:half], rcond=None)[0]
    return target[half:], design[half:] @ coefficients


def _fresh(lab: Lab, name: str) -> Simulations:
    return simulate(lab.key("embedded", name), model_of(name), lab.scale.embedded, progress=False)


def _mcc(lab: Lab, name: str, what: str, kind: str, seed: int) -> tuple[float, float, float, float]:
    found = mcc(*embedded(lab, name, what, kind, seed))
    return found.weak_in, found.weak_out, found.strong_in, found.strong_out


def _row(name: str, what: str, settings: str, values: tuple[float, ...]) -> dict[str, object]:
    cells: dict[str, object] = {column: round(float(value), 3) for column, value in zip(COLUMNS, values, strict=True)}
    words: dict[str, object] = {"model": LABELS[name], "embedding": what, "settings": settings}
    return words | cells
