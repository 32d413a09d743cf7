"""Objectives: what is minimised over training pairs to fit a family (or a regression) to a simulator.

Score matching in the chart's coordinates is the paper's TranSM, and with slices its TranSSM; on unbounded data they are
plain SM and SSM. Each objective is a settings object; its losses are written for one pair and vectorised once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.family.exponential import ExponentialFamily
from suffice.family.regression import Regression
from suffice.matching.derivatives import Engine, ForwardLaplacian, ScoreAndCurvature, sliced_curvature
from suffice.matching.weighting import conditional_precision, conditional_variance, dependent
from suffice.randomness import fast

Weighting = Literal["auto", "variance", "precision", "none"] | Callable[[np.ndarray], np.ndarray]
Noise = Literal["rademacher", "gaussian", "sphere"]


class Batch(NamedTuple):
    """Training pairs in the coordinates of the fit: y of the data, θ, and a positive weight each."""

    y: Float[Array, "n ..."]
    theta: Float[Array, "n p"]
    weight: Float[Array, " n"]


@runtime_checkable
class Objective(Protocol):
    """What `fit` asks of an objective."""

    def weights(self, y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """A positive weight for each training pair, of mean 1."""
        ...

    def losses(self, key: PRNGKeyArray, module: eqx.Module, batch: Batch) -> Float[Array, " n"]:
        """The weighted loss of each pair."""
        ...


@dataclass(frozen=True)
class ScoreMatching:
    """Exact score matching: E w(θ) [½ ‖∇_y s‖² + Δ_y s] (Eq. FD_expected_explicit_MC), s the family's log-density.

    Args:
        weighting: w(θ), any positive function, which leaves the minimiser alone but decides which θ are fitted well.
            "variance": the conditional variance of y given θ, so that the sharpest θ do not decide alone;
            "precision": the inverse of its conditional precision, for coordinates that depend on each other; "auto":
            either, by whether they do; "none": 1; or a callable from rows of θ to weights.
        curvature_penalty: λ in the added λ (Δ_y s)² / d, after Kingma and LeCun (2010).
        engine: how derivatives are taken.
    """

    weighting: Weighting = "auto"
    curvature_penalty: float = 0.0
    engine: Engine = field(default_factory=ForwardLaplacian)

    def __post_init__(self) -> None:
        _require_weighting(self.weighting)
        if not self.curvature_penalty >= 0:
            raise ValueError(f"curvature_penalty is {self.curvature_penalty}, but must be 0 or more.")

    def weights(self, y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """See `Objective`."""
        return theta_weights(self.weighting, y, theta)

    def losses(self, key: PRNGKeyArray, module: eqx.Module, batch: Batch) -> Float[Array, " n"]:
        """See `Objective`."""
        family = require_family(module)
        eta = jax.vmap(family.natural)(batch.theta)
        return batch.weight * jax.vmap(lambda y, eta: self.pair_loss(family, y, eta))(batch.y, eta)

    def pair_loss(self, family: ExponentialFamily, y: Float[Array, "..."], eta: Float[Array, " s"]) -> Float[Array, ""]:
        """½ ‖∇s‖² + Δs for one pair, given η."""
        gradient, laplacian = score_and_curvature(self.engine, family, y, eta)
        penalty = self.curvature_penalty * laplacian**2 / y.size
        return 0.5 * jnp.sum(gradient**2) + laplacian + penalty


@dataclass(frozen=True)
class SlicedScoreMatching:
    """Sliced score matching: E w(θ) [vᵀ ∇²s v + ½ ‖∇s‖²] over random directions v (Eqs. FDS_explicit, FDS_explicit_vr).

    Args:
        noise: the law of v: signs, a standard Gaussian, or uniform on the sphere of radius √d; E[v vᵀ] = I for each.
        slices: M, directions a pair and pass.
        variance_reduction: ½ ‖∇s‖² rather than its noisy form ½ (vᵀ ∇s)².
        weighting: as for `ScoreMatching`.
    """

    noise: Noise = "rademacher"
    slices: int = 1
    variance_reduction: bool = True
    weighting: Weighting = "auto"

    def __post_init__(self) -> None:
        _require_weighting(self.weighting)
        if self.noise not in ("rademacher", "gaussian", "sphere"):
            raise ValueError(f"noise is {self.noise!r}, but must be 'rademacher', 'gaussian' or 'sphere'.")
        if self.slices < 1:
            raise ValueError(f"slices is {self.slices}, but at least one direction a pair is needed.")

    def weights(self, y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """See `Objective`."""
        return theta_weights(self.weighting, y, theta)

    def losses(self, key: PRNGKeyArray, module: eqx.Module, batch: Batch) -> Float[Array, " n"]:
        """See `Objective`."""
        family = require_family(module)
        eta = jax.vmap(family.natural)(batch.theta)
        shape = (len(batch.y), self.slices, *batch.y.shape[1:])
        directions = _directions(fast(key), self.noise, shape, batch.y.dtype)
        pair_loss = jax.vmap(lambda y, eta, v: self.pair_loss(family, y, eta, v))
        return batch.weight * pair_loss(batch.y, eta, directions)

    def pair_loss(
        self,
        family: ExponentialFamily,
        y: Float[Array, "..."],
        eta: Float[Array, " s"],
        directions: Float[Array, "slices ..."],
    ) -> Float[Array, ""]:
        """The sliced loss of one pair along the given directions."""
        parts = [sliced_curvature(module, y, weights, directions) for module, weights in family.terms(eta)]
        gradient = sum(part[0] for part in parts)
        curvature = jnp.mean(sum(part[1] for part in parts))
        if self.variance_reduction:
            return curvature + 0.5 * jnp.sum(gradient**2)
        slopes = jnp.sum(directions * gradient, axis=tuple(range(1, directions.ndim)))
        return curvature + 0.5 * jnp.mean(slopes**2)


@dataclass(frozen=True)
class PosteriorMean:
    """Regression of θ on x, min E ‖s_β(x) − θ‖² over standardised θ, whose minimiser is the posterior mean.

    The statistics of Fearnhead and Prangle (Eq. FP_loss). With `linear`, the linear regression, in closed form.
    """

    linear: bool = False

    def weights(self, y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]) -> Float[np.ndarray, " n"]:
        """See `Objective`: all the same."""
        return np.ones(len(y), np.float32)

    def losses(self, key: PRNGKeyArray, module: eqx.Module, batch: Batch) -> Float[Array, " n"]:
        """See `Objective`."""
        if not isinstance(module, Regression):
            raise TypeError(f"PosteriorMean fits a Regression, not a {type(module).__name__}. Leave `family` out.")
        errors = jax.vmap(module.standardised)(batch.y) - jax.vmap(module.target)(batch.theta)
        return batch.weight * jnp.sum(errors**2, axis=-1)


def require_family(module: eqx.Module) -> ExponentialFamily:
    """The module, if it is an exponential family."""
    if not isinstance(module, ExponentialFamily):
        raise TypeError(f"Score matching fits an ExponentialFamily, not a {type(module).__name__}.")
    return module


def score_and_curvature(
    engine: Engine, family: ExponentialFamily, y: Float[Array, "..."], eta: Float[Array, " s"]
) -> ScoreAndCurvature:
    """∇s and Δs of s(y) = η·f(y) + c(y)."""
    parts = [engine(module, y, weights) for module, weights in family.terms(eta)]
    return ScoreAndCurvature(*jax.tree.map(lambda *sides: sum(sides[1:], sides[0]), *parts))


def theta_weights(
    weighting: Weighting, y: Float[np.ndarray, "n ..."], theta: Float[np.ndarray, "n p"]
) -> Float[np.ndarray, " n"]:
    """w(θ) for each row, of mean 1."""
    if weighting == "none":
        return np.ones(len(y), np.float32)
    if weighting == "auto":
        weighting = "precision" if dependent(y, theta) else "variance"
    if callable(weighting):
        weights = np.asarray(weighting(theta))
    else:
        weights = conditional_precision(y, theta) if weighting == "precision" else conditional_variance(y, theta)
    if weights.shape != (len(y),) or not np.all(weights > 0) or not np.all(np.isfinite(weights)):
        raise ValueError(
            f"The weighting gave weights of shape {weights.shape} between {weights.min()} and {weights.max()}, but "
            f"must give one positive, finite number for each of the {len(y)} rows of theta."
        )
    return (weights / weights.mean()).astype(np.float32)


def _require_weighting(weighting: Weighting) -> None:
    names = ("auto", "variance", "precision", "none")
    if not callable(weighting) and weighting not in names:
        raise ValueError(
            f"weighting is {weighting!r}, but must be {', '.join(map(repr, names))} or a function of rows of theta."
        )


def _directions(key: PRNGKeyArray, noise: Noise, shape: tuple[int, ...], dtype: jnp.dtype) -> Array:
    if noise == "rademacher":
        return jax.random.rademacher(key, shape, dtype)
    normal = jax.random.normal(key, shape, dtype)
    if noise == "gaussian":
        return normal
    axes = tuple(range(2, len(shape)))
    size = np.sqrt(np.prod(shape[2:])).astype(dtype)
    return size * normal / jnp.sqrt(jnp.sum(normal**2, axis=axes, keepdims=True))
