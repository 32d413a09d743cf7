"""Pictures of fits: how training went, and learned statistics beside exact ones."""

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from suffice.fitting import Fit
from suffice.plot.style import BLUE, INK, ORANGE, figure, legend

MOST_POINTS = 1000


def training(fit: Fit) -> Figure:
    """The losses by epoch, and the epoch whose weights were kept."""
    history = fit.history
    drawn, ((panel,),) = figure(width=6.0, height=3.2)
    epochs = np.arange(1, history.epochs + 1)
    panel.plot(epochs, history.train_loss, color=ORANGE, linestyle="--", linewidth=1.0, label="training")
    panel.plot(history.validation_epochs, history.validation_loss, color=BLUE, marker=".", label="validation")
    if history.best_epoch is not None:
        panel.axvline(history.best_epoch, color=INK, linestyle=":", linewidth=1.0, label="kept")
    panel.set_xlabel("epoch")
    panel.xaxis.get_major_locator().set_params(integer=True)
    panel.set_ylabel("loss")
    seen = np.concatenate([history.train_loss[history.epochs // 20 :], history.validation_loss[1:]])
    seen = seen[np.isfinite(seen)]
    if len(seen) > 1 and np.ptp(seen) > 0:
        margin = 0.05 * np.ptp(seen)
        panel.set_ylim(seen.min() - margin, seen.max() + margin)
    legend(panel)
    return drawn


def embedding(learned: ArrayLike, exact: ArrayLike, *, what: str = "statistic") -> Figure:
    """Exact values against the linear map of the learned ones that comes closest: a line where nothing was lost.

    Statistics and natural parameters are known up to a linear map only, so the map is fitted to half of the rows and
    the other half is drawn.

    Args:
        learned: learned statistics or natural parameters, one row a simulation.
        exact: the exact ones of the same simulations.
        what: what they are.
    """
    found, known = np.asarray(learned, float), np.asarray(exact, float)
    if found.ndim != 2 or known.ndim != 2 or len(found) != len(known) or len(found) < 4 * (found.shape[1] + 1):
        raise ValueError(
            f"learned has shape {found.shape} and exact {known.shape}, but must be rows of the same simulations, at "
            f"least {4 * (found.shape[-1] + 1)} of them."
        )
    design = np.column_stack([np.ones(len(found)), found])
    fitted, shown = slice(None, None, 2), slice(1, None, 2)
    coefficients = np.linalg.lstsq(design[fitted], known[fitted], rcond=None)[0]
    mapped, targets = (design[shown] @ coefficients)[:MOST_POINTS], known[shown][:MOST_POINTS]
    drawn, panels = figure(1, known.shape[1], width=0.6 + 2.8 * known.shape[1], height=3.0)
    for i, panel in enumerate(panels[0]):
        panel.plot(targets[:, i], mapped[:, i], ".", color=BLUE, markersize=3, alpha=0.5)
        panel.axline((targets[0, i], targets[0, i]), slope=1, color=INK, linestyle=":", linewidth=1.0)
        correlation = np.corrcoef(targets[:, i], mapped[:, i])[0, 1]
        panel.set_title(f"correlation {correlation:.3f}", fontsize=9)
        panel.set_xlabel(f"exact {what} {i + 1}")
    panels[0][0].set_ylabel(f"learned {what}, mapped")
    return drawn
