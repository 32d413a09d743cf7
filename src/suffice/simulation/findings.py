"""What `check` finds: sentences, and those that are said of any model, however it is simulated."""

from dataclasses import dataclass

import numpy as np

from suffice.model import Model


@dataclass(frozen=True)
class Finding:
    """One sentence about a model, and whether it is a problem."""

    sentence: str
    problem: bool = False


@dataclass(frozen=True)
class Check:
    """What was found: print it, or ask `ok`."""

    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    @property
    def problems(self) -> tuple[str, ...]:
        """The sentences that call for a remedy."""
        return tuple(finding.sentence for finding in self.findings if finding.problem)

    def __str__(self) -> str:
        lines = [("✗ " if finding.problem else "✓ ") + finding.sentence for finding in self.findings]
        count = len(self.problems)
        verdict = "The model is ready." if not count else f"{count} problem{'s' * (count > 1)} to mend first."
        return "\n".join([*lines, verdict])

    __repr__ = __str__


def noise_finding(reference: np.ndarray, rekeyed: np.ndarray) -> Finding:
    """Whether every coordinate of x varies with the key at a fixed θ."""
    fixed = np.all(rekeyed == reference, axis=0)
    if fixed.all():
        return Finding(
            "Different keys give the same x: the simulator is deterministic or does not use its key. "
            "Likelihood-free inference needs noise: add the measurement error of the data.",
            problem=True,
        )
    if fixed.any():
        first = np.argwhere(fixed)[0].tolist()
        where = first[0] if len(first) == 1 else tuple(first)
        return Finding(
            f"Given theta, {fixed.sum()} of {fixed.size} coordinates of x do not vary (the first is {where}), so x has "
            "no density. Leave those coordinates out of x.",
            problem=True,
        )
    return Finding("Different keys give different x, in every coordinate.")


def idle_finding(model: Model, reference: np.ndarray, moved: np.ndarray) -> Finding:
    """Whether x varies with each parameter at a fixed key; `moved` has one entry a parameter."""
    idle = [name for name, x in zip(model.names, moved, strict=True) if np.array_equal(x, reference, equal_nan=True)]
    if idle:
        return Finding(
            f"x does not change with {', '.join(idle)}: the data cannot tell anything about it. Use it in the "
            "simulator, or take it out of the prior.",
            problem=True,
        )
    return Finding("Every parameter changes x.")


def named(model: Model, theta: np.ndarray) -> str:
    """θ with its names."""
    return ", ".join(f"{name} = {value:.4g}" for name, value in zip(model.names, theta, strict=True))
