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
    """What a piece cost when it was made."""

    seconds: float
    simulations: int


class Cache:
    """A folder of pieces, and the account of those that were asked for.

    Pieces are written whole or not at all, so that a killed run goes on with all that were finished. Their seconds and
    simulations are written beside them: a piece from the cache costs on paper what it cost when it was made.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.account: dict[str, Used] = {}

    def fetch(self, name: str, settings: Settings, make: Callable[[Path], tuple[Any, int]]) -> Any:
        """The piece with these settings, made now if it is not there.

        `make` gets a path where it may leave a checkpoint, and gives the piece, anything that can be saved, and how
        many simulations it took.
        """
        stem = f"{name}-{fingerprint(settings)}"
        path, checkpoint, cost = (self.folder / f"{stem}{end}" for end in (".npz", ".checkpoint", ".json"))
        if path.exists() and cost.exists():
            self.account[stem] = Used(**json.loads(cost.read_text())["cost"])
            return storage.load(path)
        began = time.monotonic()
        piece, simulations = make(checkpoint)
        used = Used(round(time.monotonic() - began, 2), simulations)
        storage.save(piece, path)
        with storage.atomic(cost) as file:
            file.write(json.dumps({"cost": vars(used), "settings": settings}, indent=1, sort_keys=True).encode())
        checkpoint.unlink(missing_ok=True)
        self.account[stem] = used
        return storage.load(path)


def fingerprint(settings: Settings) -> str:
    """A short name of the settings; the same for the same ones only."""
    text = json.dumps([LAYOUT, settings], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]
