"""The verdict of a report: believe, check, or do not, and why."""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from suffice.diagnostics import Calibration, PredictiveCheck
from suffice.fitting import Fit
from suffice.posterior import Posterior

STILL_FALLING = 0.1  # share of its whole fall that a loss may make in its last fifth


class Verdict(Enum):
    """What to do with a posterior."""

    BELIEVE = "Believe it"
    CHECK = "Check it first"
    DO_NOT = "Do not believe it"


@dataclass(frozen=True)
class Judgement:
    """A verdict and its reasons.

    Attributes:
        verdict: the worst that any reason calls for.
        against: what speaks against the posterior, worst first.
        unknown: what was not looked at.
        favour: what was looked at and found well.
    """

    verdict: Verdict
    against: tuple[str, ...]
    unknown: tuple[str, ...]
    favour: tuple[str, ...]


def judge(
    posterior: Posterior,
    fit: Fit | None = None,
    check: PredictiveCheck | None = None,
    calibration: Calibration | None = None,
) -> Judgement:
    """Weigh all that is known: doubts, misfits and faults of calibration forbid belief; gaps call for a check."""
    against: list[str] = [str(doubt) for doubt in posterior.info.get("doubts", [])]
    milder: list[str] = []
    unknown: list[str] = []
    favour: list[str] = []
    if "doubts" in posterior.info and not against:
        favour.append(_convergence_words(posterior))
    if fit is not None and (words := training_doubt(fit)):
        milder.append(words)
    if fit is not None and fit.held_out is not None:
        (milder if fit.held_out.doubtful else favour).append(fit.held_out.words)
    if check is None:
        unknown.append("whether data simulated from the posterior look like the observation (predictive_check)")
    else:
        (against if check.misfits else favour).append(check.verdict)
    method = str(posterior.info.get("method", ""))
    if calibration is None:
        unknown.append(f"whether {method or 'the method'} is calibrated on simulated data (diagnostics.calibrate)")
    elif method and calibration.method not in ("", method):
        unknown.append(f"whether {method} is calibrated: the calibration that was given is of {calibration.method}")
    else:
        (against if calibration.faults else favour).append(f"{calibration.title}: {calibration.verdict}")
    verdict = Verdict.DO_NOT if against else Verdict.CHECK if milder or unknown else Verdict.BELIEVE
    return Judgement(verdict, (*against, *milder), tuple(unknown), tuple(favour))


def training_doubt(fit: Fit) -> str:
    """What the course of the training gives to think of; empty if nothing."""
    history = fit.history
    if history.failed_epoch is not None:
        return f"The training loss was not finite in epoch {history.failed_epoch}: lower the learning rate."
    losses = history.validation_loss
    if len(losses) < 3:
        often = ("never looked at", "looked at only once", "looked at only twice")[len(losses)]
        return f"The validation loss was {often}: train for longer to see whether it still falls."
    late = losses[-1 - max(1, len(losses) // 5)] - losses[-1]
    whole = losses[0] - losses[-1]
    if history.best_epoch == history.epochs and late > STILL_FALLING * whole > 0:
        return f"The validation loss was still falling when training ended after {history.epochs} epochs: train longer."
    return ""


def _convergence_words(posterior: Posterior) -> str:
    measures = posterior.convergence
    least = min(np.min(measures.ess_bulk), np.min(measures.ess_tail))
    if np.all(np.isnan(measures.rhat)):
        return f"The draws are worth {least:.0f} independent ones."
    return f"The chains agree (R-hat at most {np.max(measures.rhat):.3f}) and are worth {least:.0f} independent draws."
