"""`report`: everything that is known of a posterior in one HTML file that needs nothing else."""

import base64
import io
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import numpy as np
from jinja2 import Environment, StrictUndefined
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from suffice import plot, storage
from suffice.convergence import Convergence
from suffice.diagnostics import Calibration, PredictiveCheck
from suffice.fitting import Fit
from suffice.grid import GridPosterior
from suffice.model import Model
from suffice.posterior import Posterior
from suffice.report.judging import judge
from suffice.report.record import reproduction, run_rows

NARROW = 600  # pixels that a picture may be wide to be shrunk to a telephone; a wider one is scrolled there instead
STILL_READ = 0.66  # of its size at which a wide picture can be read
TALL = 8.0  # inches above which a picture may fill a printed page


@dataclass(frozen=True)
class Picture:
    """A figure, what it shows, how to read it, its width in pixels as drawn and the least, and whether it is tall."""

    title: str
    source: str
    words: str
    width: int
    least: int
    tall: bool


@dataclass(frozen=True)
class Table:
    """Numbers of each parameter."""

    columns: tuple[str, ...]
    rows: list[tuple[str, list[str]]]


def report(
    post: Posterior,
    *,
    path: str | os.PathLike[str],
    fit: Fit | None = None,
    model: Model | None = None,
    check: PredictiveCheck | None = None,
    predictive: ArrayLike | None = None,
    calibration: Calibration | None = None,
    truth: ArrayLike | None = None,
    reference: Posterior | GridPosterior | None = None,
    title: str = "Posterior",
) -> Path:
    """Write one self-contained HTML file: the verdict first, then what it rests on.

    Nothing is simulated here: give the checks that you made, and the report says which are missing.

    Args:
        post: the posterior.
        path: where to write.
        fit: what it was made with.
        model: names the prior and the kind of data.
        check: of `diagnostics.predictive_check`.
        predictive: simulated series, as `post.predictive(key, model)` gives them.
        calibration: of `diagnostics.calibrate`.
        truth: the parameters that the data were simulated at, if they are known.
        reference: a posterior to compare with.
        title: the heading.
    """
    template = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    text = files("suffice.report").joinpath("template.html").read_text(encoding="utf-8")
    judgement = judge(post, fit, check, calibration)
    page = template.from_string(text).render(
        title=title,
        judgement=judgement,
        tables=_tables(post),
        run=[*run_rows(post, fit, model), ("Written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"))],
        pictures=_pictures(post, fit, check, predictive, calibration, truth, reference),
        reproduce=reproduction(post, fit, model),
    )
    with storage.atomic(path) as file:
        file.write(page.encode())
    return Path(path)


def _tables(post: Posterior) -> list[Table]:
    """The summary in two parts, the posterior and how well it is known, each narrow enough for a telephone."""
    table = post.summary()
    estimates = [name for name in table.columns if name not in Convergence._fields]
    return [
        Table(
            tuple(name.replace("_", " ").replace("rhat", "R-hat") for name in names),
            [
                (str(name), [_number(value) for value in row])
                for name, row in zip(table.index, table[names].to_numpy(), strict=True)
            ],
        )
        for names in (estimates, list(Convergence._fields))
    ]


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.0f}" if 1000 <= abs(value) < 1e7 else f"{value:.4g}"


def _pictures(
    post: Posterior,
    fit: Fit | None,
    check: PredictiveCheck | None,
    predictive: ArrayLike | None,
    calibration: Calibration | None,
    truth: ArrayLike | None,
    reference: Posterior | GridPosterior | None,
) -> list[Picture]:
    marks = ["dotted line and cross: the truth"] * (truth is not None) + ["dashed: the reference"] * (
        reference is not None
    )
    regions = "Marginal densities, and regions that hold 50% and 90% of the posterior"
    found = [
        _picture("Posterior", plot.pair(post, truth=truth, reference=reference), "; ".join([regions, *marks]) + ".")
    ]
    if check is not None:
        words = f"{check.verdict} p: how often predictions lie as far out."
        found.append(_picture("Predictive check", plot.predictive_check(check), words))
    if predictive is not None:
        observed = np.asarray(post.info["observed"])
        found.append(_picture("Predicted series", plot.bands(predictive, observed), "Bands hold 50% and 90% of it."))
    if post.weights is None:
        found.append(_picture("Chains", plot.trace(post), "Chains that agree look like one band of noise."))
        if len(post.draws) > 1:
            found.append(_picture("Ranks of chains", plot.ranks(post), "Chains that agree stay near the grey band."))
    if calibration is not None:
        words = f"{calibration.verdict} Curves of a right posterior stay inside the grey bands."
        found.append(_picture(calibration.title, plot.calibration(calibration), words))
    if fit is not None and fit.history.epochs:
        found.append(_picture("Training", plot.training(fit), "The weights of the lowest validation loss were kept."))
    return found


def _picture(title: str, figure: Figure, words: str) -> Picture:
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "suffice"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    width = round(96 * figure.get_figwidth())
    source = "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()
    least = 0 if width <= NARROW else round(STILL_READ * width)
    return Picture(title, source, words, width, least, bool(figure.get_figheight() > TALL))
