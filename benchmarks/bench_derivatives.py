"""How the score matching loss and its gradient in the weights scale, by engine, as ratios taken in one run.

    python benchmarks/bench_derivatives.py [dimension] [length] [pieces]

Aims: the forward Laplacian grows at most linearly in d and beats d backward passes 10 times at d = 100; additive
statistics grow linearly in the length of the series; gradients of a batch in pieces are no slower than at once.
"""

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp

import suffice as sf
from suffice.family.statistics import AdditiveMarkov, Mlp, PartiallyExchangeable
from suffice.fitting.gradients import batch_gradient, piece_size
from suffice.matching import DirectionByDirection, Engine, ForwardLaplacian, ScoreAndCurvature
from suffice.matching.derivatives import Network
from suffice.matching.objectives import Batch, Objective

ROUNDS = 5
IN_A_ROW = 4  # calls of one engine in a round: training repeats a call, so its memory is warm
BATCH = 200
DIMENSIONS = (10, 30, 100, 200, 400)
LENGTHS = (100, 400, 1000, 4000)
Timed = Callable[[], None]


@dataclass(frozen=True)
class BackwardPasses:
    """Δs by d backward passes through ∇s, one after the other, or vectorised: plain automatic differentiation."""

    at_once: bool

    def __call__(self, module: Network, y: jax.Array, weights: jax.Array) -> ScoreAndCurvature:
        """∇s(y) and Δs(y)."""
        gradient, pull_back = jax.vjp(jax.grad(lambda y: weights @ module(y)), y)
        basis = jnp.eye(y.size, dtype=y.dtype)
        rows = jax.lax.map(
            lambda direction: pull_back(direction)[0], basis, batch_size=y.size if self.at_once else None
        )
        return ScoreAndCurvature(gradient, jnp.trace(rows))


def training_gradient(engine: Engine, module: Network, batch: int, shape: tuple[int, ...]) -> Timed:
    """A compiled call of the loss's gradient in the module's weights, over a batch of random y."""
    y = jax.random.normal(jax.random.key(1), (batch, *shape))
    weights = jax.random.normal(jax.random.key(2), (batch, 3))

    def loss(module: Network) -> jax.Array:
        gradient, laplacian = jax.vmap(lambda y, weights: engine(module, y, weights))(y, weights)
        return 0.5 * jnp.sum(gradient**2) / batch + jnp.mean(laplacian)

    compiled = jax.jit(jax.grad(loss)).lower(module).compile()
    return lambda: jax.block_until_ready(compiled(module)) and None


def best_times(calls: list[Timed]) -> list[float]:
    """The best time of each call in milliseconds; taken in turns, so that a busy machine is unfair to none."""
    best = [float("inf")] * len(calls)
    for _ in range(ROUNDS):
        for index, call in enumerate(calls):
            for _ in range(IN_A_ROW):
                start = time.perf_counter()
                call()
                best[index] = min(best[index], 1e3 * (time.perf_counter() - start))
    return best


def by_dimension() -> None:
    """Engines against d."""
    engines: dict[str, Engine] = {
        "forward": ForwardLaplacian(),
        "by direction": DirectionByDirection(),
        "d backward": BackwardPasses(at_once=False),
        "at once": BackwardPasses(at_once=True),
    }
    print(
        f"Mlp, hidden 30-50-50-20, batch {BATCH}: milliseconds a training gradient; then ratios to forward, and growth"
    )
    columns = [*engines, *(f"{name}/fwd" for name in list(engines)[1:]), "fwd grows", "d grows"]
    print(f"{'d':>5}" + "".join(f"{column:>17}" for column in columns))
    previous = (math.nan, math.nan)
    for d in DIMENSIONS:
        module = Mlp(jax.random.key(0), (d,), 3, (30, 50, 50, 20))
        times = best_times([training_gradient(engine, module, BATCH, (d,)) for engine in engines.values()])
        forward, *others = times
        ratios = [*(other / forward for other in others), forward / previous[0], d / previous[1]]
        print(
            f"{d:>5}" + "".join(f"{value:>17.2f}" for value in times) + "".join(f"{value:>17.1f}" for value in ratios)
        )
        previous = (forward, d)


def by_length() -> None:
    """Window networks against the length of the series."""
    print("\nSeries of order 2, batch 4: milliseconds a training gradient by the forward engine")
    columns = ["additive", "PEN", "additive grows", "PEN grows", "T grows"]
    print(f"{'T':>5}" + "".join(f"{column:>17}" for column in columns))
    previous = (math.nan, math.nan, math.nan)
    for steps in LENGTHS:
        networks: list[Network] = [
            AdditiveMarkov(jax.random.key(0), (steps,), 3, 2, (50, 50, 30)),
            PartiallyExchangeable(jax.random.key(0), (steps,), 3, 2, (50, 50, 30), 20, (50, 50)),
        ]
        additive, pen = best_times(
            [training_gradient(ForwardLaplacian(), network, 4, (steps,)) for network in networks]
        )
        grows = [now / before for now, before in zip((additive, pen, steps), previous, strict=True)]
        print(f"{steps:>5}{additive:>17.2f}{pen:>17.2f}" + "".join(f"{value:>17.1f}" for value in grows))
        previous = (additive, pen, steps)


def batch_call(model: sf.Model, family: sf.ExponentialFamily, objective: Objective, rows: Batch, size: int) -> Timed:
    """A compiled call of a batch's gradient, `size` pairs at a time."""
    parameters, fixed = eqx.partition(family, family.trainable())
    call = eqx.filter_jit(batch_gradient)
    arguments = (jax.random.key(0), objective, parameters, fixed, rows.theta, rows, size)
    return lambda: jax.block_until_ready(call(*arguments)) and None


def in_pieces() -> None:
    """Gradients of a whole batch at once, and in the pieces that `fit` takes."""
    key, sliced = jax.random.key(0), sf.SlicedScoreMatching(weighting="none")
    cases: list[tuple[str, sf.Model, sf.ExponentialFamily, Objective, int]] = [
        ("AR(2), paper", sf.zoo.ar2(), sf.ExponentialFamily.paper(key, "ar2"), sf.ScoreMatching(), 1000),
        ("MA(2), paper", sf.zoo.ma2(), sf.ExponentialFamily.paper(key, "ma2"), sf.ScoreMatching(), 1000),
        ("MA(2), paper, SSM", sf.zoo.ma2(), sf.ExponentialFamily.paper(key, "ma2"), sliced, 1000),
    ]
    for label, model, batch in (
        ("AR(2)", sf.zoo.ar2(), 200),
        ("MA(2)", sf.zoo.ma2(), 200),
        ("Lorenz96 small", sf.zoo.lorenz96("small"), 200),
        ("Gamma", sf.zoo.gamma(), 500),
    ):
        cases.append((label, model, sf.ExponentialFamily.default(key, model), sf.ScoreMatching(), batch))
    print("\nGradients of a batch: milliseconds at once and in pieces")
    print(f"{'networks':>18}{'batch':>7}{'piece':>7}{'at once':>10}{'in pieces':>10}{'ratio':>7}")
    for label, model, family, objective, batch in cases:
        sims = sf.simulate(key, model, batch)
        family = family.with_charts(model, sims.theta, sims.x)
        y = jax.vmap(family.data_chart.forward)(jnp.asarray(sims.x))
        rows = Batch(y, jnp.asarray(sims.theta), jnp.ones(batch))
        size = piece_size(objective, family, rows, batch)
        whole, pieces = best_times([batch_call(model, family, objective, rows, n) for n in (batch, size)])
        print(f"{label:>18}{batch:>7}{size:>7}{whole:>10.1f}{pieces:>10.1f}{whole / pieces:>7.1f}", flush=True)


TABLES = {"dimension": by_dimension, "length": by_length, "pieces": in_pieces}

if __name__ == "__main__":
    for name in sys.argv[1:] or TABLES:
        TABLES[name]()
