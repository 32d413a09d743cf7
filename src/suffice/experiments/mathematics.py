"""What the paper says of its mathematics, measured: cost of derivatives, two kinds of score matching, invariance."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from jaxtyping import Array, Float

from suffice.charts import Chart
from suffice.experiments.cache import Record
from suffice.experiments.drawing import lines
from suffice.experiments.item import Result
from suffice.experiments.lab import Lab
from suffice.experiments.methods import LABELS, model_of
from suffice.family.networks import Mlp
from suffice.family.statistics import PartiallyExchangeable
from suffice.matching import Dense, ForwardLaplacian
from suffice.matching.corrected import corrected_loss
from suffice.simulation import simulate

REPEATS = 3


@dataclass(frozen=True)
class DerivativeCost:
    """Seconds of second derivatives of a network by its number of outputs.

    Args:
        widths: hidden widths.
    """

    widths: tuple[int, ...] = (30, 50, 50, 20)

    def __call__(self, lab: Lab) -> Result:
        """Plain autodiff, the paper's forward pass, and ours, which sums while it goes."""
        inputs, batch, outputs = lab.scale.derivatives
        settings = {"inputs": inputs, "batch": batch, "outputs": outputs, "widths": self.widths, "seed": lab.seed}

        def make(_: Path) -> tuple[Record, int]:
            timed = [self._timed(lab, inputs, batch, number) for number in outputs]
            return Record({"seconds": np.array(timed), "outputs": np.array(outputs)}), 0

        record = lab.cache.fetch("derivatives", settings, make)
        seconds, names = record.arrays["seconds"], ("plain autodiff", "the paper's forward pass", "ours")
        rows = [
            {"outputs": int(number)} | {f"{name}, s": f"{value:.4g}" for name, value in zip(names, times, strict=True)}
            for number, times in zip(record.arrays["outputs"], seconds, strict=True)
        ]
        along = [float(number) for number in outputs]
        series = {name: (along, seconds[:, i].tolist()) for i, name in enumerate(names)}
        drawn = lines(series, x="outputs of the network", y="seconds")
        note = (
            f"{inputs} inputs, batch {batch}, hidden widths {self.widths}, compiled, two cores; the best of {REPEATS}. "
            "The first two give every second derivative of every output; ours the gradient and the Laplacian of one "
            "scalar η·f, which is all that score matching needs."
        )
        return Result({"": pd.DataFrame(rows)}, {"": drawn}, (note,))

    def _timed(self, lab: Lab, inputs: int, batch: int, outputs: int) -> list[float]:
        network = Mlp(lab.key("derivatives", outputs), (inputs,), outputs, self.widths)
        y = jax.random.normal(lab.key("derivatives", "y"), (batch, inputs))
        weights = jnp.ones(outputs)
        ways: list[Callable[[Array], Array]] = [
            lambda row: second_by_autodiff(network, row),
            lambda row: second_by_forward(network, row),
            lambda row: ForwardLaplacian()(network, row, weights).laplacian,
        ]
        return [
            _best(jax.jit(lambda rows, way=way: jnp.sum(jax.lax.map(way, rows, batch_size=100))), y) for way in ways
        ]


def second_by_autodiff(network: Mlp, y: Float[Array, " d"]) -> Float[Array, "m d"]:
    """∂²f_j/∂y_i² by differentiating the gradient of each output once for each input."""

    def one(output: Array) -> Array:
        slope = jax.grad(lambda y: network(y)[output])
        return jax.lax.map(lambda i: jax.grad(lambda y: slope(y)[i])(y)[i], jnp.arange(y.size))

    return jax.lax.map(one, jnp.arange(network.num_outputs))


def second_by_forward(network: Mlp, y: Float[Array, " d"]) -> Float[Array, "m d"]:
    """The same carried forward through the layers, as the paper's appendix does."""
    first, *rest = network.layers
    value, slopes = first.weight @ y + first.bias, first.weight
    bends = jnp.zeros_like(slopes)
    for layer in rest:
        gate = jax.nn.sigmoid(value)
        bends = layer.weight @ ((gate * (1 - gate))[:, None] * slopes**2 + gate[:, None] * bends)
        slopes = layer.weight @ (gate[:, None] * slopes)
        value = layer.weight @ jax.nn.softplus(value) + layer.bias
    return bends


def _best(call: Callable[[Array], Array], y: Array) -> float:
    jax.block_until_ready(call(y))
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        jax.block_until_ready(call(y))
        times.append(time.perf_counter() - began)
    return min(times)


@dataclass(frozen=True)
class CorrectedMatching:
    """Transformed and corrected score matching differ by a function of x alone: the same minimiser.

    Args:
        models: with bounded data.
        networks: random networks in place of a fit.
        rows: simulations on which both losses are taken.
    """

    models: tuple[str, ...] = ("gamma", "beta")
    networks: int = 3
    rows: int = 20

    def __call__(self, lab: Lab) -> Result:
        """The spread of their difference over networks, beside the spread of the losses."""
        table = []
        with jax.enable_x64(new_val=True):
            for name in self.models:
                x = np.asarray(simulate(lab.key("corrected", name), model_of(name), self.rows, progress=False).x)
                chart = Chart.unscaled(model_of(name).support, x.shape[1:])
                pairs = self._losses(chart, jnp.asarray(x, float))
                gap = pairs[:, 0] - pairs[:, 1]
                table.append(
                    {
                        "model": LABELS[name],
                        "largest change of the difference": f"{np.abs(gap - gap[0]).max():.1e}",
                        "spread of transformed": f"{pairs[:, 0].std(axis=0).mean():.3g}",
                        "spread of corrected": f"{pairs[:, 1].std(axis=0).mean():.3g}",
                    }
                )
        note = f"Over {self.networks} random networks at each of {self.rows} simulations, in double precision."
        return Result({"": pd.DataFrame(table)}, notes=(note,))

    def _losses(self, chart: Chart, x: Array) -> Float[np.ndarray, "k 2 n"]:
        """Both losses of each network at each row."""

        def both(network: Mlp, row: Array) -> Array:
            gradient, laplacian = Dense()(network, chart.forward(row), jnp.ones(1))

            def log_density(row: Array) -> Array:
                y = chart.forward(row)
                return network(y)[0] - chart.log_det(y)

            return jnp.stack([0.5 * jnp.sum(gradient**2) + laplacian, corrected_loss(log_density, chart, row)])

        losses = jax.jit(lambda network: jax.vmap(lambda row: both(network, row))(x))
        networks = [Mlp(jax.random.key(seed), x.shape[1:], 1, (9, 9)) for seed in range(self.networks)]
        return np.stack([np.asarray(losses(network)).T for network in networks])


@dataclass(frozen=True)
class BlockSwitch:
    """PENs of order r do not see an r-block switch; they do see one of lower order, and permutations.

    Args:
        orders: of the network.
        length: of the series.
    """

    orders: tuple[int, ...] = (1, 2, 10)
    length: int = 100

    def __call__(self, lab: Lab) -> Result:
        """The largest relative change of the network's outputs."""
        rows = []
        with jax.enable_x64(new_val=True):
            for order in self.orders:
                shape = (self.length,)
                network = PartiallyExchangeable(lab.key("pen", order), shape, 3, order)
                series = np.random.default_rng([lab.seed, order]).normal(size=self.length)
                pairs = [*_switched(series, order), *_switched(series, order - 1), series, series[::-1]]
                values = np.asarray(jax.jit(jax.vmap(network))(np.stack(pairs))).reshape(3, 2, -1)
                changes = np.abs(values[:, 0] - values[:, 1]).max(axis=1) / np.abs(values[:, 0]).max(axis=1)
                words = ("switch of its order", "switch of order one less", "reversed")
                cells = {word: f"{change:.1e}" for word, change in zip(words, changes, strict=True)}
                rows.append({"order of the PEN": order} | cells)
        return Result({"": pd.DataFrame(rows)}, notes=("Random networks, in double precision.",))


def _switched(series: Float[np.ndarray, " t"], order: int) -> tuple[np.ndarray, np.ndarray]:
    """The series with two blocks that share their first and last `order` steps, and the same with them exchanged."""
    made = series.copy()
    made[50 : 50 + order] = made[10 : 10 + order]
    made[80 - order : 80] = made[35 - order : 35]
    return made, np.concatenate([made[:10], made[50:80], made[35:50], made[10:35], made[80:]])
