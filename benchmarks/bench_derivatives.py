"""How the score matching loss and its gradient in the weights scale, by engine, as ratios taken in one run.

Aims: the forward Laplacian grows at most linearly in d and beats d backward passes 10 times at d = 100; additive
statistics grow linearly in the length of the series.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from suffice.family.statistics import AdditiveMarkov, Mlp, PartiallyExchangeable
from suffice.matching import DirectionByDirection, Engine, ForwardLaplacian, ScoreAndCurvature
from suffice.matching.derivatives import Network

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


if __name__ == "__main__":
    by_dimension()
    by_length()
