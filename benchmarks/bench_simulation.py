"""Simulations a second: each zoo model as `simulate` makes it, against the same simulator looped in numpy.

The loops are the models as one writes them down in plain Python: one simulation at a time, one generator each, a loop
over time steps and, for Lorenz96, over variables. Both sides draw θ from the prior. Best of several repetitions.
"""

import time
from collections.abc import Callable

import jax
import numpy as np

import suffice as sf
from suffice.zoo.lorenz import FORCING, INITIAL_STATE, TIME_STEP

Loop = Callable[[np.random.Generator, np.ndarray], np.ndarray]


def gaussian(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    return rng.normal(theta[0], theta[1], 10)


def gamma(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    return rng.gamma(theta[0], theta[1], 10)


def beta(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    return rng.beta(theta[0], theta[1], 10)


def ar2(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    noise, x = rng.standard_normal(100), np.zeros(100)
    x[0] = noise[0]
    x[1] = noise[1] + theta[0] * x[0]
    for j in range(2, 100):
        x[j] = noise[j] + theta[0] * x[j - 1] + theta[1] * x[j - 2]
    return x


def ma2(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
    noise, x = rng.standard_normal(100), np.zeros(100)
    x[0] = noise[0]
    x[1] = noise[1] + theta[0] * noise[0]
    for j in range(2, 100):
        x[j] = noise[j] + theta[0] * noise[j - 1] + theta[1] * noise[j - 2]
    return x


def lorenz(steps: int, variables: int) -> Loop:
    def drift(y: np.ndarray, e: np.ndarray, b0: float, b1: float) -> np.ndarray:
        out = np.empty(variables)
        for k in range(variables):
            advection = y[k - 1] * (y[k - 2] - y[(k + 1) % variables])
            out[k] = -advection - y[k] + FORCING - (b0 + b1 * y[k] + e[k])
        return out

    def simulate(rng: np.random.Generator, theta: np.ndarray) -> np.ndarray:
        b0, b1, sigma, phi = theta
        y, e, x = np.array(INITIAL_STATE[:variables]), np.zeros(variables), np.empty((steps, variables))
        for t in range(steps):
            e = phi * e + sigma * np.sqrt(1 - phi**2) * rng.standard_normal(variables)
            k1 = drift(y, e, b0, b1)
            k2 = drift(y + TIME_STEP / 2 * k1, e, b0, b1)
            k3 = drift(y + TIME_STEP / 2 * k2, e, b0, b1)
            k4 = drift(y + TIME_STEP * k3, e, b0, b1)
            y = y + TIME_STEP / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
            x[t] = y
        return x

    return simulate


CASES: list[tuple[str, sf.Model, Loop, int, int]] = [  # name, model, loop, simulations by us, by the loop
    ("gaussian", sf.zoo.gaussian(), gaussian, 400_000, 4000),
    ("gamma", sf.zoo.gamma(), gamma, 200_000, 4000),
    ("beta", sf.zoo.beta(), beta, 100_000, 4000),
    ("ar2", sf.zoo.ar2(), ar2, 400_000, 2000),
    ("ma2", sf.zoo.ma2(), ma2, 400_000, 2000),
    ("lorenz96 small", sf.zoo.lorenz96("small"), lorenz(45, 8), 40_000, 40),
    ("lorenz96 large", sf.zoo.lorenz96("large"), lorenz(120, 40), 3000, 4),
]


def rate(run: Callable[[], object], num: int, repetitions: int = 7) -> float:
    """Simulations a second, best of several repetitions."""
    best = np.inf
    for _ in range(repetitions):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return num / best


def main() -> None:
    """Print the table."""
    print(f"{'model':16} {'suffice, 1/s':>14} {'numpy loop, 1/s':>16} {'ratio':>8}")
    for name, model, loop, num, loop_num in CASES:
        key = jax.random.key(0)
        low, high = (np.asarray(bound) for bound in (model.prior.base_dist.low, model.prior.base_dist.high))

        def loop_all(loop: Loop = loop, num: int = loop_num, low: np.ndarray = low, high: np.ndarray = high) -> None:
            for i in range(num):
                rng = np.random.default_rng(i)
                loop(rng, rng.uniform(low, high))

        def ours(model: sf.Model = model, num: int = num, key: jax.Array = key) -> sf.Simulations:
            return sf.simulate(key, model, num, progress=False)

        ours()
        fast, slow = rate(ours, num), rate(loop_all, loop_num)
        print(f"{name:16} {fast:14,.0f} {slow:16,.0f} {fast / slow:8.0f}")


if __name__ == "__main__":
    main()
