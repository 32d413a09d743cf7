"""The store: simulations on disk as a Zarr 3 group, written chunk by chunk, safe against being killed at any moment.

Arrays `theta`, `x`, `seed`, `seconds`, `error` and `status`, one row a simulation, all cut into the same chunks. Zarr
writes each chunk of an array to a file of its own, under another name first. `status` is written last, when the others
are on the disk (see `durable`), and a chunk counts as finished when its status does not say NOT_MADE: what was half
written before a kill or a loss of power is written again. Checksums (crc32c) tell damaged chunks.
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import Crc32cCodec

from suffice import storage
from suffice.errors import StorageError
from suffice.simulation.dispatch import Made
from suffice.simulation.durable import DurableStore
from suffice.simulation.lazily import StoredRows
from suffice.simulation.simulations import TEXT, Simulations, Status

VERSION = 1
ARRAYS = ("theta", "x", "seed", "seconds", "error", "status")  # status last: it finishes a chunk
CHUNK_BYTES = 2**22  # of x in one chunk, at most
CHUNK_SECONDS = 5.0  # of simulating that a kill may cost, about
MEMORY = 2**28  # bytes of x that are read at once when a store is opened


class Store:
    """An open store. `first` is the number in the whole run of its first row: not 0 for later shards."""

    def __init__(self, path: Path, group: Any) -> None:
        self.path = path
        self.record: dict[str, Any] = dict(group.attrs)
        self.first = int(self.record["first"])
        with _damage_named(path):
            self.arrays = {name: group[name] for name in ARRAYS}
            self.status = np.asarray(self.arrays["status"][:])
        self.group = group
        self.chunk = int(self.arrays["status"].chunks[0])
        self._parts: dict[int, _Part] = {}

    def __len__(self) -> int:
        return len(self.status)

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, write: bool = False) -> "Store":
        """The store at `path`, if it is one, and of a version that is known."""
        path = Path(path)
        try:
            group = zarr.open_group(DurableStore(path), mode="r+") if write else zarr.open_group(path, mode="r")
            record = dict(group.attrs)
        except (OSError, ValueError, KeyError) as error:
            raise StorageError(f"There is no store of simulations at {path} ({error}).") from error
        if record.get("suffice") != "simulations":
            raise StorageError(f"{path} is a Zarr group, but not one of suffice's simulations. Give another path.")
        if record["version"] > VERSION:
            raise StorageError(
                f"{path} was written by a newer suffice (store layout {record['version']}; this one knows up to "
                f"{VERSION}). Update suffice."
            )
        return cls(path, group)

    @classmethod
    def create(cls, path: Path, record: dict[str, Any], rows: int, like: Made, chunk: int) -> "Store":
        """A new store for `rows` simulations such as those of `like`; it appears whole or not at all."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        group = zarr.create_group(DurableStore(temporary), overwrite=True, attributes=record)
        columns = {
            "theta": (like.theta.shape[1:], like.theta.dtype, np.nan),
            "x": (like.x.shape[1:], like.x.dtype, np.nan),
            "seed": ((), np.uint64, 0),
            "seconds": ((), np.float32, np.nan),
            "error": ((), str, ""),
            "status": ((), np.int8, int(Status.NOT_MADE)),
        }
        for name, (shape, dtype, fill) in columns.items():
            group.create_array(
                name,
                shape=(rows, *shape),
                chunks=(chunk, *shape),
                dtype=dtype,
                fill_value=fill,
                compressors=[Crc32cCodec()],
            )
        os.rename(temporary, path)
        storage.flush_folder(path.absolute().parent)
        return cls.open(path, write=True)

    def grow(self, rows: int) -> None:
        """Make room for more simulations."""
        if rows > len(self):
            for name in ARRAYS:
                array = self.arrays[name]
                if array.shape[0] < rows:
                    array.resize((rows, *array.shape[1:]))
            self.status = np.pad(self.status, (0, rows - len(self)), constant_values=int(Status.NOT_MADE))

    def missing(self, rows: int) -> list[range]:
        """The simulations, by their number in the whole run, that are not made yet among the first `rows` rows."""
        absent = (self.status[:rows] == Status.NOT_MADE).astype(np.int8)
        borders = np.flatnonzero(np.diff(absent, prepend=0, append=0)) + self.first
        return [range(int(start), int(stop)) for start, stop in zip(borders[::2], borders[1::2], strict=True)]

    def put(self, rows: range, made: Made, seed: np.ndarray, until: int) -> int:
        """Take simulations; write the chunks, of the first `until` rows, that they complete. How many were written."""
        columns = _columns(made, seed)
        written = 0
        start = rows.start - self.first
        for number in range(start // self.chunk, (rows.stop - self.first - 1) // self.chunk + 1):
            border = range(number * self.chunk, min((number + 1) * self.chunk, until))
            if number not in self._parts:
                self._parts[number] = _Part(columns, self.status[border.start : border.stop])
            part = self._parts[number]
            low, high = max(start, border.start), min(start + len(rows), border.stop)
            taken = {name: values[low - start : high - start] for name, values in columns.items()}
            if part.fill(slice(low - border.start, high - border.start), taken):
                self._write(border, self._parts.pop(number))
                written += len(border)
        return written

    def _write(self, border: range, part: "_Part") -> None:
        fresh = np.flatnonzero(part.fresh)  # rows that were there already come before them
        rows = slice(border.start + int(fresh[0]), border.stop)

        def write(name: str) -> None:
            self.arrays[name][rows] = part.columns[name][fresh[0] :]

        *others, last = ARRAYS
        try:
            with ThreadPoolExecutor(len(others)) as pool:  # the disk flushes all of them in the time of one
                list(pool.map(write, others))
            write(last)
        except OSError as error:
            done = int(np.sum(self.status != Status.NOT_MADE))
            raise StorageError(
                f"Writing to {self.path} failed ({error.strerror or error}). Its {done} finished simulations are "
                "safe. Make room, or mend what is wrong, and call again with the same store: it goes on from there."
            ) from error
        self.status[rows] = part.columns["status"][fresh[0] :]

    def column(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows of one array, checked for damage."""
        with _damage_named(self.path, name, start, stop, self.chunk):
            return np.asarray(self.arrays[name][start:stop])

    def simulations(self, rows: int | None = None, memory: int = MEMORY) -> Simulations:
        """The simulations made among the first `rows`; x is read only when it is used if it has over `memory` bytes."""
        rows = len(self) if rows is None else rows
        index = np.flatnonzero(self.status[:rows] != Status.NOT_MADE)
        x = self.arrays["x"]
        stored = StoredRows(self._x, index, x.shape[1:], x.dtype, self.chunk, str(self.path))
        theta = self.column("theta", 0, rows)[index]
        self._require_finite("theta", theta, 0)
        names = ("key", "versions") if self.record["shard"] is None else ("key", "versions", "shard")
        number = rows if self.record["shard"] is None else self.record["num"]
        return Simulations(
            theta,
            np.asarray(stored) if stored.nbytes <= memory else stored,
            self.status[index],
            tuple(self.record["names"]),
            ({name: self.record[name] for name in names} | {"num": number},),
            self.column("error", 0, rows).astype(TEXT)[index],
        )

    def _x(self, start: int, stop: int) -> np.ndarray:
        values = self.column("x", start, stop)
        self._require_finite("x", values[self.status[start:stop] == Status.GOOD], start)
        return values

    def _require_finite(self, name: str, values: np.ndarray, start: int) -> None:
        # Zarr reads a file that is not there as the fill value, which no finished simulation has.
        if np.isnan(values).any():
            raise StorageError(f"{self.path} lacks some of its {name}, from row {start} on: {_remedy(self.path)}")


class _Part:
    """A chunk in the making."""

    def __init__(self, like: dict[str, np.ndarray], status: np.ndarray) -> None:
        self.columns = {name: np.zeros((len(status), *values.shape[1:]), values.dtype) for name, values in like.items()}
        self.waiting = status == Status.NOT_MADE
        self.fresh = self.waiting.copy()

    def fill(self, rows: slice, columns: dict[str, np.ndarray]) -> bool:
        """Take rows; whether the chunk is complete."""
        for name, values in columns.items():
            self.columns[name][rows] = values
        self.waiting[rows] = False
        return not self.waiting.any()


def _columns(made: Made, seed: np.ndarray) -> dict[str, np.ndarray]:
    errors = np.array(made.errors or [""] * len(made.theta), TEXT)
    values = (made.theta, made.x, seed, made.seconds, errors, made.status)
    return dict(zip(ARRAYS, values, strict=True))


def chunk_rows(seconds: float, row_bytes: int, unit: int) -> int:
    """Rows of a chunk: what takes some seconds to simulate or some megabytes to hold, whichever is less."""
    rows = int(min(CHUNK_SECONDS / max(seconds, 1e-9), CHUNK_BYTES / row_bytes))
    return max(1, rows // unit) * unit


@contextmanager
def _damage_named(path: Path, name: str = "status", start: int = 0, stop: int = 0, chunk: int = 1) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, OSError, RuntimeError) as error:
        if isinstance(error, StorageError):
            raise
        where = f" between rows {start} and {stop}" if stop else ""
        raise StorageError(f"{path} is damaged: {name}{where} cannot be read ({error}). {_remedy(path)}") from error


def _remedy(path: Path) -> str:
    return (
        f"Take it from a backup; or remove the files of the damaged chunk below {path}/status, and call simulate with "
        "this store again: it makes those simulations anew, with the same numbers."
    )
