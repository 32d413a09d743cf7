"""Simulators that are no JAX code, for tests: numpy only, so that worker processes start fast."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np


def normal(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    return rng.normal(theta["mean"], theta["sd"], 4)


def slow(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    time.sleep(0.005)
    return normal(theta, rng)


def troubled(theta: dict[str, float], rng: np.random.Generator) -> Any:
    """Fails in every way there is, by the value of the mean in tenths."""
    print("something that must not disturb the protocol")
    tenth = int(10 * theta["mean"])
    if tenth == 0:
        os._exit(0)
    if tenth == 1:
        os.kill(os.getpid(), signal.SIGSEGV)
    if tenth == 2:
        time.sleep(1000)
    if tenth == 3:
        raise ArithmeticError("the solver did not converge")
    if tenth == 4:
        return np.full(4, np.nan)
    if tenth == 5:
        return np.zeros(5)
    if tenth == 6:
        raise SystemExit
    if tenth == 7:
        return "text"
    return normal(theta, rng)


class FailsFirst:
    """Fails at the first call for each seed, as a busy licence server would; remembers in files of a folder."""

    def __init__(self, folder: str, how: str) -> None:
        self.folder, self.how = folder, how

    def __call__(self, theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
        mark = Path(self.folder) / f"{theta['mean']!r}"
        if not mark.exists():
            mark.touch()
            if self.how == "crash":
                os._exit(3)
            raise OSError("busy")
        return normal(theta, rng)


def seldom(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    """Fails where the mean is large."""
    if theta["mean"] > 0.8:
        raise ArithmeticError("the solver did not converge")
    return normal(theta, rng)


def now_and_then(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    """Fails wherever θ is."""
    if rng.uniform() < 0.2:
        raise ArithmeticError("bad luck")
    return normal(theta, rng)


def quick(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    time.sleep(0.001)
    return normal(theta, rng)


def endless(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    if theta["mean"] > 0.5:
        time.sleep(10_000)
    return normal(theta, rng)


def unseeded(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    return theta["mean"] + np.random.default_rng().normal(size=4)


def deterministic(theta: dict[str, float], rng: np.random.Generator) -> np.ndarray:
    return np.arange(4.0) * theta["mean"]
