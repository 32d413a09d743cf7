"""Pictures of calibration: ranks, coverage and random points, with the bands that a right posterior stays in."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from suffice.diagnostics import Calibration, Coverage, Ranks
from suffice.plot.style import INK, figure, legend_below, looks


def calibration(found: Calibration) -> Figure:
    """Ranks of each parameter and of all together, and coverage: each with the band that it should stay in."""
    drawn, (panels,) = figure(1, 3, width=11.0, height=4.0)
    _differences(panels[0], found.sbc)
    panels[0].set_title("ranks of each parameter", fontsize=9)
    _differences(panels[1], found.tarp, found.distance)
    panels[1].set_title("all parameters together", fontsize=9)
    _coverage(panels[2], found.coverage)
    panels[2].set_title("credible regions", fontsize=9)
    return drawn


def ecdf(ranks: Ranks) -> Figure:
    """By how much the distribution function of ranks differs from the uniform one, and the band it should stay in."""
    drawn, ((panel,),) = figure(width=5.0, height=3.8)
    _differences(panel, ranks)
    return drawn


def histogram(ranks: Ranks) -> Figure:
    """A histogram of the ranks of each quantity, and the band that one bar stays in but for `level` of the time."""
    number, bins = len(ranks.names), ranks.bins
    drawn, (panels,) = figure(1, number, width=0.8 + 2.8 * number, height=3.0)
    tails = (ranks.level / 2, 1 - ranks.level / 2)
    low, high = stats.binom.ppf(tails, len(ranks.ranks), 1 / bins)
    for i, panel in enumerate(panels):
        panel.axhspan(low, high, color="0.88", linewidth=0, zorder=0, label=f"{1 - ranks.level:.0%} band of one bar")
        panel.axhline(len(ranks.ranks) / bins, color=INK, linestyle=":", linewidth=1.0, label="expected")
        panel.bar(np.arange(bins) + 0.5, ranks.histogram[:, i], width=0.9, color="0.5", zorder=0.5)
        panel.set_xlabel(f"rank of the truth, {ranks.names[i]}")
        panel.set_xticks([0, bins], ["0", str(ranks.num_draws)])
    panels[0].set_ylabel("simulations")
    drawn.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", frameon=False, fontsize=8, ncols=2)
    return drawn


def coverage(found: Coverage) -> Figure:
    """The share of credible regions that hold the truth against their level."""
    drawn, ((panel,),) = figure(width=4.2, height=4.4)
    _coverage(panel, found)
    return drawn


def _differences(panel: Axes, *several: Ranks) -> None:
    first = several[0]
    low, high = first.band - first.levels
    panel.fill_between(first.levels, low, high, color="0.88", linewidth=0, label=f"{1 - first.level:.0%} band")
    panel.axhline(0, color=INK, linewidth=0.6)
    curves = [(ranks, i) for ranks in several for i in range(len(ranks.names))]
    for (ranks, i), look in zip(curves, looks(), strict=False):
        panel.plot(ranks.levels, ranks.ecdf[:, i] - ranks.levels, label=ranks.names[i], linewidth=1.4, **look)
    panel.set_xlabel("fractional rank of the truth")
    panel.set_ylabel("share below, less expected")
    legend_below(panel)


def _coverage(panel: Axes, found: Coverage) -> None:
    panel.fill_between(found.levels, *found.band, color="0.88", linewidth=0, label=f"{1 - found.error:.0%} band")
    panel.plot([0, 1], [0, 1], color=INK, linewidth=0.6)
    shares = [*found.marginal.T, found.joint]
    for name, share, look in zip([*found.names, "all together"], shares, looks(), strict=False):
        panel.plot(found.levels, share, label=name, linewidth=1.4, **look)
    panel.set_xlabel("credible level")
    panel.set_ylabel("share that holds the truth")
    panel.set_aspect("equal")
    legend_below(panel)
