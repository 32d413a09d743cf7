"""The value: simulated pairs (θ, x), each with its status, and where they came from."""

import os
from dataclasses import dataclass, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from suffice import storage
from suffice.randomness import key_from_record


class Status(IntEnum):
    """What became of one simulation."""

    GOOD = 0
    NOT_FINITE = 1
    OUTSIDE_SUPPORT = 2


@storage.artefact
@dataclass(frozen=True, eq=False)
class Simulations:
    """Pairs (θ, x) drawn from prior and model; failed ones are kept and marked.

    Attributes:
        theta: parameters, one row a simulation.
        x: data, one row a simulation.
        status: a `Status` for each row.
        names: the parameters' names.
        provenance: one record for each run these rows came from: key, number, versions.
    """

    theta: Float[np.ndarray, "n p"]
    x: Float[np.ndarray, "n ..."]
    status: Int[np.ndarray, " n"]
    names: tuple[str, ...]
    provenance: tuple[dict[str, Any], ...]

    kind: ClassVar[str] = "simulations"
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if not len(self.theta) == len(self.x) == len(self.status):
            raise ValueError(
                f"theta has {len(self.theta)} rows, x {len(self.x)} and status {len(self.status)}: "
                "give one row a simulation in each."
            )

    def __len__(self) -> int:
        return len(self.theta)

    def __getitem__(self, rows: slice | np.ndarray) -> "Simulations":
        return replace(self, theta=self.theta[rows], x=self.x[rows], status=self.status[rows])

    def __repr__(self) -> str:
        failed = len(self) - self.num_good
        return f"Simulations({len(self)} of x{self.x.shape[1:]}, theta({', '.join(self.names)}), {failed} failed)"

    @property
    def num_good(self) -> int:
        """How many simulations can be used."""
        return int(np.sum(self.status == Status.GOOD))

    @property
    def good(self) -> "Simulations":
        """The simulations that can be used."""
        return self if self.num_good == len(self) else self[self.status == Status.GOOD]

    @property
    def key(self) -> PRNGKeyArray | None:
        """The key of the run; None if these rows come from several runs."""
        return key_from_record(self.provenance[0]["key"]) if len(self.provenance) == 1 else None

    def split(self, first: int | float) -> tuple["Simulations", "Simulations"]:
        """The first `first` simulations (a number, or a fraction below 1) and the rest. Rows are iid: no shuffling."""
        number = round(first * len(self)) if isinstance(first, float) else first
        if not 0 < number < len(self):
            raise ValueError(
                f"split({first}) of {len(self)} simulations leaves one side empty: give a number between 1 and "
                f"{len(self) - 1}, or a fraction between 0 and 1."
            )
        return self[:number], self[number:]

    def concatenate(self, *others: "Simulations") -> "Simulations":
        """These simulations and the others, in one value."""
        parts = (self, *others)
        for other in others:
            if other.names != self.names or other.x.shape[1:] != self.x.shape[1:]:
                raise ValueError(
                    f"Cannot join simulations of x{other.x.shape[1:]} and parameters {other.names} to simulations of "
                    f"x{self.x.shape[1:]} and parameters {self.names}: they come from different models."
                )
        theta = np.concatenate([part.theta for part in parts])
        repeated = len(theta) - len(np.unique(theta, axis=0))
        if repeated:
            raise ValueError(
                f"{repeated} of the simulations to be joined occur twice: they were made with the same key. "
                "Simulate each part with a key of its own."
            )
        records = [record for part in parts for record in part.provenance]
        unique = [record for i, record in enumerate(records) if record not in records[:i]]
        return replace(
            self,
            theta=theta,
            x=np.concatenate([part.x for part in parts]),
            status=np.concatenate([part.status for part in parts]),
            provenance=tuple(unique),
        )

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to one file; `suffice.load` reads it."""
        return storage.save(self, path)

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See `storage.Artefact`."""
        manifest = {"names": list(self.names), "provenance": list(self.provenance)}
        return manifest, {"theta": self.theta, "x": self.x, "status": self.status}

    @classmethod
    def from_archive(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Simulations":
        """See `storage.Artefact`."""
        return cls(**arrays, names=tuple(manifest["names"]), provenance=tuple(manifest["provenance"]))
