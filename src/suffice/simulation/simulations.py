"""The value: simulated pairs (θ, x), each with its status, and where they came from."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from suffice import storage
from suffice.randomness import key_from_record
from suffice.simulation.lazily import StoredRows

if TYPE_CHECKING:
    from pandas import DataFrame

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
        """The key of the run; None if these rows come from several runs, or from elsewhere."""
        one = len(self.provenance) == 1 and "key" in self.provenance[0]
        return key_from_record(self.provenance[0]["key"]) if one else None

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
    def from_arrays(cls, theta: Any, x: Any, names: Sequence[str] | None = None) -> "Simulations":
        """Pairs that were simulated elsewhere: θ of shape (n, p) and x of shape (n, d), (n, T) or (n, T, K).

        These are the shapes that sbi's `append_simulations(theta, x)` takes; numpy arrays, pandas frames and torch
        tensors on the CPU will do. Rows that are not finite are marked as failed.

        Args:
            theta: parameters, drawn from the prior, one row a simulation.
            x: data, one row a simulation.
            names: the parameters' names, as of the model they are fitted with; if not given, those of the columns of
                a frame, or `theta1`, `theta2`, …

        >>> sims = Simulations.from_arrays([[0.1, 1.0], [0.2, 2.0]], [[1.0, 2.0, 3.0], [np.nan, 5.0, 6.0]], ["a", "b"])
        >>> sims
        Simulations(2 of x(3,), theta(a, b), 1 failed)
        """
        parameters, data = np.asarray(theta, np.float32), np.asarray(x, np.float32)
        if parameters.ndim != 2 or data.ndim not in (2, 3) or len(parameters) != len(data):
            raise ValueError(
                f"theta has shape {parameters.shape} and x {data.shape}, but theta must be (n, p), and x (n, d), "
                "(n, T) or (n, T, K): one row a simulation in each."
            )
        if names is None:
            names = [
                str(name) for name in getattr(theta, "columns", [f"theta{i + 1}" for i in range(len(parameters.T))])
            ]
        if isinstance(names, str) or len(set(names)) != parameters.shape[1] or len(names) != parameters.shape[1]:
            raise ValueError(f"names is {names!r}, but theta has {parameters.shape[1]} columns: give a name for each.")
        finite = np.isfinite(data).reshape(len(data), -1).all(axis=1) & np.isfinite(parameters).all(axis=1)
        status = np.where(finite, Status.GOOD, Status.NOT_FINITE).astype(np.int8)
        return cls(parameters, data, status, tuple(names), ({"source": "arrays", "num": len(data)},))

    def to_pandas(self) -> "DataFrame":
        """A table, one row a simulation: the parameters by name, x1, x2, … (x1_1, … of several series), the status."""
        from pandas import DataFrame

        x = np.asarray(self.x)
        columns = dict(zip(self.names, self.theta.T, strict=True))
        columns |= {f"x{'_'.join(str(i + 1) for i in at)}": x[:, *at] for at in np.ndindex(x.shape[1:])}
        return DataFrame(columns | {"status": [Status(value).name for value in self.status]})

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
