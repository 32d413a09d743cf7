"""What experiments share, on disk: each piece is made once and known by its settings."""

import hashlib
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from suffice import storage

LAYOUT = 1  # of the pieces: another number when they come to mean something else
Settings = dict[str, Any]


@storage.artefact
@dataclass(frozen=True, eq=False)
class Record:
    """Numbers and arrays of one piece, with the seconds and simulations it took."""

    arrays: dict[str, np.ndarray]
    values: dict[str, Any] = field(default_factory=dict)

    kind: ClassVar[str] = "experiment"
    version: ClassVar[int] = 1

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See `storage.Artefact`."""
        return self.values, self.arrays

    @classmethod
    def from_archive(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Record":
        """See `storage.Artefact`."""
        return cls(arrays, manifest)


@dataclass(frozen=True)
class Used:
    """What a piece cost when it was made, without the pieces it is made from."""

    seconds: float
    simulations: int


@dataclass
class _Making:
    """A piece in the making: which others it asked for, and the seconds that these took."""

    pieces: list[str] = field(default_factory=list)
    seconds: float = 0.0


class Cache:
    """A folder of pieces, and the account of those that were asked for, directly or by others.

    Pieces are written whole or not at all, so that a killed run goes on with all that were finished. Their seconds and
    simulations are written beside them: a piece from the cache costs on paper what it cost when it was made.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.account: dict[str, Used] = {}
        self._kept: dict[str, Any] = {}
        self._making: list[_Making] = []

    def fetch(
        self, name: str, settings: Settings, make: Callable[[Path], tuple[Any, int]], *, keep: bool = False
    ) -> Any:
        """The piece with these settings, made now if it is not there; `keep`: in memory too.

        `make` gets a path where it may leave a checkpoint, and gives the piece, anything that can be saved, and how
        many simulations it took.
        """
        stem = f"{name}-{fingerprint(settings)}"
        path, cost = self.folder / f"{stem}.npz", self.folder / f"{stem}.json"
        if not (path.exists() and cost.exists()):
            self._make(stem, settings, make)
        if self._making:
            self._making[-1].pieces.append(stem)
        self._enter(stem)
        piece = self._kept[stem] if stem in self._kept else storage.load(path)
        if keep:
            self._kept[stem] = piece
        return piece

    def _make(self, stem: str, settings: Settings, make: Callable[[Path], tuple[Any, int]]) -> None:
        checkpoint, began = self.folder / f"{stem}.checkpoint", time.monotonic()
        self._making.append(_Making())
        try:
            piece, simulations = make(checkpoint)
        finally:
            making = self._making.pop()
        elapsed = time.monotonic() - began
        if self._making:
            self._making[-1].seconds += elapsed
        storage.save(piece, self.folder / f"{stem}.npz")
        used = {"seconds": round(elapsed - making.seconds, 2), "simulations": simulations}
        record = {"cost": used, "pieces": sorted(set(making.pieces)), "settings": settings}
        with storage.atomic(self.folder / f"{stem}.json") as file:
            file.write(json.dumps(record, indent=1, sort_keys=True).encode())
        checkpoint.unlink(missing_ok=True)

    def _enter(self, stem: str) -> None:
        """Put a piece, and those it was made from, into the account."""
        cost = self.folder / f"{stem}.json"
        if stem in self.account or not cost.exists():
            return
        record = json.loads(cost.read_text())
        self.account[stem] = Used(**record["cost"])
        for other in record["pieces"]:
            self._enter(other)


def fingerprint(settings: Settings) -> str:
    """A short name of the settings; the same for the same ones only."""
    text = json.dumps([LAYOUT, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
