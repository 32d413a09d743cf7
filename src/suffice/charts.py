"""Charts: the one coordinate system in which everything is fitted and sampled.

A chart maps a value x of a bounded support to y ∈ R^d: numpyro's bijection for the support (Stan's set: identity, log,
reversed log, logit; Appendix "Specific formulation of TranSM" of the paper), then a standardisation fitted on training
data. Only this module knows a log-determinant.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float
from numpy.typing import ArrayLike as Values
from numpyro.distributions import Distribution, constraints
from numpyro.distributions.transforms import Transform, biject_to

from suffice.errors import ModelError, SupportError
from suffice.requiring import require_numbers

Support: TypeAlias = constraints.Constraint
Scaling = Literal["spread", "range", "none"]  # to mean 0 and deviation 1; each coordinate to [0, 1]; not at all


class Chart(eqx.Module):
    """The map y = (t(x) − shift) / scale from a support to R^d, where t is numpyro's bijection for that support.

    `scaling` is how shift and scale are found from training data: by their mean and spread unless told otherwise.
    Methods act on one value; vectorise them with `jax.vmap`.

    >>> chart = Chart.unscaled(constraints.positive, shape=(3,))
    >>> chart.forward(jnp.array([1.0, 2.0, 4.0])).round(2).tolist()
    [0.0, 0.6899999976158142, 1.3899999856948853]
    """

    support: Support
    shift: Float[Array, "..."]
    scale: Float[Array, "..."]
    scaling: Scaling = eqx.field(static=True, default="spread")

    @classmethod
    def unscaled(cls, support: Support, shape: tuple[int, ...], scaling: Scaling = "spread") -> "Chart":
        """The bijection alone, for values of `shape`."""
        shape = biject_to(support).inverse_shape(shape)
        return cls(support, jnp.zeros(shape), jnp.ones(shape), scaling=scaling)

    @classmethod
    def fit(
        cls, support: Support, values: Float[ArrayLike, "n ..."], *, pooled: tuple[int, ...] = (), what: str = "x"
    ) -> "Chart":
        """The chart of a support that standardises `values`; see `standardised_on`."""
        return cls.unscaled(support, np.shape(values)[1:]).standardised_on(values, pooled=pooled, what=what)

    def standardised_on(
        self, values: Float[ArrayLike, "n ..."], *, pooled: tuple[int, ...] = (), what: str = "x"
    ) -> "Chart":
        """The same chart with shift and scale from `values`, one row a value, as its `scaling` says.

        `pooled` names the axes of one value whose coordinates share one shift and scale: all of them for iid
        coordinates, time for a series, so that the chart keeps the symmetry of the model; a range is each
        coordinate's own. `what` names the values in error messages.
        """
        values = np.asarray(values)
        chart = Chart.unscaled(self.support, values.shape[1:], self.scaling)
        chart.require_inside(values, what=what)
        y = np.asarray(jax.vmap(chart.forward)(values), dtype=np.float64)
        if self.scaling == "none":
            return chart
        if self.scaling == "range":
            shift = y.min(0, keepdims=True)
            scale = y.max(0, keepdims=True) - shift
        else:
            axes = (0, *(axis + 1 for axis in pooled))
            shift, scale = y.mean(axes, keepdims=True), y.std(axes, keepdims=True)
        constant = np.argwhere(scale[0] <= 1e-6 * (1e-30 + np.abs(shift[0])))
        if len(constant):
            where = "" if scale.size == 1 else f" at coordinate {_coordinate(constant[0].tolist())}"
            raise SupportError(
                f"{what} is constant{where} in all {len(values)} rows, so it has no density there. "
                f"Leave such coordinates out of {what}."
            )
        dtype = chart.shift.dtype
        return Chart(
            self.support,
            jnp.asarray(np.broadcast_to(shift[0], y.shape[1:]), dtype),
            jnp.asarray(np.broadcast_to(scale[0], y.shape[1:]), dtype),
            scaling=self.scaling,
        )

    @property
    def _bijection(self) -> Transform:
        return biject_to(self.support)

    def forward(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The coordinates y of x; infinite or nan where x is on or outside its bounds."""
        return (self._bijection.inv(jnp.asarray(x)) - self.shift) / self.scale

    def finite(self, x: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The coordinates y of x; 0 where x is on its bounds, as a rounded draw may be: somewhere to begin from."""
        y = self.forward(x)
        return jnp.where(jnp.isfinite(y), y, 0.0)

    def inverse(self, y: Float[ArrayLike, "..."]) -> Float[Array, "..."]:
        """The value x at the coordinates y."""
        return self._bijection(jnp.asarray(y) * self.scale + self.shift)

    def log_det(self, y: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        """log |dx/dy| at y: what a log-density of x gains when it is read as one of y."""
        unscaled = jnp.asarray(y) * self.scale + self.shift
        bijection = self._bijection
        jacobian = bijection.log_abs_det_jacobian(unscaled, bijection(unscaled))
        return jnp.sum(jacobian) + jnp.sum(jnp.log(self.scale))

    def log_prob(self, distribution: Distribution, y: Float[ArrayLike, "..."]) -> Float[Array, ""]:
        """The log-density of a distribution of x, read as one of y."""
        return distribution.log_prob(self.inverse(y)) + self.log_det(y)

    def inside(self, x: Float[ArrayLike, "..."]) -> Array:
        """Whether x is strictly inside its support, for each coordinate (for a simplex and the like: as a whole)."""
        x = jnp.asarray(x)
        bijection = self._bijection
        finite = jnp.isfinite(bijection.inv(x))
        event_dim = bijection.codomain.event_dim
        if event_dim and not is_product(self.support):
            finite = jnp.all(finite, axis=tuple(range(-event_dim, 0)))
            return finite & jnp.asarray(self.support(x))
        return finite & jnp.asarray(_scalar_support(self.support)(x))

    def require_observation(self, observed: Values, shape: tuple[int, ...], *, iid: bool = False) -> np.ndarray:
        """`observed` as an array of `shape` (one more leading axis if `iid`), finite and inside the support."""
        values = require_numbers(observed, "the observation").astype(jax.dtypes.canonicalize_dtype(float))
        if values.ndim != len(shape) + iid or values.shape[iid:] != shape or not values.size:
            raise ModelError(
                f"The observation has shape {values.shape}, but this model's x has shape {shape}"
                + (", after one leading axis for the iid replicates." if iid else ".")
                + " Give data of that shape"
                + ("." if iid else ", or iid=True for several replicates along a leading axis.")
            )
        self.require_inside(values if iid else values[None], what="the observation", single=not iid)
        return values

    def require_inside(self, values: Float[ArrayLike, "n ..."], *, what: str = "x", single: bool = False) -> None:
        """Raise a `SupportError` that names row and coordinate unless every row is strictly inside its support.

        A `single` row is not called one.
        """
        values = np.asarray(values)
        outside = np.argwhere(~np.asarray(jax.vmap(self.inside)(values)))
        if not len(outside):
            return
        row, *index = outside[0].tolist()
        at = f"coordinate {_coordinate(index)}" if index else ""
        place = f"The value at {at}" if single else f"Row {row}, {at}" if index else f"Row {row}"
        rows = len(np.unique(outside[:, 0]))
        how_many = "" if single else f" ({rows} of {len(values)} rows have such values)"
        raise SupportError(
            f"{place} of {what} is {values[(row, *index)]}, which is on or outside its support, "
            f"{describe(self.support)}{how_many}. Correct the value, or declare the support that the data really have."
        )


def per_coordinate(supports: Sequence[Support]) -> Support:
    """One support a coordinate, along the last axis of x."""
    return constraints.cat(tuple(supports), dim=-1)


def bounds(support: Support, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper bound of every coordinate of a value of `shape`; infinite where there is none."""
    support = _scalar_support(support)
    if isinstance(support, constraints.cat):
        parts = [
            bounds(part, (*shape[:-1], length)) for part, length in zip(support.cseq, support.lengths, strict=True)
        ]
        lower, upper = (np.concatenate(side, axis=-1) for side in zip(*parts, strict=True))
        return lower, upper
    attributes = vars(support)
    return (
        np.broadcast_to(np.asarray(attributes.get("lower_bound", -np.inf), np.float64), shape),
        np.broadcast_to(np.asarray(attributes.get("upper_bound", np.inf), np.float64), shape),
    )


def describe(support: Support) -> str:
    """The support in words."""
    support = _scalar_support(support)
    if isinstance(support, constraints.cat):
        parts = [describe(part) for part in support.cseq]
        return "one support a coordinate (" + ", ".join(parts[:4]) + (", …)" if len(parts) > 4 else ")")
    lower, upper = (_number(vars(support).get(name)) for name in ("lower_bound", "upper_bound"))
    if lower is not None and upper is not None:
        return f"between {lower} and {upper}"
    if lower is not None:
        return f"greater than {lower}"
    if upper is not None:
        return f"less than {upper}"
    return "any real number" if isinstance(support, type(constraints.real)) else repr(support)


def is_product(support: Support) -> bool:
    """Whether the support is a product of supports of the coordinates."""
    return _scalar_support(support).event_dim == 0


def _scalar_support(support: Support) -> Support:
    """The constraint on each coordinate, where the support is a product of such."""
    if isinstance(support, constraints.independent | type(constraints.real_vector)):
        return _scalar_support(support.base_constraint)
    return support


def _coordinate(index: Sequence[int]) -> str:
    return str(index[0]) if len(index) == 1 else str(tuple(index))


def _number(bound: ArrayLike | None) -> str | None:
    if bound is None:
        return None
    values = np.unique(np.asarray(bound))
    return f"{values[0]:g}" if values.size == 1 else f"[{values[0]:g} … {values[-1]:g}]"
