"""Pictures of posteriors: pair plots, traces, ranks of chains."""

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike
from scipy.stats import rankdata

from suffice.grid import GridPosterior
from suffice.plot.smoothing import density, highest
from suffice.plot.style import BLUE, INK, ORANGE, figure, looks, without_heights
from suffice.posterior import Posterior

MOST_DRAWS = 2000  # that a density is smoothed from
LEVELS = (0.5, 0.9)  # of the regions of highest density that are drawn
REFERENCE_DRAWS = 4000

Reference = Posterior | GridPosterior


def pair(
    posterior: Posterior,
    *,
    truth: ArrayLike | None = None,
    reference: Reference | None = None,
    labels: tuple[str, str] = ("posterior", "reference"),
) -> Figure:
    """Each parameter's marginal density, and the regions that hold 50% and 90% of each pair.

    Args:
        posterior: what to draw.
        truth: the parameters that the data were simulated at, if they are known: a cross.
        reference: another posterior to compare with, dashed.
        labels: what the two are called.
    """
    shown = [(posterior.flat, posterior.flat_weights, labels[0], {"color": BLUE, "linestyle": "-"})]
    if reference is not None:
        rows = _reference_rows(reference)
        shown.append((rows, np.full(len(rows), 1 / len(rows)), labels[1], {"color": ORANGE, "linestyle": "--"}))
    names, p = posterior.names, len(posterior.names)
    cross = None if truth is None else np.asarray(truth, float)
    if cross is not None and cross.shape != (p,):
        raise ValueError(
            f"truth has shape {cross.shape}, but must be one number for each of the {p} parameters: {', '.join(names)}."
        )
    limits = _limits([rows for rows, _, _, _ in shown], cross)
    drawn, panels = figure(p, p, width=1.2 + 2.2 * p, height=0.9 + 2.2 * p)
    for i in range(p):
        for j in range(p):
            panel = panels[i][j]
            if j > i:
                panel.set_axis_off()
                continue
            for rows, weights, label, look in shown:
                if i == j:
                    _marginal(panel, rows[:, i], weights, label, look)
                else:
                    _regions(panel, rows[:, [j, i]], weights, look)
            _mark(panel, cross, i, j)
            panel.set_xlabel(names[j] if i == p - 1 else "")
            panel.set_ylabel(("density" if i == j else names[i]) if j == 0 else "")
            panel.set_xlim(*limits[:, j])
            if i == j:
                without_heights(panel)
                panel.set_ylim(0)
            else:
                panel.set_ylim(*limits[:, i])
    handles, texts = panels[0][0].get_legend_handles_labels()
    drawn.legend(handles, texts, loc="upper right", frameon=False, fontsize=9)
    return drawn


def trace(posterior: Posterior) -> Figure:
    """Each parameter along its chains."""
    names = posterior.names
    drawn, panels = figure(len(names), 1, width=8.0, height=0.6 + 1.5 * len(names))
    for i, (name, (panel,)) in enumerate(zip(names, panels, strict=True)):
        for number, (chain, look) in enumerate(zip(posterior.draws[..., i], looks(), strict=False)):
            panel.plot(chain, color=look["color"], linewidth=0.6, alpha=0.8, label=f"chain {number + 1}")
        panel.margins(x=0.01)
        panel.set_ylabel(name)
    panels[-1][0].set_xlabel("draw")
    if len(posterior.draws) > 1:
        drawn.legend(*panels[0][0].get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    return drawn


def ranks(posterior: Posterior, *, bins: int = 20) -> Figure:
    """Histograms of the ranks of each chain's draws among all: alike where chains agree (Vehtari et al., 2021)."""
    chains, draws, p = posterior.draws.shape
    drawn, panels = figure(1, p, width=1.8 + 2.6 * p, height=2.4)
    expected = draws / bins
    band = 2 * np.sqrt(expected * (1 - 1 / bins))
    for i in range(p):
        panel = panels[0][i]
        order = rankdata(posterior.draws[..., i]).reshape(chains, draws) - 0.5
        edges = np.linspace(0, chains * draws, bins + 1)
        panel.axhspan(max(expected - band, 0), expected + band, color="0.9", zorder=0)
        for number, (row, look) in enumerate(zip(order, looks(), strict=False)):
            counts = np.histogram(row, edges)[0]
            panel.stairs(counts, edges, baseline=None, label=f"chain {number + 1}", **look)
        panel.set_xlabel(f"rank of {posterior.names[i]}")
        panel.set_ylim(0)
        panel.set_xlim(0, chains * draws)
    panels[0][0].set_ylabel("draws")
    drawn.legend(*panels[0][0].get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    return drawn


def _reference_rows(reference: Reference) -> Float[np.ndarray, "n p"]:
    if isinstance(reference, GridPosterior):
        import jax

        return reference.resample(jax.random.key(0), REFERENCE_DRAWS).flat
    if reference.weights is None:
        return reference.flat
    return _thinned(reference.flat, reference.flat_weights)[0]


def _thinned(
    rows: Float[np.ndarray, "n ..."], weights: Float[np.ndarray, " n"]
) -> tuple[Float[np.ndarray, "m ..."], Float[np.ndarray, " m"]]:
    """At most `MOST_DRAWS` rows, taken evenly."""
    step = max(1, -(-len(rows) // MOST_DRAWS))
    kept = weights[::step]
    return rows[::step], kept / kept.sum()


def _marginal(
    panel: Axes, values: Float[np.ndarray, " n"], weights: Float[np.ndarray, " n"], label: str, look: dict[str, str]
) -> None:
    if np.ptp(values) == 0:
        panel.axvline(values[0], label=label, **look)
        return
    heights, edges = np.histogram(values, bins=40, weights=weights, density=True)
    panel.stairs(heights, edges, alpha=0.18, fill=True, color=look["color"])
    grid, drawn = density(*_thinned(values[:, None], weights))
    panel.plot(grid[0], drawn, label=label, linewidth=1.5, **look)


def _regions(
    panel: Axes, rows: Float[np.ndarray, "n 2"], weights: Float[np.ndarray, " n"], look: dict[str, str]
) -> None:
    some, mass = _thinned(rows, weights)
    if np.linalg.matrix_rank(np.atleast_2d(np.cov(some, rowvar=False))) < 2:
        panel.plot(*some.T, ".", color=look["color"], markersize=2)
        return
    axes, heights = density(some, mass)
    cuts = sorted({highest(heights, level) for level in LEVELS})
    for cut in cuts:
        panel.contourf(*axes, heights.T, levels=[cut, heights.max() * 1.001], colors=[look["color"]], alpha=0.15)
    panel.contour(*axes, heights.T, levels=cuts, colors=look["color"], linestyles=look["linestyle"], linewidths=1.2)


def _limits(samples: list[Float[np.ndarray, "_ p"]], truth: Float[np.ndarray, " p"] | None) -> Float[np.ndarray, "2 p"]:
    """From where to where each parameter is drawn, the same in all its panels."""
    rows = [*samples] if truth is None else [*samples, truth[None]]
    low, high = (np.array([end(values) for values in np.concatenate(rows).T]) for end in (np.min, np.max))
    margin = 0.04 * (high - low) + 1e-9 * (1 + np.abs(low)) * (high == low)
    return np.stack([low - margin, high + margin])


def _mark(panel: Axes, truth: Float[np.ndarray, " p"] | None, i: int, j: int) -> None:
    if truth is None:
        return
    if i == j:
        panel.axvline(truth[i], color=INK, linewidth=1.0, linestyle=":", label="truth")
    else:
        panel.plot(truth[j], truth[i], marker="+", color=INK, markersize=11, markeredgewidth=1.6, clip_on=False)
