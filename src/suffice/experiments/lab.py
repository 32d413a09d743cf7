"""The lab: simulations, fits, posteriors and their distances to exact ones, each made once and shared by all items."""

import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from suffice import zoo
from suffice.diagnostics import wasserstein
from suffice.errors import SamplingWarning, SimulationWarning, TrainingWarning
from suffice.experiments.cache import Cache, Record, Settings
from suffice.experiments.methods import FIRST, FIT_OF, ONE_CHAIN, SEQUENTIAL, method_of, model_of
from suffice.experiments.scales import LORENZ, SERIES, Scale
from suffice.family import ExponentialFamily
from suffice.family.regression import Regression
from suffice.family.statistics import Innovations
from suffice.fitting import Fit, Training, fit
from suffice.fitting.run import default_training
from suffice.matching import PosteriorMean, ScoreMatching, SlicedScoreMatching
from suffice.matching.objectives import Objective
from suffice.posterior import Posterior
from suffice.progress import bar
from suffice.sampling import sample_each
from suffice.simulation import Simulations, simulate

PAPER_KINDS: tuple[Literal["SM", "SSM", "FP"], ...] = ("SM", "SSM", "FP")


@dataclass(frozen=True, eq=False)
class Sampled:
    """Posteriors of the first observations of a model by one method.

    Attributes:
        posteriors: one for each observation.
        histories: draws, weights (or None) by iteration, one for each observation, where the method has them.
        iterations: which iterations those are, counted from 1.
        simulations: spent up to each of them.
        doubtful: how many come with a warning.
    """

    posteriors: list[Posterior]
    histories: list[list[Posterior]]
    iterations: Int[np.ndarray, " t"]
    simulations: Int[np.ndarray, " t"]
    doubtful: int


class Lab:
    """Pieces of experiments at one scale, from a cache.

    Args:
        scale: sizes.
        cache: where pieces are kept.
        seed: decides everything.
        results: the folder of tables made so far at this scale, for items that read those of others.
        progress: whether to show bars.
    """

    def __init__(
        self, scale: Scale, cache: Cache, *, seed: int = 0, results: Path | None = None, progress: bool = True
    ) -> None:
        self.scale, self.cache, self.seed, self.results, self.progress = scale, cache, seed, results, progress

    def key(self, *words: object) -> PRNGKeyArray:
        """The key of a purpose."""
        purpose = zlib.crc32("/".join(map(str, words)).encode())
        return jax.random.fold_in(jax.random.key(self.seed), purpose)

    def simulations(self, name: str, seed: int = 0) -> Simulations:
        """Training pairs and held-out pairs."""
        return simulate(
            self.key("simulations", name, seed), model_of(name), self.scale.simulations, progress=self.progress
        )

    def observations(self, name: str) -> Simulations:
        """The observations of a model, with the parameters they come from."""
        number = self.scale.observations_of(name, "")
        return simulate(self.key("observations", name), model_of(name), number, progress=False)

    def fit(self, name: str, kind: str, seed: int = 0) -> Fit:
        """The paper's fit by "SM", "SSM" or "FP"; "ours"; "ours-SM" and "ours-SSM" with p statistics."""
        training = self.training(name, kind)
        settings = self.fit_settings(name, kind, seed) | {"training": asdict(training)}

        def make(checkpoint: Path) -> tuple[Fit, int]:
            sims, key = self.simulations(name, seed), self.key("fit", name, kind, seed)
            with quiet():
                made = fit(
                    jax.random.fold_in(key, 1),
                    model_of(name),
                    sims,
                    objective_of(name, kind),
                    family=_family(key, name, kind),
                    training=training,
                    checkpoint=checkpoint,
                    progress=self.progress,
                )
            return made, len(sims)

        return self.cache.fetch(f"fit-{name}-{kind}", settings, make, keep=True, lasts=name in SERIES + LORENZ)

    def fit_settings(self, name: str, kind: str, seed: int = 0) -> Settings:
        """What tells one fit from another."""
        settings = {"model": name, "kind": kind, "simulations": self.scale.simulations, "seed": [self.seed, seed]}
        return settings | {"epochs": self.scale.epochs_of(name)}

    def training(self, name: str, kind: str) -> Training:
        """The settings of that fit's training, cut to the scale's number of epochs where an epoch takes long."""
        objective: Any = kind
        paper = kind in PAPER_KINDS
        training = (
            Training.paper(name, objective) if paper else default_training(model_of(name), objective_of(name, kind))
        )
        if by_innovations(name, kind):  # only a small network is trained, on few moments
            return replace(training, epochs=200, batch_size=200, learning_rate=1e-2)
        most = self.scale.epochs_of(name)
        if most is None or most >= training.epochs:
            return training
        return replace(
            training,
            epochs=most,
            check_every=min(training.check_every, most),
            first_check=min(training.first_check, most),
        )

    def exact(self, name: str, number: int) -> Record:
        """Draws, means and standard deviations of the exact posteriors of the first observations."""
        draws = self.scale.transport_draws
        settings = {"model": name, "number": number, "draws": draws, "seed": self.seed}

        def make(_: Path) -> tuple[Record, int]:
            model, rows = model_of(name), self.observations(name).x[:number]
            with bar(len(rows), f"exact posteriors, {name}", show=self.progress) as advance:
                found = []
                for i, row in enumerate(rows):
                    grid = zoo.exact_posterior(model, row)
                    key = jax.random.fold_in(self.key("exact", name), i)
                    found.append((grid.resample(key, draws).flat, grid.mean, grid.sd))
                    advance(1)
            names = ("draws", "mean", "sd")
            return Record({k: np.stack(v) for k, v in zip(names, zip(*found, strict=True), strict=True)}), 0

        return self.cache.fetch(f"exact-{name}", settings, make)

    def sampled(self, name: str, label: str, inner_steps: int | None = None) -> Sampled:
        """Posteriors of this method, in blocks of observations that are cached one by one."""
        blocks = self._blocks(name, label)
        return _unpacked([self._block(name, label, inner_steps, *block) for block in blocks])

    def first_posterior(self, name: str, label: str) -> Posterior:
        """That of the first observation; of the others, only those of its block are made."""
        return _unpacked([self._block(name, label, None, *self._blocks(name, label)[0])]).posteriors[0]

    def _blocks(self, name: str, label: str) -> list[tuple[int, int]]:
        """The first observation of each block, and how many it has."""
        number, block = self.scale.observations_of(name, label), self.scale.block
        return [(first, min(block, number - first)) for first in range(0, number, block)]

    def _piece(self, name: str, label: str, inner_steps: int | None, first: int, number: int) -> tuple[str, Settings]:
        """The name of a block of observations in the cache, and its settings."""
        steps = "" if inner_steps is None else f"-{inner_steps}"
        settings = self.method_settings(name, label, inner_steps) | {"first": first, "number": number}
        return f"{name}-{label}{steps}-{first}", settings

    def _block(self, name: str, label: str, inner_steps: int | None, first: int, number: int) -> Record:

        def make(_: Path) -> tuple[Record, int]:
            fitted = self.fit(name, FIT_OF[label]) if label in FIT_OF else None
            method, run = method_of(self.scale, name, label, fitted, inner_steps)
            rows = self.observations(name).x[first : first + number]
            key = jax.random.fold_in(self.key("sample", name, label), first)
            with quiet():
                found = sample_each(key, method, rows, progress=self.progress, **run)
            record = _packed(found, self.scale.measured if label.startswith("ABC") else None)
            return record, int(sum(post.info.get("simulations", 0) for post in found))

        piece, settings = self._piece(name, label, inner_steps, first, number)
        return self.cache.fetch(f"posteriors-{piece}", settings, make)

    def method_settings(self, name: str, label: str, inner_steps: int | None) -> Settings:
        """What tells the posteriors of one method from another's."""
        scale, words = self.scale, {"model": name, "method": label, "inner steps": inner_steps}
        sizes: Settings = {"block": scale.block, "seed": self.seed}
        if label.startswith("Exc"):
            sizes |= {"exchange": scale.exchange, "chosen": scale.chosen_inner, "chains": scale.chains}
            sizes |= {"lorenz": scale.lorenz_exchange[1:]} if name.startswith("lorenz") else {}
        elif label.startswith("Direct"):
            sizes |= {"chains": scale.chains}
        elif label.startswith("ABC"):
            sizes |= {"particles": scale.particles, "measured": scale.measured}
        else:
            sizes |= {"surrogate": scale.surrogate, "each": scale.synthetic if label == "PMC-SL" else scale.ratio}
        fitted = self.fit_settings(name, FIT_OF[label]) if label in FIT_OF else None
        return words | sizes | {"fit": fitted}

    def measured(self, name: str, label: str, inner_steps: int | None = None) -> Record:
        """W₂ to the exact posterior, error of the mean, ratio of sd; effective draws, W₂ by iteration."""
        blocks = self._blocks(name, label)
        parts = [self._measured_block(name, label, inner_steps, *block) for block in blocks]
        once = ("iterations", "simulations")  # the same for all observations
        arrays = {
            measure: first if measure in once else np.concatenate([part.arrays[measure] for part in parts])
            for measure, first in parts[0].arrays.items()
        }
        pieces = [self._piece(name, label, inner_steps, *block) for block in blocks]
        seconds = sum(self.cache.cost(f"posteriors-{piece}", settings).seconds for piece, settings in pieces)
        return Record(arrays, {"seconds": seconds, "doubtful": sum(part.values["doubtful"] for part in parts)})

    def _measured_block(self, name: str, label: str, inner_steps: int | None, first: int, number: int) -> Record:
        draws = self.scale.transport_draws
        piece, settings = self._piece(name, label, inner_steps, first, number)

        def make(_: Path) -> tuple[Record, int]:
            sampled = _unpacked([self._block(name, label, inner_steps, first, number)])
            exact = self.exact(name, self.scale.observations).arrays
            distances, errors, ratios, curves = [], [], [], []
            with bar(number, f"measuring {label}, {name}", show=self.progress) as advance:
                for i, post in enumerate(sampled.posteriors):
                    reference = exact["draws"][first + i]
                    distances.append(wasserstein(post.thinned(draws), reference))
                    errors.append(float(np.linalg.norm(post.mean - exact["mean"][first + i])))
                    ratios.append(post.sd / exact["sd"][first + i])
                    if label in (*SEQUENTIAL, FIRST):
                        curves.append([wasserstein(step.thinned(draws), reference) for step in sampled.histories[i]])
                    advance(1)
            arrays = {"W2": np.array(distances), "mean error": np.array(errors), "sd ratio": np.stack(ratios)}
            if label in ONE_CHAIN:
                arrays["ESS"] = np.array([post.convergence.ess_bulk.min() for post in sampled.posteriors])
            if curves:
                arrays |= {"curve": np.array(curves), "iterations": sampled.iterations}
                arrays |= {"simulations": sampled.simulations}
            return Record(arrays, {"doubtful": sampled.doubtful}), 0

        return self.cache.fetch(f"measured-{piece}", settings | {"draws": draws}, make, lasts=True)


def objective_of(name: str, kind: str) -> Objective:
    """The objective of a fit: unweighted as in the paper, or our own."""
    if kind == "FP" or by_innovations(name, kind):
        return PosteriorMean()
    weighting: Any = "none" if kind in PAPER_KINDS else "auto"
    sliced = kind in ("SSM", "ours-SSM")
    return SlicedScoreMatching(weighting=weighting) if sliced else ScoreMatching(weighting=weighting)


def by_innovations(name: str, kind: str) -> bool:
    """Whether this fit is a regression on innovations; ours of Lorenz96 large is: score matching does not learn it."""
    return kind == "innovations" or (kind == "ours" and name == "lorenz96-large")


def _family(key: PRNGKeyArray, name: str, kind: str) -> ExponentialFamily | Regression | None:
    model = model_of(name)
    if kind == "FP":
        return Regression.paper(key, name)
    if kind in PAPER_KINDS:
        return ExponentialFamily.paper(key, name)
    if by_innovations(name, kind):
        return Regression.assemble(model, Innovations(key, model.data_shape, 4, order=1, neighbours=(2, 1)))
    if kind == "ours":
        return None
    return ExponentialFamily.default(key, model, num_statistics=model.num_parameters)


def _packed(found: list[Posterior], kept: tuple[int, ...] | None) -> Record:
    """Posteriors of a block as one record, with those iterations of their histories (all if not told)."""
    arrays: dict[str, np.ndarray] = {"draws": np.stack([post.flat for post in found]).astype(np.float32)}
    if found[0].weights is not None:
        arrays["weights"] = np.stack([post.flat_weights for post in found])
    info = found[0].info
    if "history_theta" in info:
        rows = np.arange(len(info["history_theta"])) if kept is None else np.array(kept) - 1
        arrays["iterations"] = rows + 1
        arrays["history_simulations"] = np.asarray(info["history_simulations"])[rows]
        arrays["history"] = np.stack([post.info["history_theta"][rows] for post in found]).astype(np.float32)
        if info.get("history_weights") is not None:
            arrays["history_weights"] = np.stack([post.info["history_weights"][rows] for post in found])
    doubtful = sum(bool(post.info.get("doubts")) for post in found)
    return Record(arrays, {"names": list(found[0].names), "doubtful": doubtful})


def _unpacked(parts: list[Record]) -> Sampled:
    """The posteriors of these blocks again."""
    posteriors, histories = [], []
    for part in parts:
        arrays, names = part.arrays, tuple(part.values["names"])
        for i in range(len(arrays["draws"])):
            weights = arrays["weights"][i][None] if "weights" in arrays else None
            posteriors.append(Posterior(arrays["draws"][i][None], names, weights))
            histories.append(_history(arrays, i, names))
    first, none = parts[0].arrays, np.empty(0, int)
    return Sampled(
        posteriors,
        histories,
        first.get("iterations", none),
        first.get("history_simulations", none),
        int(sum(part.values["doubtful"] for part in parts)),
    )


def _history(arrays: dict[str, np.ndarray], row: int, names: tuple[str, ...]) -> list[Posterior]:
    if "history" not in arrays:
        return []
    weights = arrays["history_weights"][row] if "history_weights" in arrays else None
    theta: Float[np.ndarray, "t n p"] = arrays["history"][row]
    return [Posterior(theta[t][None], names, None if weights is None else weights[t][None]) for t in range(len(theta))]


@contextmanager
def quiet() -> Iterator[None]:
    """Without warnings that tables count or scales explain."""
    with warnings.catch_warnings():
        for category in (SamplingWarning, SimulationWarning, TrainingWarning):
            warnings.simplefilter("ignore", category)
        yield
