"""Pictures of several models side by side."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde

from suffice.plot.style import BLUE, COLOURS, HATCHES, INK, ORANGE, PAPER_GREY, figure, legend, looks
from suffice.posterior import Posterior

NODES = 50  # of a density's grid along each parameter
MOST_DRAWS = 1000  # that a density is smoothed from

Series = Mapping[str, Float[np.ndarray, "..."]]


def boxes(columns: Mapping[str, Mapping[str, Series]], *, from_zero: bool = True) -> Figure:
    """Boxplots: a column of panels for each model, a row for each measure, a box for each method; whiskers 95%."""
    measures = list(next(iter(columns.values())))
    most = max(len(series) for rows in columns.values() for series in rows.values())
    drawn, panels = figure(
        len(measures), len(columns), width=(0.9 + 0.34 * most) * len(columns), height=0.6 + 2.1 * len(measures)
    )
    for j, (title, rows) in enumerate(columns.items()):
        for i, measure in enumerate(measures):
            panel, series = panels[i][j], rows[measure]
            parts = panel.boxplot(
                list(series.values()),
                whis=(2.5, 97.5),
                patch_artist=True,
                showfliers=False,
                widths=0.6,
                medianprops={"color": INK, "linewidth": 1.4},
            )
            for k, box in enumerate(parts["boxes"]):
                look = {"facecolor": COLOURS[k % len(COLOURS)], "hatch": HATCHES[k % len(HATCHES)]}
                box.set(alpha=0.55, edgecolor=INK, linewidth=0.7, **look)
            last = i == len(measures) - 1
            names = list(series) if last else [""] * len(series)
            panel.set_xticks(np.arange(len(series)) + 1, names, rotation=60, ha="right", fontsize=7)
            panel.set_title(title if i == 0 else "", fontsize=9)
            panel.set_ylabel(measure if j == 0 else "")
            if from_zero:
                panel.set_ylim(0)
    return drawn


def scatters(rows: Sequence[tuple[str, Float[np.ndarray, "n k"], Float[np.ndarray, "n k"]]]) -> Figure:
    """Exact against learned values, both standardised and the learned mapped linearly: one panel a component."""
    columns = max(exact.shape[1] for _, exact, _ in rows)
    drawn, panels = figure(len(rows), columns, width=0.5 + 2.0 * columns, height=0.3 + 1.6 * len(rows))
    for line, (title, exact, learned) in zip(panels, rows, strict=True):
        for k, panel in enumerate(line):
            panel.plot(exact[:, k], learned[:, k], ".", color=BLUE, markersize=1.5, alpha=0.4, rasterized=True)
            panel.axline((0, 0), slope=1, color=INK, linestyle=":", linewidth=0.8)
            panel.set_title(f"{title} {k + 1}", fontsize=8)
    return drawn


def densities(
    rows: Mapping[str, Mapping[str, Posterior]],
    truths: Mapping[str, Float[np.ndarray, " p"]],
    prior: Mapping[str, Series],
) -> Figure:
    """Bivariate posteriors: a row a model, a column a method; the truth as lines, the mean as a cross."""
    columns = max(len(methods) for methods in rows.values())
    drawn, panels = figure(len(rows), columns, width=0.4 + 1.75 * columns, height=0.4 + 1.75 * len(rows))
    for line, (name, methods) in zip(panels, rows.items(), strict=True):
        low, high = prior[name]["low"], prior[name]["high"]
        axes = [np.linspace(low[k], high[k], NODES) for k in range(2)]
        mesh = np.meshgrid(*axes, indexing="ij")
        for panel, (label, post) in zip(line, methods.items(), strict=False):
            chosen = post.thinned(min(MOST_DRAWS, len(post.flat))).flat
            panel.contourf(*mesh, _density(chosen, mesh), levels=6, cmap="Blues")
            panel.plot(*post.mean[:2], "x", color=ORANGE, markersize=5)
            panel.axvline(truths[name][0], color=PAPER_GREY, linewidth=0.9)
            panel.axhline(truths[name][1], color=PAPER_GREY, linewidth=0.9)
            panel.set_title(f"{name}: {label}", fontsize=8)
            panel.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
        for panel in line[len(methods) :]:
            panel.set_axis_off()
    return drawn


def marginals(
    rows: Mapping[str, Mapping[str, Posterior]],
    truths: Mapping[str, Float[np.ndarray, " p"]],
    prior: Mapping[str, Series],
) -> Figure:
    """The marginal density of each parameter: a row a model, a column a parameter, a line a method."""
    columns = max(len(next(iter(methods.values())).names) for methods in rows.values())
    drawn, panels = figure(len(rows), columns, width=0.6 + 2.1 * columns, height=0.5 + 2.0 * len(rows))
    for line, (name, methods) in zip(panels, rows.items(), strict=True):
        for k, panel in enumerate(line):
            grid = np.linspace(prior[name]["low"][k], prior[name]["high"][k], 4 * NODES)
            for (label, post), look in zip(methods.items(), _looks(), strict=False):
                values = post.thinned(min(MOST_DRAWS, len(post.flat))).flat[:, k]
                panel.plot(grid, _density(values[:, None], [grid]), label=label, linewidth=1.2, **look)
            panel.axvline(truths[name][k], color=PAPER_GREY, linewidth=0.9)
            panel.set_title(f"{name}: {next(iter(methods.values())).names[k]}", fontsize=8)
            panel.set_yticks([])
        legend(line[0])
    return drawn


def curves(
    columns: Mapping[str, Mapping[str, tuple[np.ndarray, Float[np.ndarray, "n t"]]]],
    *,
    x: str,
    y: str,
    levels: Mapping[str, tuple[str, float]] | None = None,
    logarithmic: bool = False,
) -> Figure:
    """Medians over observations with their middle 95%: one panel a model; `levels`: a horizontal line in each."""
    drawn, (panels,) = figure(1, len(columns), width=0.5 + 2.9 * len(columns), height=2.9)
    for panel, (title, lines) in zip(panels, columns.items(), strict=True):
        for (label, (along, values)), look in zip(lines.items(), _looks(), strict=False):
            low, high = np.quantile(values, [0.025, 0.975], axis=0)
            panel.fill_between(along, low, high, color=look["color"], alpha=0.12, linewidth=0)
            panel.plot(along, np.median(values, axis=0), label=label, linewidth=1.3, **look)
        if levels is not None:
            label, level = levels[title]
            panel.axhline(level, color=INK, linestyle=":", linewidth=1.2, label=label)
        if logarithmic:
            panel.set_xscale("log")
        panel.set_title(title, fontsize=9)
        panel.set_xlabel(x)
    panels[0].set_ylabel(y)
    legend(panels[0])
    return drawn


def lines(series: Mapping[str, tuple[Sequence[float], Sequence[float]]], *, x: str, y: str) -> Figure:
    """Lines in one panel, both axes from zero."""
    drawn, ((panel,),) = figure(width=5.5, height=3.2)
    for (label, (along, values)), look in zip(series.items(), _looks(), strict=False):
        panel.plot(along, values, marker=".", label=label, linewidth=1.2, **look)
    panel.set(xlabel=x, ylabel=y, xlim=0)
    panel.set_yscale("log")
    legend(panel)
    return drawn


def _looks() -> Iterator[dict[str, Any]]:
    return (dict(look) for look in looks())


def _density(rows: Float[np.ndarray, "n k"], mesh: Sequence[np.ndarray]) -> np.ndarray:
    """A kernel density on a mesh; flat zero where draws do not spread."""
    if np.linalg.matrix_rank(np.atleast_2d(np.cov(rows[:, : len(mesh)], rowvar=False))) < len(mesh):
        return np.zeros(mesh[0].shape)
    found = gaussian_kde(rows[:, : len(mesh)].T)(np.stack([axis.reshape(-1) for axis in mesh]))
    return found.reshape(mesh[0].shape)
