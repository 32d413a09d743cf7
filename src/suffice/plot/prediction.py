"""Pictures of predictions: bands for series, statistics beside the observed ones, scores per time step."""

from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from suffice.diagnostics import PredictiveCheck, Score
from suffice.plot.style import BLUE, INK, figure, legend, looks, without_heights

MOST_SERIES = 6  # variables of a multivariate series that are drawn


def bands(predictive: ArrayLike, observed: ArrayLike, *, names: tuple[str, ...] | None = None) -> Figure:
    """What the posterior predicts at each step, as bands of 50% and 90%, and what was observed.

    Args:
        predictive: simulated x, one row a draw: (m, T) or (m, T, K).
        observed: (T,) or (T, K).
        names: of the K variables.
    """
    simulated, data = np.asarray(predictive, float), np.asarray(observed, float)
    if simulated.shape[1:] != data.shape or data.ndim not in (1, 2):
        raise ValueError(
            f"predictive has shape {simulated.shape} and observed {data.shape}, but predictive must be rows of the "
            "shape of observed, (T,) or (T, K)."
        )
    simulated, data = simulated.reshape(len(simulated), len(data), -1), data.reshape(len(data), -1)
    shown = min(MOST_SERIES, data.shape[1])
    drawn, panels = figure(shown, 1, width=7.5, height=0.8 + 1.7 * shown)
    steps = np.arange(len(data))
    for k, (panel,) in enumerate(panels):
        low, lower, middle, upper, high = np.nanquantile(simulated[..., k], [0.05, 0.25, 0.5, 0.75, 0.95], axis=0)
        panel.fill_between(steps, low, high, color=BLUE, alpha=0.18, linewidth=0, label="90% predicted")
        panel.fill_between(steps, lower, upper, color=BLUE, alpha=0.35, linewidth=0, label="50% predicted")
        panel.plot(steps, middle, color=BLUE, linewidth=1.0)
        panel.plot(steps, data[:, k], ".-", color=INK, markersize=3, linewidth=0.6, label="observed")
        panel.set_ylabel(names[k] if names else ("x" if data.shape[1] == 1 else f"x{k + 1}"))
    panels[-1][0].set_xlabel("step")
    legend(panels[0][0])
    return drawn


def predictive_check(check: PredictiveCheck) -> Figure:
    """The predicted distribution of each statistic, and the observed value."""
    number = len(check.names)
    columns = 2 if number in (2, 4) else min(number, 3)  # few enough to be read on a telephone
    rows = -(-number // columns)
    drawn, panels = figure(rows, columns, width=0.6 + 2.5 * columns, height=0.7 + 2.1 * rows)
    flat = [panel for row in panels for panel in row]
    for i, name in enumerate(check.names):
        flat[i].hist(check.predicted[:, i], bins=30, color=BLUE, alpha=0.4, label="predicted")
        flat[i].axvline(check.observed[i], color=INK, linewidth=1.5, label="observed")
        flat[i].set_xlabel(name)
        flat[i].set_title(f"p = {check.p_values[i]:.2g}", fontsize=9)
        without_heights(flat[i])
    for panel in flat[number:]:
        panel.set_axis_off()
    drawn.legend(*flat[0].get_legend_handles_labels(), loc="outside lower center", frameon=False, fontsize=8, ncols=2)
    return drawn


def scores(by_method: Mapping[str, Score]) -> Figure:
    """The score of each time step, one line a method: lower is better."""
    drawn, ((panel,),) = figure(width=6.5, height=3.2)
    for (name, score), look in zip(by_method.items(), looks(), strict=False):
        panel.plot(score.per_step, label=f"{name} ({score.total:.3g} in all)", linewidth=1.3, **look)
    panel.set_xlabel("step")
    panel.set_ylabel("score (lower is better)")
    legend(panel)
    return drawn
