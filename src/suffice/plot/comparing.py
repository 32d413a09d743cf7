"""Pictures of comparisons: boxplots over observations, and how W₂ falls with simulations."""

import numpy as np
from matplotlib.figure import Figure

from suffice.compare import Comparison
from suffice.plot.style import COLOURS, HATCHES, INK, figure, legend, looks


def comparison(found: Comparison) -> Figure:
    """W₂ and the error of the mean of each method over the observations; whiskers at 2.5% and 97.5%."""
    names = list(found.outcomes)
    drawn, (panels,) = figure(1, 2, width=2.5 + 1.1 * len(names), height=3.4)
    for panel, measure, label in zip(panels, ("wasserstein", "mean_error"), ("W₂", "error of the mean"), strict=True):
        values = [getattr(found.outcomes[name], measure) for name in names]
        boxes = panel.boxplot(
            values, whis=(2.5, 97.5), patch_artist=True, showfliers=False, medianprops={"color": INK, "linewidth": 1.6}
        )
        for i, box in enumerate(boxes["boxes"]):
            box.set(facecolor=COLOURS[i % len(COLOURS)], alpha=0.55, hatch=HATCHES[i % len(HATCHES)], edgecolor=INK)
        panel.set_xticks(np.arange(len(names)) + 1, names, rotation=35, ha="right")
        panel.set_ylabel(label)
        panel.set_ylim(0)
    return drawn


def convergence(found: Comparison, *, target: str | None = None) -> Figure:
    """Median W₂ against simulations spent, with the middle 95% of observations; `target`: a method shown as a line."""
    drawn, ((panel,),) = figure(width=6.0, height=3.6)
    curves = {name: outcome.curve for name, outcome in found.outcomes.items() if outcome.curve is not None}
    for (name, curve), look in zip(curves.items(), looks(), strict=False):
        low, high = np.quantile(curve.wasserstein, [0.025, 0.975], axis=0)
        panel.fill_between(curve.simulations, low, high, color=look["color"], alpha=0.12, linewidth=0)
        panel.plot(curve.simulations, curve.median, label=name, linewidth=1.5, **look)
    if target is not None:
        goal = float(np.median(found.outcomes[target].wasserstein))
        panel.axhline(goal, color=INK, linewidth=0.8, label=target)
    panel.set_xscale("log")
    panel.set_xlabel("simulations for each observation")
    panel.set_ylabel("W₂ to the exact posterior")
    legend(panel)
    return drawn
