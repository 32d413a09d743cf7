"""The value `Fit`: networks fitted to simulations, ready to use and to save."""

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from numpy.typing import ArrayLike
from numpyro.distributions import Distribution

from suffice import storage
from suffice.charts import Chart
from suffice.family.encoding import decode, decode_prior, encode, encode_prior
from suffice.family.envelope import Envelope, features
from suffice.family.exponential import ExponentialFamily
from suffice.family.gaussian import ConditionalGaussian
from suffice.family.normaliser import Normaliser
from suffice.family.region import Region
from suffice.family.regression import Regression
from suffice.family.residual import Residual, residual
from suffice.fitting.held_out import HeldOut
from suffice.fitting.history import History

PIECE = 1000  # data whose statistics are found at a time


@storage.artefact
@dataclass(frozen=True, eq=False)
class Fit:
    """What was learned: the family (or regression), and how.

    Attributes:
        module: the fitted `ExponentialFamily`, or `Regression` of a `PosteriorMean`.
        names: the parameters' names.
        history: the course of the training.
        settings: objective, training and key, as plain values.
        prior: the prior of the model, for posteriors; None if it was not written to the file.
        parameter_chart: the coordinates of θ in which posteriors are sampled.
        envelope: where the training data lie.
        normaliser: A(θ) ≈ log Z(θ) up to a constant, of a family; the density of the statistics given θ, of a
            regression; None of a linear one.
        held_out: how the fit places the parameters of data that it was not trained on; None where it was not looked
            at: for regressions, and fewer than 200 held-out pairs.
        region: where the training parameters lie, which `Direct` does not leave.
    """

    module: ExponentialFamily | Regression
    names: tuple[str, ...]
    history: History
    settings: dict[str, Any]
    prior: Distribution | None = None
    parameter_chart: Chart | None = None
    envelope: Envelope | None = None
    normaliser: Normaliser | ConditionalGaussian | None = None
    held_out: HeldOut | None = None
    region: Region | None = None

    kind: ClassVar[str] = "fit"
    version: ClassVar[int] = 5

    def __repr__(self) -> str:
        return f"Fit({type(self.module).__name__} of {', '.join(self.names)}, {self.history.epochs} epochs)"

    @property
    def family(self) -> ExponentialFamily:
        """The fitted exponential family."""
        if not isinstance(self.module, ExponentialFamily):
            raise TypeError("This fit is a regression (PosteriorMean): it has statistics, but no density of x.")
        return self.module

    @property
    def data_shape(self) -> tuple[int, ...]:
        """The shape of one x."""
        return self.module.data_chart.shift.shape

    def observation(self, observed: ArrayLike, *, iid: bool = False) -> np.ndarray:
        """`observed` as an array of x's shape (one more leading axis if `iid`), finite and inside the support."""
        return self.module.data_chart.require_observation(observed, self.data_shape, iid=iid)

    def outside_training(self, x: ArrayLike) -> Any:
        """The share of training data that are farther from their centre than x is: 0 where x is unlike any of them.

        Distances are Mahalanobis' in the space of statistics (and base); of one x, or of each row of several.
        """
        if self.envelope is None:
            raise ValueError("This fit has no record of its training data.")
        rows, single = self._rows(x)
        values = np.asarray(_tails(self.module, self.envelope, rows))
        return values[0] if single else values

    def statistics(self, x: ArrayLike) -> Any:
        """f(x) of one x, or of each row of several; numpy for numpy, traced where x is."""
        if isinstance(x, jax.core.Tracer):
            many = x.ndim > len(self.data_shape)
            return jax.vmap(self._statistics)(x) if many else self._statistics(x)
        rows, single = self._rows(x)
        values = np.asarray(_statistics(self.module, rows))
        return values[0] if single else values

    def log_density(self, x: ArrayLike, theta: ArrayLike) -> Any:
        """log p(x|θ) + log Z(θ): the log-density of x up to a function of θ, of one or several x and θ, row by row."""
        family = self.family
        rows, single_x = self._rows(x)
        thetas = jnp.asarray(theta, rows.dtype)
        if thetas.ndim not in (1, 2) or thetas.shape[-1] != len(self.names):
            raise ValueError(
                f"theta has shape {thetas.shape}, but must be one vector of {len(self.names)} parameters "
                f"({', '.join(self.names)}) or rows of such."
            )
        single_theta = thetas.ndim == 1
        thetas = thetas[None] if single_theta else thetas
        if not (len(rows) == len(thetas) or single_x or single_theta):
            raise ValueError(f"x has {len(rows)} rows and theta {len(thetas)}: give as many of each, or one of either.")
        number = max(len(rows), len(thetas))
        rows, thetas = (jnp.broadcast_to(a, (number, *a.shape[1:])) for a in (rows, thetas))
        values = np.asarray(_log_density(family, rows, thetas))
        return values[0] if single_x and single_theta else values

    def residual(self, theta: ArrayLike, x: ArrayLike, *, bins: int = 10) -> Residual:
        """The mean score of the normalised family against θ, on pairs that nothing was fitted to: 0 where A is right.

        It checks the normaliser, not the family: a family that misses something of the data can still pass.
        """
        if self.normaliser is None:
            raise ValueError("This fit has no normaliser to check.")
        rows, _ = self._rows(x)
        y = jax.vmap(self.module.data_chart.forward)(rows)
        return residual(self.normaliser, self.module, np.asarray(theta, rows.dtype), y, bins=bins)

    def _statistics(self, x: Array) -> Array:
        return self.module.statistics_of(self.module.data_chart.forward(x))

    def _rows(self, x: ArrayLike) -> tuple[Array, bool]:
        """x as rows, inside the support; and whether one x was given."""
        chart, shape = self.module.data_chart, self.data_shape
        values = np.asarray(x, np.asarray(chart.shift).dtype)
        single = values.shape == shape
        rows = values[None] if single else values
        if rows.shape[1:] != shape:
            raise ValueError(f"x has shape {values.shape}, but must be one x of shape {shape} or rows of such.")
        chart.require_inside(rows)
        return jnp.asarray(rows), single

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to one file; `suffice.load` reads it (`Fit.load` if it has networks of your own)."""
        return storage.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], template: ExponentialFamily | Regression | None = None) -> "Fit":
        """The fit at `path`; `template`, made as the fitted family was, gives the structure of your own networks."""
        manifest, arrays = storage.read(cls, path)
        return cls._from_archive(manifest, arrays, template)

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See `storage.Artefact`."""
        arrays: dict[str, np.ndarray] = {}
        code = encode(self.module, arrays)
        history, history_arrays = self.history.to_archive()
        looked, looked_arrays = ({}, {}) if self.held_out is None else self.held_out.to_archive()
        manifest = {
            "module": code,
            "names": list(self.names),
            "history": history,
            "settings": self.settings,
            "prior": encode_prior(self.prior, arrays),
            "parameter_chart": encode(self.parameter_chart, arrays),
            "envelope": encode(self.envelope, arrays),
            "normaliser": encode(self.normaliser, arrays),
            "held_out": looked,
            "region": encode(self.region, arrays),
        }
        others = {"history": history_arrays, "held_out": looked_arrays}
        return manifest, arrays | {f"{part}/{name}": a for part, named in others.items() for name, a in named.items()}

    @classmethod
    def from_archive(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Fit":
        """See `storage.Artefact`."""
        return cls._from_archive(manifest, arrays, None)

    @classmethod
    def _from_archive(
        cls,
        manifest: dict[str, Any],
        arrays: dict[str, np.ndarray],
        template: ExponentialFamily | Regression | None,
    ) -> "Fit":
        module = decode(manifest["module"], arrays, template)
        names = tuple(manifest["names"])
        history = History.from_archive(manifest["history"], _named(arrays, "history/"))
        held_out = HeldOut.from_archive(names, manifest.get("held_out", {}), _named(arrays, "held_out/"))
        natural = None if template is None else getattr(template, "natural", None)
        normaliser = decode(manifest["normaliser"], arrays, SimpleNamespace(natural=natural))
        if (
            isinstance(normaliser, Normaliser) and normaliser.natural is None
        ):  # until layout 2 its η was always the family's
            normaliser = eqx.tree_at(
                lambda part: part.natural, normaliser, module.natural, is_leaf=lambda part: part is None
            )
        return cls(
            module,
            names,
            history,
            manifest["settings"],
            decode_prior(manifest["prior"], arrays),
            decode(manifest["parameter_chart"], arrays),
            decode(manifest["envelope"], arrays),
            normaliser,
            held_out,
            decode(manifest.get("region"), arrays),
        )


def _named(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Those arrays whose names have the prefix, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


@eqx.filter_jit
def _statistics(module: ExponentialFamily | Regression, x: Array) -> Array:
    def one(x: Array) -> Array:
        return module.statistics_of(module.data_chart.forward(x))

    return jax.lax.map(one, x, batch_size=PIECE) if len(x) > PIECE else jax.vmap(one)(x)


@eqx.filter_jit
def _tails(module: ExponentialFamily | Regression, envelope: Envelope, x: Array) -> Array:
    return jax.vmap(lambda x: envelope.tail(features(module, module.data_chart.forward(x))))(x)


@eqx.filter_jit
def _log_density(family: ExponentialFamily, x: Array, theta: Array) -> Array:
    def one(x: Array, theta: Array) -> Array:
        y = family.data_chart.forward(x)
        return family.log_density(y, theta) - family.data_chart.log_det(y)

    return jax.vmap(one)(x, theta)
