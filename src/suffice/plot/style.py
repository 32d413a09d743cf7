"""How pictures look: one palette that also reads in black and white, one way to begin a figure."""

from collections.abc import Iterator
from itertools import cycle

from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#1b1b1b"
PAPER_GREY = "#b8b8b8"
BLUE, ORANGE, GREEN, PURPLE = "#08519c", "#e6830c", "#2f8f6b", "#8a4f9e"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, "#56b4e9", "#a63603", "#7f7f7f")
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "++", "ooo")


def figure(rows: int = 1, columns: int = 1, *, width: float, height: float) -> tuple[Figure, list[list[Axes]]]:
    """A figure of that many panels, and its axes by row and column."""
    drawn = Figure(figsize=(width, height), layout="constrained")
    axes = drawn.subplots(rows, columns, squeeze=False)
    for panel in axes.flat:
        panel.spines[["top", "right"]].set_visible(False)
        panel.tick_params(labelsize=8, color=INK)
        panel.xaxis.label.set_size(9)
        panel.yaxis.label.set_size(9)
    return drawn, [list(row) for row in axes]


def looks() -> Iterator[dict[str, object]]:
    """Colour and line style of one series after another: no two share either."""
    return ({"color": colour, "linestyle": line} for colour, line in zip(cycle(COLOURS), cycle(LINES), strict=False))


def legend(panel: Axes) -> None:
    """A quiet legend, if there is anything to name."""
    if panel.get_legend_handles_labels()[0]:
        panel.legend(frameon=False, fontsize=8)


def legend_below(panel: Axes) -> None:
    """A quiet legend under the panel, where it hides nothing."""
    panel.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, fontsize=8, ncols=2)


def without_heights(panel: Axes) -> None:
    """Leave out the vertical axis: heights say nothing, and its line could be taken for a mark."""
    panel.set_yticks([])
    panel.spines["left"].set_visible(False)
