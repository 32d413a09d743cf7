"""Failures in words: how many, why, and in which region of the parameters."""

from collections import Counter

import numpy as np
from scipy.stats import ks_2samp

from suffice.errors import ModelError
from suffice.model import Model
from suffice.simulation.dispatch import Made
from suffice.simulation.simulations import Simulations, Status

WORDS = {
    Status.NOT_FINITE: "are not finite",
    Status.OUTSIDE_SUPPORT: "lie on or outside the declared support",
    Status.WRONG_SHAPE: "have a wrong shape",
    Status.FAILED: "failed with an error",
    Status.CRASHED: "crashed",
    Status.TIMED_OUT: "took longer than the time limit",
}
FIRST = 20  # simulations of an external simulator after which a worthless run is given up
WORTHLESS = 0.5  # share of failures among them
SIGNIFICANT = 1e-3  # p-value from which on failures count as dependent on θ
FEWEST = 5  # failures from which on that can be told


def failure_sentence(sims: Simulations) -> str:
    """Of which kinds the failures are, and where they lie."""
    counts = {words: int(np.sum(sims.status == kind)) for kind, words in WORDS.items()}
    what = " and ".join(f"{count} {words}" for words, count in counts.items() if count)
    said = [str(text) for text in sims.errors[np.isin(sims.status, (Status.FAILED, Status.CRASHED))] if text]
    why = f"The most frequent reason: {Counter(said).most_common(1)[0][0]} " if said else ""
    return (
        f"Of {len(sims)} simulations {what}. {why}They are kept and marked in .status; only .good ones should be used. "
        f"{failure_region(sims)} If failures depend on theta, leaving them out biases the fit."
    )


def failure_region(sims: Simulations) -> str:
    """The parameter whose values differ most between failed and good simulations, and where the failed ones lie."""
    failed, worst = sims.status != Status.GOOD, _worst(sims)
    ranges = np.quantile(sims.theta, [0.05, 0.95], axis=0)
    failed_ranges = np.quantile(sims.theta[failed], [0.05, 0.95], axis=0)
    low, high = failed_ranges[:, worst]
    return (
        f"Failures lie at {sims.names[worst]} from {low:.4g} to {high:.4g} (their 5% to 95% range; "
        f"{ranges[0, worst]:.4g} to {ranges[1, worst]:.4g} for all simulations)."
    )


def dependence_sentence(sims: Simulations) -> str | None:
    """A warning if failures depend on θ: a two-sample Kolmogorov–Smirnov test of each parameter, Bonferroni."""
    failed = sims.status != Status.GOOD
    if min(failed.sum(), (~failed).sum()) < FEWEST:
        return None
    worst = _worst(sims)
    p_value = ks_2samp(sims.theta[failed, worst], sims.theta[~failed, worst]).pvalue
    if p_value * len(sims.names) > SIGNIFICANT:
        return None
    middles = [np.median(sims.theta[rows, worst]) for rows in (failed, ~failed)]
    return (
        f"{failed.sum()} of {len(sims)} simulations failed and are left out, and failures depend on theta: the median "
        f"of {sims.names[worst]} is {middles[0]:.4g} where they failed and {middles[1]:.4g} elsewhere. "
        f"{failure_region(sims)} Fits are biased there: mend the simulator, or narrow the prior to where it works."
    )


def _worst(sims: Simulations) -> int:
    """The parameter whose values differ most between failed and good simulations, by a Kolmogorov–Smirnov test.

    By its statistic: its p-values have the same order, but may all be too small for a number.
    """
    failed = sims.status != Status.GOOD
    if failed.all():
        return 0
    apart = [ks_2samp(column[failed], column[~failed], method="asymp").statistic for column in sims.theta.T]
    return int(np.argmax(apart))


class Judge:
    """Looks at the first simulations that come, and gives up a run that would be worthless."""

    def __init__(self, model: Model) -> None:
        self.names = model.names
        self.seen: list[Made] = []
        self.done = model.traceable  # those are tried out before the run

    def look(self, made: Made) -> None:
        """Look at more of them, until there are enough."""
        if self.done:
            return
        self.seen.append(made)
        status = np.concatenate([part.status for part in self.seen])
        if len(status) < FIRST:
            return
        self.done = True
        bad = status != Status.GOOD
        if np.mean(bad) <= WORTHLESS:
            return
        errors = Counter(text for part in self.seen for text in part.errors if text)
        theta = np.concatenate([part.theta for part in self.seen])[np.argmax(bad)]
        at = ", ".join(f"{name} = {value:.4g}" for name, value in zip(self.names, theta, strict=True))
        kind = WORDS[Status(Counter(status[bad].tolist()).most_common(1)[0][0])]
        why = f"; most often: {errors.most_common(1)[0][0]}" if errors else ""
        raise ModelError(
            f"{bad.sum()} of the first {len(status)} simulations are of no use, most of which {kind}; an example is "
            f"{at}{why} Mend the simulator, or narrow the prior to where it works; suffice.check(model) tells more."
        )
