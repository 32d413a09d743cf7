"""The value: simulated pairs (θ, x), each with its status, and where they came from."""

import os
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from suffice import storage
from suffice.randomness import key_from_record
from suffice.simulation.lazily import StoredRows

TEXT = np.dtypes.StringDType()


class Status(IntEnum):
    """What became of one simulation. All but GOOD are failures; NOT_MADE occurs in unfinished stores only."""

    NOT_MADE = -1
    GOOD = 0
    NOT_FINITE = 1
    OUTSIDE_SUPPORT = 2
    WRONG_SHAPE = 3
    FAILED = 4  # the simulator raised an error, or its command ended with another code than 0
    CRASHED = 5  # its process was lost
    TIMED_OUT = 6


@storage.artefact
@dataclass(frozen=True, eq=False)
class Simulations:
    """Pairs (θ, x) drawn from prior and model; failed ones are kept and marked.

    Attributes:
        theta: parameters, one row a simulation.
        x: data, one row a simulation: a numpy array, or `StoredRows` of a store too large for memory.
        status: a `Status` for each row.
        names: the parameters' names.
        provenance: one record for each run these rows came from: key, number, versions.
        errors: the reason of each failure, in words, where there is one; empty elsewhere.
    """

    theta: Float[np.ndarray, "n p"]
    x: Any
    status: Int[np.ndarray, " n"]
    names: tuple[str, ...]
    provenance: tuple[dict[str, Any], ...]
    errors: np.ndarray = field(default_factory=lambda: np.empty(0, TEXT))

    kind: ClassVar[str] = "simulations"
    version: ClassVar[int] = 2

    def __post_init__(self) -> None:
        if not len(self.errors):
            object.__setattr__(self, "errors", np.broadcast_to(np.zeros(1, TEXT), len(self.theta)))
        if not len(self.theta) == len(self.x) == len(self.status):
            raise ValueError(
                f"theta has {len(self.theta)} rows, x {len(self.x)} and status {len(self.status)}: "
                "give one row a simulation in each."
            )

    def __len__(self) -> int:
        return len(self.theta)

    def __getitem__(self, rows: slice | np.ndarray) -> "Simulations":
        x = self.x.rows(rows) if isinstance(self.x, StoredRows) else self.x[rows]
        return replace(self, theta=self.theta[rows], x=x, status=self.status[rows], errors=self.errors[rows])

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
            x=np.concatenate([np.asarray(part.x) for part in parts]),
            status=np.concatenate([part.status for part in parts]),
            errors=np.concatenate([part.errors for part in parts]),
            provenance=tuple(unique),
        )

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, memory: int = 2**28) -> "Simulations":
        """The simulations in the store at `path`, finished or not; `suffice.load` does the same.

        x is held in memory if it has up to `memory` bytes; otherwise it stays on disk and is read as it is needed.
        """
        from suffice.simulation.store import Store

        return Store.open(path).simulations(memory=memory)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write to one file; `suffice.load` reads it."""
        return storage.save(self, path)

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See `storage.Artefact`."""
        manifest = {"names": list(self.names), "provenance": list(self.provenance)}
        said = np.flatnonzero(self.errors != "")
        arrays = {"theta": self.theta, "x": np.asarray(self.x), "status": self.status}
        return manifest, arrays | {"error_rows": said, "error_texts": np.array(self.errors[said].tolist(), np.str_)}

    @classmethod
    def from_archive(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Simulations":
        """See `storage.Artefact`."""
        parts = {name: arrays[name] for name in ("theta", "x", "status")}
        errors = np.zeros(len(parts["theta"]), TEXT)
        if "error_rows" in arrays:  # not in files of layout 1
            errors[arrays["error_rows"]] = arrays["error_texts"].astype(TEXT)
        return cls(**parts, names=tuple(manifest["names"]), provenance=tuple(manifest["provenance"]), errors=errors)
