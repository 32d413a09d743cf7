"""Should a posterior be believed? What speaks against it, in words, kept with it and warned of."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from suffice.errors import SamplingWarning
from suffice.fitting.held_out import TOO_FEW
from suffice.posterior import Posterior

RHAT = 1.01  # above which chains disagree (Vehtari et al., 2021)
FEWEST = 100  # effective draws a chain below which summaries are not to be trusted (the same)
ACCEPTANCE = 0.05  # of the outer chain, below which it hardly moves
TAIL = 1e-3  # share of training data beyond which a point counts as unlike them
MODES = 1.0  # spread of the chains' means in their own spreads, above which they are in different modes
DIVERGING = 0.01  # share of trajectories that may diverge
CONVEX = 0.5  # share of the posterior in which its log-density may be convex in some direction
BEYOND = 0.05  # share of draws that may lie at the edge of the training parameters
WANDERING = 0.05  # share of auxiliary data unlike the training data that is too much


@dataclass(frozen=True)
class Doubt:
    """A measure of one posterior, None where it is as it should be, and what it means."""

    measure: Callable[[Posterior], float | None]
    worst: Callable[[list[float]], float]
    words: str


def note_doubts(posteriors: list[Posterior]) -> None:
    """Write what speaks against each posterior into its `info["doubts"]`, and warn of it, once for all of them."""
    spoken: list[str] = []
    for posterior in posteriors:
        posterior.info["doubts"] = []
    for doubt in DOUBTS:
        found = [(posterior, doubt.measure(posterior)) for posterior in posteriors]
        bad = [(posterior, value) for posterior, value in found if value is not None]
        for posterior, value in bad:
            posterior.info["doubts"].append(doubt.words.format(value))
        if bad:
            words = doubt.words.format(doubt.worst([value for _, value in bad]))
            many = f" (the worst of {len(bad)} among {len(posteriors)} observations)" if len(posteriors) > 1 else ""
            spoken.append(words + many)
    if spoken:
        warnings.warn("Do not believe this posterior yet. " + " ".join(spoken), SamplingWarning, stacklevel=4)


def _disagreement(posterior: Posterior) -> float | None:
    worst = float(np.max(posterior.convergence.rhat))
    return worst if worst > RHAT else None


def _too_few(posterior: Posterior) -> float | None:
    measures = posterior.convergence
    least = float(min(np.min(measures.ess_bulk), np.min(measures.ess_tail)))
    return None if least >= FEWEST * len(posterior.draws) else least  # nan, of a draw or two, is too few as well


def _stuck(posterior: Posterior) -> float | None:
    rate = float(np.mean(posterior.info.get("acceptance", 1.0)))
    return rate if rate < ACCEPTANCE else None


def _wandering(posterior: Posterior) -> float | None:
    share = float(np.mean(np.asarray(posterior.info.get("auxiliary_tail", 1.0)) < TAIL))
    return share if share > WANDERING else None


def _outside(posterior: Posterior) -> float | None:
    share = float(posterior.info.get("outside_training", 1.0))
    return share if share < TAIL else None


def _several_modes(posterior: Posterior) -> float | None:
    """The spread of the chains' means in units of their own spread."""
    if posterior.weights is not None or min(posterior.draws.shape[:2]) < 2:
        return None
    between = posterior.draws.mean(axis=1).std(axis=0)
    within = np.sqrt(np.mean(posterior.draws.var(axis=1), axis=0))
    worst = float(np.max(between / np.maximum(within, 1e-30)))
    return worst if worst > MODES else None


def _diverging(posterior: Posterior) -> float | None:
    share = float(np.mean(posterior.info.get("diverging", 0.0)))
    return share if share > DIVERGING else None


def _convex(posterior: Posterior) -> float | None:
    share = float(posterior.info.get("convex", 0.0))
    return share if share > CONVEX else None


def _overconfident(posterior: Posterior) -> float | None:
    share = float(posterior.info.get("held_out_coverage", 1.0))
    return share if share < TOO_FEW else None


def _beyond(posterior: Posterior) -> float | None:
    share = float(posterior.info.get("beyond_training", 0.0))
    return share if share > BEYOND else None


DOUBTS = (
    Doubt(_outside, min, "The observation is unlike the training data: only {:.2%} of them lie as far out. Check the "
          "data and the model, or simulate more around it."),
    Doubt(_disagreement, max, "The chains disagree (R-hat {:.3f}): run longer, with a longer warm-up."),
    Doubt(_too_few, min, "There are too few effective draws ({:.0f}): take more."),
    Doubt(_stuck, min, "Few proposals are accepted ({:.1%}): use bridges, or a longer warm-up."),
    Doubt(_wandering, max, "Of the auxiliary data {:.1%} wander outside the training data, where the family is not "
          "known: train on more simulations, or use fewer inner steps."),
    Doubt(_several_modes, max, "The chains settled in different places ({:.1f} of their spreads apart): there may be "
          "several modes. Use Direct(fit, sampler='smc')."),
    Doubt(_diverging, max, "Of the trajectories {:.1%} diverged: the posterior has corners that they miss."),
    Doubt(_convex, max, "The log-density is convex in some direction over {:.0%} of the posterior, as a badly fitted "
          "family makes it: use more statistics, more training or more simulations."),
    Doubt(_overconfident, min, "The fit is too sure of itself: on held-out simulations its 90% intervals hold the "
          "truth in {:.0%} only (fit.held_out). Train longer, simulate more, or take other statistics, such as those "
          "of PosteriorMean()."),
    Doubt(_beyond, max, "Of the draws {:.0%} lie at the edge of the training parameters or beyond, where the fit knows "
          "nothing: simulate more, or from a prior that is wider there."),
)  # fmt: skip
