"""Statistics of a series on a lattice by what each step brings that its neighbourhood did not foretell.

In a finely sampled series most of the next value is foretold by the last ones, and what tells of θ is in the small
rest. A network on raw windows must learn to take that difference before it sees anything; here least squares over
training data does it, in closed form, before any training.
"""

import math
from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from suffice.family.networks import Activation, Mlp, require_shape, softplus

PATCHES = 400_000  # that the least squares are taken over, at most
PIECE = 20  # data that are summarised at a time
RIDGE = 1e-9  # added to the Gram matrix of features scaled to 1


class Innovations(eqx.Module):
    """f(y) = ρ(moments of (v, r)): own values v of every site and time, and their innovations r.

    Around each site k and time t lies a patch of y: steps t − order, …, t of the sites k − before, …, k + after, where
    `neighbours` is (before, after). The innovation r_{t,k} is the newest value of the site less the polynomial of
    degree 2 of the rest of its patch that foretells it best over training data, for all θ, t and k alike. With
    h_{t,k} the innovation and the site's values at the `order` steps before, the moments are the means over all t and k
    of h and of h_t h_{t+l}ᵀ, l = 0, …, lags. ρ, `outer`, is an `Mlp` of `widths` on them, standardised, with a linear
    map beside it.

    A series (T,) has one site and no neighbours. On a ring, `cyclic`, the first site is next to the last; otherwise
    only whole patches count. Only ρ is trained: by regression (`PosteriorMean`), which finds the rest from the training
    data first, and is then as cheap as a fit to a few numbers.

    >>> network = Innovations(jax.random.key(0), (120, 40), 4, order=1, neighbours=(2, 1))
    >>> network(jnp.zeros((120, 40))).shape
    (4,)
    """

    outer: Mlp
    patch_mean: Float[Array, " patch"]
    patch_whitener: Float[Array, "patch patch"]
    prediction: Float[Array, " features"]
    moments_mean: Float[Array, " moments"]
    moments_scale: Float[Array, " moments"]
    order: int = eqx.field(static=True)
    neighbours: tuple[int, int] = eqx.field(static=True)
    lags: int = eqx.field(static=True)
    cyclic: bool = eqx.field(static=True)
    data_shape: tuple[int, ...] = eqx.field(static=True)
    num_outputs: int = eqx.field(static=True)

    def __init__(
        self,
        key: PRNGKeyArray,
        data_shape: tuple[int, ...],
        num_outputs: int,
        order: int = 1,
        neighbours: tuple[int, int] = (0, 0),
        widths: Sequence[int] = (64, 64),
        *,
        lags: int = 1,
        cyclic: bool = True,
        activation: Activation = softplus,
    ) -> None:
        if len(data_shape) not in (1, 2):
            raise ValueError(f"The data have shape {data_shape}, but a series has shape (T,) or (T, K). Reshape them.")
        steps, sites = data_shape[0], math.prod(data_shape[1:])
        if min(order, lags + 1) < 1 or order + lags >= steps:
            raise ValueError(
                f"order is {order} and lags is {lags}, but order must be at least 1, lags at least 0, and their sum "
                f"below the {steps} steps of the data."
            )
        if min(neighbours) < 0 or sum(neighbours) >= sites:
            raise ValueError(
                f"neighbours are {neighbours}, but must be two numbers of at least 0 whose sum is below the {sites} "
                "sites of the data."
            )
        size, channels = (order + 1) * (sum(neighbours) + 1), order + 1
        number = channels + channels * (channels + 1) // 2 + lags * channels**2
        self.outer = Mlp(key, (number,), num_outputs, widths, activation=activation, skip=True)
        self.patch_mean, self.patch_whitener = jnp.zeros(size), jnp.eye(size)
        self.prediction = jnp.zeros(1 + (size - 1) * (size + 2) // 2)
        self.moments_mean, self.moments_scale = jnp.zeros(number), jnp.ones(number)
        self.order, self.neighbours, self.lags, self.cyclic = order, neighbours, lags, cyclic
        self.data_shape = data_shape
        self.num_outputs = num_outputs

    @property
    def shared_axes(self) -> tuple[int, ...]:
        """The axes of x along which the network is the same, so that its chart must be: all of them."""
        return tuple(range(len(self.data_shape)))

    def __call__(self, y: Float[Array, "..."]) -> Float[Array, " m"]:
        """f(y)."""
        return self.outer(self.summaries(y))

    def summaries(self, y: Float[Array, "..."]) -> Float[Array, " moments"]:
        """The moments, standardised: all that ρ sees of y."""
        mean, scale = jax.lax.stop_gradient((self.moments_mean, self.moments_scale))
        return (self._moments(y) - mean) / scale

    def prepared(self, y: Float[np.ndarray, "n ..."]) -> "Innovations":
        """The same network with the prediction by least squares over these rows, and moments of mean 0 and sd 1."""
        whitened, features = self._on_patches(y)
        scale = np.sqrt(np.mean(features[:, :-1] ** 2, axis=0))
        design = features[:, :-1] / scale
        gram = design.T @ design / len(design) + RIDGE * np.eye(design.shape[1])
        solution = np.linalg.solve(gram, design.T @ features[:, -1] / len(design)) / scale
        dtype = self.patch_mean.dtype
        parts = (jnp.asarray(part, dtype) for part in (*whitened, solution))
        network = eqx.tree_at(lambda part: (part.patch_mean, part.patch_whitener, part.prediction), self, tuple(parts))
        moments = np.asarray(_rows(network._moments, jnp.asarray(y)), np.float64)
        spread = np.maximum(moments.std(0), 1e-6 * np.abs(moments.mean(0)) + 1e-30)
        standard = (jnp.asarray(moments.mean(0), dtype), jnp.asarray(spread, dtype))
        return eqx.tree_at(lambda part: (part.moments_mean, part.moments_scale), network, standard)

    def summarised(self, y: Float[Array, "n ..."]) -> Float[Array, "n moments"]:
        """`summaries` of every row."""
        return _rows(self.summaries, y)

    def _on_patches(self, y: Float[np.ndarray, "n ..."]) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
        """Mean and whitener of patches, and the features of each, the newest value last; from as many as are needed."""
        per_row = math.prod(self.data_shape)
        some = np.asarray(y[: max(2, -(-PATCHES // per_row))])
        patches = np.concatenate(
            [np.asarray(_patches(self, jnp.asarray(row))).reshape(-1, len(self.patch_mean)) for row in some]
        )
        patches = patches[:: max(1, len(patches) // PATCHES)].astype(np.float64)
        mean = patches.mean(0)
        covariance = np.cov(patches, rowvar=False) + RIDGE * np.diag(patches.var(0) + 1e-30)
        whitener = np.linalg.inv(np.linalg.cholesky(covariance))
        return (mean, whitener), np.asarray(_features(jnp.asarray((patches - mean) @ whitener.T)), np.float64)

    def _moments(self, y: Float[Array, "..."]) -> Float[Array, " moments"]:
        require_shape(y, self.data_shape)
        mean, whitener, prediction = jax.lax.stop_gradient((self.patch_mean, self.patch_whitener, self.prediction))
        patches = _patches(self, y)
        features = _features((patches - mean) @ whitener.T)
        innovation = features[..., -1] - features[..., :-1] @ prediction
        own = [_places(self).index((step, 0)) for step in range(self.order)]
        h = jnp.concatenate([patches[..., own] - mean[np.array(own)], innovation[..., None]], axis=-1)
        steps, channels = len(h), h.shape[-1]
        moments = [jnp.mean(h, axis=(0, 1))]
        for lag in range(self.lags + 1):
            products = jnp.einsum("tkc,tkd->cd", h[: steps - lag], h[lag:]) / ((steps - lag) * h.shape[1])
            moments.append(products.reshape(-1) if lag else products[np.triu_indices(channels)])
        return jnp.concatenate(moments)


def _places(network: Innovations) -> list[tuple[int, int]]:
    """(step, neighbour) of every value of a patch, that of the newest value of the site itself last."""
    before, after = network.neighbours
    places = [(step, site) for step in range(network.order + 1) for site in range(-before, after + 1)]
    return [*(place for place in places if place != (network.order, 0)), (network.order, 0)]


def _patches(network: Innovations, y: Float[Array, "..."]) -> Float[Array, "steps sites patch"]:
    """The patch of every time and site."""
    values = y.reshape(len(y), -1)
    number, sites = len(values) - network.order, values.shape[1]
    before, after = network.neighbours
    centres = np.arange(sites) if network.cyclic else np.arange(before, sites - after)
    columns = [values[step : step + number, (centres + site) % sites] for step, site in _places(network)]
    return jnp.stack(columns, axis=-1)


def _features(z: Float[Array, "*rows patch"]) -> Float[Array, "*rows features"]:
    """1, all values but the newest, their products, and the newest value."""
    rest, newest = z[..., :-1], z[..., -1:]
    rows, columns = np.triu_indices(z.shape[-1] - 1)
    return jnp.concatenate([jnp.ones_like(newest), rest, rest[..., rows] * rest[..., columns], newest], axis=-1)


@eqx.filter_jit
def _rows(function: Callable[[Array], Array], y: Array) -> Array:
    return jax.lax.map(function, y, batch_size=min(PIECE, len(y)))
