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

    Args:
        folder: of all pieces.
        lasting: another folder, of the pieces that are small and took long, and of what all others cost. It is meant to
            outlive the cache and the machine: from it, and without the rest, tables can be made again.
    """

    def __init__(self, folder: str | os.PathLike[str], lasting: str | os.PathLike[str] | None = None) -> None:
        self.folder = Path(folder)
        self.lasting = None if lasting is None else Path(lasting)
        for each in self._folders:
            each.mkdir(parents=True, exist_ok=True)
        self.account: dict[str, Used] = {}
        self._kept: dict[str, Any] = {}
        self._making: list[_Making] = []

    @property
    def _folders(self) -> tuple[Path, ...]:
        return (self.folder,) if self.lasting is None else (self.folder, self.lasting)

    def fetch(
        self,
        name: str,
        settings: Settings,
        make: Callable[[Path], tuple[Any, int]],
        *,
        keep: bool = False,
        lasts: bool = False,
    ) -> Any:
        """The piece with these settings, made now if it is not there.

        `make` gets a path where it may leave a checkpoint, and gives the piece, anything that can be saved, and how
        many simulations it took. `keep`: in memory too; `lasts`: in the lasting folder, if there is one.
        """
        stem = f"{name}-{fingerprint(settings)}"
        path = self._path(stem)
        if path is None:
            path = self._make(stem, settings, make, self._folders[-1] if lasts else self.folder)
        if self._making:
            self._making[-1].pieces.append(stem)
        self._enter(stem)
        piece = self._kept[stem] if stem in self._kept else storage.load(path)
        if keep:
            self._kept[stem] = piece
        return piece

    def cost(self, name: str, settings: Settings) -> Used:
        """What a piece that was asked for, directly or by another, cost when it was made."""
        return self.account[f"{name}-{fingerprint(settings)}"]

    def _path(self, stem: str) -> Path | None:
        """Where the piece is, if it was finished."""
        found = [folder / f"{stem}.npz" for folder in self._folders if (folder / f"{stem}.json").exists()]
        return next((path for path in found if path.exists()), None)

    def _make(self, stem: str, settings: Settings, make: Callable[[Path], tuple[Any, int]], folder: Path) -> Path:
        checkpoint, began = self.folder / f"{stem}.checkpoint", time.monotonic()
        self._making.append(_Making())
        try:
            piece, simulations = make(checkpoint)
        finally:
            making = self._making.pop()
        elapsed = time.monotonic() - began
        if self._making:
            self._making[-1].seconds += elapsed
        storage.save(piece, folder / f"{stem}.npz")
        used = {"seconds": round(elapsed - making.seconds, 2), "simulations": simulations}
        record = {"cost": used, "pieces": sorted(set(making.pieces)), "settings": settings}
        for each in self._folders:
            with storage.atomic(each / f"{stem}.json") as file:
                file.write(json.dumps(record, indent=1, sort_keys=True).encode())
        checkpoint.unlink(missing_ok=True)
        return folder / f"{stem}.npz"

    def _enter(self, stem: str) -> None:
        """Put a piece, and those it was made from, into the account."""
        costs = [path for folder in self._folders if (path := folder / f"{stem}.json").exists()]
        if stem in self.account or not costs:
            return
        record = json.loads(costs[0].read_text())
        self.account[stem] = Used(**record["cost"])
        for other in record["pieces"]:
            self._enter(other)


def fingerprint(settings: Settings) -> str:
    """A short name of the settings; the same for the same ones only."""
    text = json.dumps([LAYOUT, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
