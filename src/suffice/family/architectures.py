"""Which networks: our choice by the shape of a model, and the paper's by name (its Tables of architectures)."""

from collections.abc import Callable
from dataclasses import dataclass

from jaxtyping import Array, Float, PRNGKeyArray

from suffice import zoo
from suffice.charts import Scaling
from suffice.family.statistics import AdditiveMarkov, DeepSet, Mlp, PartiallyExchangeable
from suffice.model import Model

Network = Callable[[Float[Array, "..."]], Float[Array, " m"]]

UNKNOWN_ORDER = 2  # steps that a window looks back in a multivariate series whose Markov order is not told
LONG_ORDER = 5  # from this Markov order on, a memory is taken as one that fades
LAGS = 3  # lags of autocovariances for each step of such an order
FADING_WIDTHS = (16,)  # of the network of single values beside autocovariances


def default_network(key: PRNGKeyArray, model: Model, num_outputs: int, *, additive: bool = True) -> Network:
    """A network of y that has the model's symmetry.

    Series (a `markov_order`, or x of shape (T, K)) get windows, iid coordinates a `DeepSet`, anything else an `Mlp`.
    A `markov_order` of 5 or more stands for a memory that fades, as that of a moving average: sums over single values,
    and autocovariances of three times as many lags as that order.
    `additive` networks are plain sums over windows or coordinates, as log-densities of such models are; the others
    pass the sum through an outer network.
    """
    shape, order = model.data_shape, model.markov_order
    if model.exchangeable:
        outer = None if additive else (50, 50)
        return DeepSet(key, shape, num_outputs, (50, 50), outer_widths=outer, quadratic=True)
    if order is None and len(shape) == 2:
        order = min(UNKNOWN_ORDER, shape[0] - 1)
    if order is None:
        return Mlp(key, shape, num_outputs, (64, 64, 32), skip=True)
    if additive and fades(model):
        lags = min(LAGS * order, shape[0] - 1)
        return AdditiveMarkov(key, shape, num_outputs, 0, FADING_WIDTHS, skip=True, quadratic=True, lags=lags)
    if additive:
        return AdditiveMarkov(key, shape, num_outputs, order, (32, 32), skip=True, quadratic=True)
    return PartiallyExchangeable(key, shape, num_outputs, order, (50, 50), 20, (50, 50))


def default_sizes(model: Model) -> tuple[int, tuple[int, ...]]:
    """How many statistics, d_s, and the hidden widths of η's network.

    2p + 1 statistics; 12p + 1 where autocovariances carry a fading memory, because their weights in the log-density,
    the inverse autocovariances, are many functions of θ that are far from linear in each other.
    """
    p = model.num_parameters
    return (12 * p + 1, (128, 128)) if fades(model) else (2 * p + 1, (50, 50))


def fades(model: Model) -> bool:
    """Whether the model's Markov order is so long that it stands for a memory that fades."""
    return model.markov_order is not None and model.markov_order >= LONG_ORDER


@dataclass(frozen=True)
class PaperArchitecture:
    """One of the paper's tables: hidden widths of f_w (or of ρ_w with φ_w's) and of η_w, and the order of the PEN.

    `scalings` of x and θ are those of the released code; the paper does not tell them.
    """

    model: Callable[[], Model]
    widths: tuple[int, ...]
    natural_widths: tuple[int, ...]
    scalings: tuple[Scaling, Scaling]
    order: int | None = None
    window_widths: tuple[int, ...] = ()
    window_outputs: int = 20

    def network(self, key: PRNGKeyArray, num_outputs: int) -> Network:
        """f_w, or s_β: an MLP, or a PEN where the paper has one."""
        shape = self.model().data_shape
        if self.order is None:
            return Mlp(key, shape, num_outputs, self.widths)
        return PartiallyExchangeable(
            key, shape, num_outputs, self.order, self.window_widths, self.window_outputs, self.widths
        )

    def natural(self, key: PRNGKeyArray) -> Mlp:
        """η_w, with as many outputs as parameters."""
        p = self.model().num_parameters
        return Mlp(key, (p,), p, self.natural_widths)


_IID: tuple[tuple[int, ...], tuple[int, ...], tuple[Scaling, Scaling]] = (
    (30, 50, 50, 20),
    (15, 30, 30, 15),
    ("range", "range"),
)
PAPER: dict[str, PaperArchitecture] = {
    "gaussian": PaperArchitecture(zoo.gaussian, *_IID),
    "gamma": PaperArchitecture(zoo.gamma, *_IID),
    "beta": PaperArchitecture(zoo.beta, *_IID),
    "ar2": PaperArchitecture(zoo.ar2, (50, 50), (15, 30, 30, 15), ("none", "none"), 2, (50, 50, 30)),
    "ma2": PaperArchitecture(zoo.ma2, (50, 50), (15, 30, 30, 15), ("none", "none"), 10, (50, 50, 30)),
    "lorenz96-small": PaperArchitecture(
        lambda: zoo.lorenz96("small"), (40, 90, 35), (30, 50, 50, 30), ("none", "range"), 1, (50, 100, 50)
    ),
    "lorenz96-large": PaperArchitecture(
        lambda: zoo.lorenz96("large"), (80, 100, 80), (30, 50, 50, 30), ("none", "range"), 1, (120, 160, 120)
    ),
}


def paper_architecture(model_name: str) -> PaperArchitecture:
    """The paper's architecture for the model of that name."""
    if model_name not in PAPER:
        raise ValueError(f"The paper has no model {model_name!r}: it has {', '.join(PAPER)}.")
    return PAPER[model_name]
