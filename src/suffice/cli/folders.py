"""The folder of a run: what was asked for, with which seed and versions, and everything that came of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from suffice import storage
from suffice.checkpoint import fingerprint
from suffice.errors import StorageError
from suffice.fitting import Fit
from suffice.simulation import Simulations

STAGES = ("simulate", "fit", "sample", "check", "calibrate")  # each has a key of its own
SETTINGS = "settings.json"
SEEN = 1000  # simulations whose x is part of their fingerprint; another simulator shows in fewer


@dataclass(frozen=True)
class RunFolder:
    """A folder of results.

    Attributes:
        path: where it is.
        resume: whether what is there may be gone on with.
    """

    path: Path
    resume: bool = False

    @property
    def simulations(self) -> Path:
        """The store of simulations."""
        return self.path / "simulations"

    @property
    def fit(self) -> Path:
        """The fit."""
        return self.path / "fit.npz"

    @property
    def posterior(self) -> Path:
        """The posterior of one observation."""
        return self.path / "posterior.npz"

    def posterior_of(self, row: int) -> Path:
        """The posterior of one of many observations."""
        return self.path / f"posterior-{row}.npz"

    def report(self, posterior: Path) -> Path:
        """The report on a posterior."""
        return self.path / f"{posterior.stem.replace('posterior', 'report')}.html"

    def checkpoint(self, stage: str) -> Path:
        """From which a killed stage goes on; removed when it is done."""
        return self.path / f"{stage}.checkpoint.npz"

    def settings(self) -> dict[str, Any]:
        """What each stage was asked for."""
        path = self.path / SETTINGS
        if not path.exists():
            return {}
        try:
            return json.loads(path.read_text())
        except json.JSONDecodeError as error:
            raise StorageError(f"{path} is damaged ({error}). Take another folder.") from error

    def begin(self, stage: str, asked: Mapping[str, Any], result: Path, kin: str = "") -> bool:
        """Write down what a stage is asked for; whether its result is already there.

        A stage that has left something (`result`, or files that match `kin`) is gone on with only if told to, and only
        with the same settings. One that was refused, or killed before it left anything, is begun anew.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        known = self.settings()
        left = sorted(path.name for path in self.path.glob(kin or result.name)) if stage in known else []
        if left:
            if not self.resume:
                raise StorageError(
                    f"{self.path} already has the stage {stage!r} of a run. Give --resume to go on with it, or another "
                    "folder to begin anew."
                )
            before = {name: value for name, value in known[stage].items() if name != "versions"}
            changed = [name for name in {*before, *asked} if before.get(name) != asked.get(name)]
            if changed:
                words = ", ".join(f"{name}: {before.get(name)!r} → {asked.get(name)!r}" for name in sorted(changed))
                names = ", ".join(left[:3]) + ", …" * (len(left) > 3)
                raise StorageError(
                    f"{self.path} was begun with other settings ({words}). Take another folder, or remove {names} from "
                    "this one to begin the stage anew."
                )
        versions = {name: version(name) for name in ("suffice", "jax", "numpyro")}
        with storage.atomic(self.path / SETTINGS) as file:
            file.write(json.dumps(known | {stage: {**asked, "versions": versions}}, indent=1).encode())
        return result.name in left and not self.checkpoint(stage).exists()

    def need(self, path: Path, command: str) -> Path:
        """`path`, or an error that says which command makes it."""
        if not path.exists():
            raise StorageError(f"{self.path} has no {path.name} yet: run `suffice {command}` first.")
        return path

    def need_posterior(self, row: int | None, command: str) -> Path:
        """The file of the posterior, or of that row's posterior, or an error that says what to do."""
        if row is None and not self.posterior.exists() and self.posterior_of(0).exists():
            raise StorageError(
                f"{self.path} has a posterior for each row of the data, as of `suffice sample --each`, but no "
                f"{self.posterior.name}. Say which row is meant, such as --row 0 for {self.posterior_of(0).name}."
            )
        if row is not None and not self.posterior_of(row).exists() and self.posterior_of(0).exists():
            number = len(list(self.path.glob("posterior-*.npz")))
            raise StorageError(
                f"{self.path} has no {self.posterior_of(row).name}, but posteriors of {number} rows, counted from 0 on."
            )
        return self.need(self.posterior if row is None else self.posterior_of(row), command)

    def require_sampled_from(self, fitted: Fit, posterior: Path) -> None:
        """Raise if `posterior` is of another fit than the one in the folder."""
        known = self.settings().get("sample", {}).get("fit_fingerprint")
        if known is not None and known != _of_fit(fitted):
            raise StorageError(
                f"{posterior} was sampled from another fit than {self.fit} holds by now. Remove it and sample anew."
            )


def stage_key(seed: int, stage: str) -> PRNGKeyArray:
    """The key of a stage: a function of the seed and the stage's name alone."""
    return jax.random.fold_in(jax.random.key(seed), STAGES.index(stage))


def inputs_of_fit(sims: Simulations) -> dict[str, Any]:
    """What tells these simulations from others, for the settings of a stage that is made from them."""
    return {
        "simulations": len(sims),
        "simulations_fingerprint": _short((sims.theta, sims.status, np.asarray(sims.x[:SEEN]))),
    }


def inputs_of_sample(observed: np.ndarray, fitted: Fit) -> dict[str, Any]:
    """The same of data and fit."""
    return {"data_fingerprint": _short(observed), "fit_fingerprint": _of_fit(fitted)}


def _of_fit(fitted: Fit) -> str:
    return _short((fitted.module, fitted.normaliser))  # a fit that was made again with the same numbers is the same


def _short(values: Any) -> str:
    return fingerprint(values)[:16]
