"""`report`: everything that is known of a posterior in one HTML file that needs nothing else."""

import base64
import io
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from matplotlib import rc_context
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from suffice import plot, storage
from suffice.diagnostics import Calibration, PredictiveCheck
from suffice.fitting import Fit
from suffice.grid import GridPosterior
from suffice.model import Model
from suffice.posterior import Posterior
from suffice.report.judging import judge

NUMBERS = ("method", "sampler", "seconds", "simulations", "failed", "stopped", "outside_training")


@dataclass(frozen=True)
class Picture:
    """A figure, what it shows, and how to read it."""

    title: str
    source: str
    words: str


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
        summary=_summary_rows(post),
        columns=list(post.summary().columns),
        run=_run_rows(post, fit, model),
        pictures=_pictures(post, fit, check, predictive, calibration, truth, reference),
        reproduce=_reproduction(post, fit),
    )
    with storage.atomic(path) as file:
        file.write(page.encode())
    return Path(path)


def _summary_rows(post: Posterior) -> list[tuple[str, list[str]]]:
    table = post.summary()
    return [
        (str(name), [_number(value) for value in row]) for name, row in zip(table.index, table.to_numpy(), strict=True)
    ]


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _run_rows(post: Posterior, fit: Fit | None, model: Model | None) -> list[tuple[str, str]]:
    chains, draws, p = post.draws.shape
    rows = [("Parameters", ", ".join(post.names)), ("Draws", f"{chains} × {draws} of {p} parameters")]
    if model is not None:
        bounds = type(model.prior.base_dist if hasattr(model.prior, "base_dist") else model.prior).__name__
        rows.append(("Model", f"x of shape {model.data_shape}, prior {bounds}"))
    rows += [(name.replace("_", " ").capitalize(), _plain(post.info[name])) for name in NUMBERS if name in post.info]
    if fit is not None:
        history = fit.history
        simulations = [record.get("num") for record in fit.settings.get("simulations", [])]
        rows.append(("Training simulations", ", ".join(str(number) for number in simulations) or "unknown"))
        rows.append(("Training", f"{history.epochs} epochs, epoch {history.best_epoch} kept, {history.seconds:.0f} s"))
        rows.append(("Objective", str(fit.settings.get("objective", "unknown"))))
    versions = {name: version(name) for name in ("suffice", "jax", "numpyro", "numpy")}
    rows.append(("Versions", ", ".join(f"{name} {number}" for name, number in versions.items())))
    rows.append(("Written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")))
    return rows


def _plain(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _pictures(
    post: Posterior,
    fit: Fit | None,
    check: PredictiveCheck | None,
    predictive: ArrayLike | None,
    calibration: Calibration | None,
    truth: ArrayLike | None,
    reference: Posterior | GridPosterior | None,
) -> list[Picture]:
    marks = ["dotted: the truth"] * (truth is not None) + ["dashed: the reference"] * (reference is not None)
    regions = "Marginal densities, and regions that hold 50% and 90% of the posterior"
    found = [
        _picture("Posterior", plot.pair(post, truth=truth, reference=reference), "; ".join([regions, *marks]) + ".")
    ]
    if check is not None:
        words = f"{check.verdict} Bars: simulated from the posterior; line: observed."
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
        found.append(_picture("Calibration", plot.calibration(calibration), words))
    if fit is not None and fit.history.epochs:
        found.append(_picture("Training", plot.training(fit), "The weights of the lowest validation loss were kept."))
    return found


def _picture(title: str, figure: Figure, words: str) -> Picture:
    buffer = io.BytesIO()
    with rc_context({"svg.hashsalt": "suffice"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return Picture(title, "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode(), words)


def _reproduction(post: Posterior, fit: Fit | None) -> str:
    """The calls that give these draws again, as far as they are on record."""
    lines = ["import jax, suffice as sf", ""]
    if fit is not None:
        lines += [f"# simulated with key {_key(record)}: {record.get('num')}" for record in fit.settings["simulations"]]
        lines += [f"# fitted with key {_key(fit.settings)}", "fit = sf.load('fit.npz')  # written by fit.save"]
    lines += [
        f"key = jax.random.wrap_key_data(jax.numpy.array({_key(post.info)}, dtype='uint32'))",
        f"post = sf.sample(key, sf.{post.info.get('method', 'Direct')}(…), observed, "
        f"num_draws={post.draws.shape[1]}, num_chains={post.draws.shape[0]})",
    ]
    return "\n".join(lines)


def _key(record: dict[str, Any]) -> list[int]:
    return list(record.get("key", {}).get("data", []))
