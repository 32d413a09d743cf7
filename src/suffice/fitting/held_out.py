"""A look at a fit that costs no simulation: whether it tells, with the right confidence, what held-out data come from.

Given yⱼ, the parameter θⱼ that it came from and n parameters of training pairs are n + 1 draws of the prior, any of
which might have made it. Which one it was has the probabilities

    wᵢ ∝ exp(s(yⱼ, θᵢ)),    s(y, θ) = η(θ)·f(y) − A(θ),

if the fit is right. The share of them below θⱼ, in one parameter or in order of probability, is then uniform, for any
n, where θⱼ's own share is split at random: simulation-based calibration without a sampler.
"""

from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from suffice.family.normaliser import Normaliser

FEWEST = 200  # held-out pairs below which shares say too little
MOST = 1000  # that are looked at
CONTRASTS = 4000  # training parameters beside the true one, at most
CENTRAL = 0.9  # the intervals that are counted
TOO_FEW = 0.8  # share of them that hold the truth, below which a fit is not to be believed


@dataclass(frozen=True, eq=False)
class HeldOut:
    """How a fit places the parameters of held-out data; nothing was trained on these, though they chose when to stop.

    Attributes:
        names: the parameters' names.
        ranks: the probability below the true value of each parameter; uniform if the fit is right.
        joint: the probability of the parameters that are likelier than the true ones; uniform too.
        gain: how much more probable the true parameters are than before the data, in nats, a mean; 0 for the prior,
            below 0 for a fit that is worse than none.
        own: the median probability of the true parameters among those tried; near 1, they are too few to look closely.
        unrefined: the least of the shares that `coverage` has, before the refinement: with the η that `Exchange` uses.
    """

    names: tuple[str, ...]
    ranks: Float[np.ndarray, "m p"]
    joint: Float[np.ndarray, " m"]
    gain: float
    own: float
    unrefined: float

    def __repr__(self) -> str:
        return f"HeldOut({self.words})"

    @property
    def coverage(self) -> Float[np.ndarray, " q"]:
        """The share of central 90% intervals of each parameter that hold the truth, and of joint regions."""
        return _coverage(np.column_stack([self.ranks, self.joint]))

    @property
    def doubtful(self) -> bool:
        """Whether posteriors of this fit are too narrow, or beside the truth, by more than chance or a trifle."""
        return bool(self.coverage.min() < TOO_FEW)

    @property
    def words(self) -> str:
        """What was found."""
        shares = [f"{name} {share:.0%}" for name, share in zip((*self.names, "jointly"), self.coverage, strict=True)]
        return (
            f"Of {len(self.joint)} held-out simulations, 90% intervals hold the truth in {', '.join(shares)}; the data "
            f"tell {self.gain:.2f} nats."
        )

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Plain values and arrays."""
        return {"gain": self.gain, "own": self.own, "unrefined": self.unrefined}, {
            "ranks": self.ranks,
            "joint": self.joint,
        }

    @classmethod
    def from_archive(
        cls, names: tuple[str, ...], manifest: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> "HeldOut | None":
        """What was written; None if nothing was, as before layout 5 of a `Fit`."""
        return cls(names, arrays["ranks"], arrays["joint"], **manifest) if manifest else None


def look_at_held_out(
    key: PRNGKeyArray,
    normaliser: Normaliser,
    unrefined: Normaliser,
    names: tuple[str, ...],
    theta: Float[ArrayLike, "m p"],
    statistics: Float[ArrayLike, "m s"],
    others: Float[ArrayLike, "n p"],
) -> HeldOut | None:
    """Where a fit places the parameters of pairs that it was not trained on; None if there are fewer than 200.

    Args:
        key: splits the true parameters' own share.
        normaliser: η and A.
        unrefined: those before the refinement.
        names: the parameters' names.
        theta: parameters of the held-out pairs.
        statistics: f of their data.
        others: parameters of training pairs.
    """
    truth, rows = np.asarray(theta)[:MOST], np.asarray(others)[:CONTRASTS]
    if len(truth) < FEWEST:
        return None
    f = np.asarray(statistics)[:MOST]
    split = np.asarray(jax.random.uniform(key, (len(truth), truth.shape[1] + 1)), np.float64)
    placed, gain, own = _placed(normaliser, truth, f, rows, split)
    before = placed if unrefined is normaliser else _placed(unrefined, truth, f, rows, split)[0]
    return HeldOut(names, placed[:, :-1], placed[:, -1], gain, own, float(_coverage(before).min()))


def _placed(
    normaliser: Normaliser,
    truth: Float[np.ndarray, "m p"],
    statistics: Float[np.ndarray, "m s"],
    others: Float[np.ndarray, "n p"],
    split: Float[np.ndarray, "m q"],
) -> tuple[Float[np.ndarray, "m q"], float, float]:
    """Ranks of the true parameters, the joint one last; the gain; and their own probability."""
    eta, constants = (
        np.asarray(part, np.float64) for part in _parts(normaliser, jnp.asarray(np.concatenate([truth, others])))
    )
    f, num = np.asarray(statistics, np.float64) - np.asarray(normaliser.centre, np.float64), len(truth)
    own = np.sum(f * eta[:num], axis=1) - constants[:num]
    values = np.column_stack([own, f @ eta[num:].T - constants[num:]])
    peak = values.max(axis=1, keepdims=True)
    weights = np.exp(values - peak)
    total = weights.sum(axis=1, keepdims=True)
    gains = own - peak[:, 0] - np.log(total[:, 0]) + np.log(values.shape[1])
    weights /= total
    below = [np.sum(weights[:, 1:] * (others[:, k] < truth[:, k, None]), axis=1) for k in range(truth.shape[1])]
    likelier = np.sum(weights * (values > own[:, None]), axis=1)
    ranks = np.column_stack([*below, likelier]) + split * weights[:, :1]
    return ranks, float(gains.mean()), float(np.median(weights[:, 0]))


def _coverage(placed: Float[np.ndarray, "m q"]) -> Float[np.ndarray, " q"]:
    """The shares of intervals that hold the truth; the last column is the joint one."""
    within = np.abs(placed[:, :-1] - 0.5) < CENTRAL / 2
    return np.append(within.mean(axis=0), np.mean(placed[:, -1] < CENTRAL))


@eqx.filter_jit
def _parts(normaliser: Normaliser, theta: Float[Array, "n p"]) -> tuple[Array, Array]:
    return jax.vmap(normaliser.parts)(theta)
