"""Where simulations go as they are made: arrays in memory, or a store."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import PRNGKeyArray

from suffice.errors import StorageError
from suffice.model import Model
from suffice.randomness import key_record
from suffice.simulation.dispatch import Made
from suffice.simulation.fingerprint import fingerprint
from suffice.simulation.locking import sole_writer
from suffice.simulation.seeds import draws
from suffice.simulation.simulations import TEXT, Simulations
from suffice.simulation.store import VERSION, Store, chunk_rows

Shard = tuple[int, int]


@runtime_checkable
class Sink(Protocol):
    """Takes simulations in any order."""

    def missing(self) -> list[range]:
        """The rows that it still wants."""
        ...

    def put(self, rows: range, made: Made) -> None:
        """Take some."""
        ...

    def simulations(self) -> Simulations:
        """All of them, at the end."""
        ...


class InMemory:
    """Arrays that are filled."""

    def __init__(self, key: PRNGKeyArray, model: Model, num: int) -> None:
        self.num, self.names = num, model.names
        self.record = {"key": key_record(key), "num": num, "versions": versions()}
        self.columns: dict[str, np.ndarray] = {}
        self.errors: dict[int, str] = {}

    def missing(self) -> list[range]:
        """See `Sink`."""
        return [range(self.num)]

    def put(self, rows: range, made: Made) -> None:
        """See `Sink`."""
        values = {"theta": made.theta, "x": made.x, "status": made.status}
        for name, part in values.items():
            if name not in self.columns:
                self.columns[name] = np.empty((self.num, *part.shape[1:]), part.dtype)
            self.columns[name][rows.start : rows.stop] = part
        if made.errors:
            self.errors |= {row: text for row, text in zip(rows, made.errors, strict=True) if text}

    def simulations(self) -> Simulations:
        """See `Sink`."""
        errors = np.zeros(self.num if self.errors else 0, TEXT)
        for row, text in self.errors.items():
            errors[row] = text
        return Simulations(**self.columns, names=self.names, provenance=(self.record,), errors=errors)


class InStore:
    """A store, which is created with the first simulations, when it is known how long one takes."""

    def __init__(self, path: Path, key: PRNGKeyArray, model: Model, rows: range, record: dict[str, Any]) -> None:
        self.path, self.key, self.model, self.rows, self.record = path, key, model, rows, record
        self.store: Store | None = None
        if path.exists():
            self.store = Store.open(path, write=True)
            require_same(self.store, record)
            self.store.grow(len(rows))

    def missing(self) -> list[range]:
        """See `Sink`."""
        return [self.rows] if self.store is None else self.store.missing(len(self.rows))

    def put(self, rows: range, made: Made) -> None:
        """See `Sink`."""
        if self.store is None:
            row_bytes = made.x[0].nbytes + made.theta[0].nbytes
            chunk = chunk_rows(float(np.mean(made.seconds)), row_bytes, 128 if self.model.traceable else 1)
            self.store = Store.create(self.path, self.record, len(self.rows), made, min(chunk, len(self.rows)))
        self.store.put(rows, made, draws(self.key, self.model, rows).seed, len(self.rows))

    def simulations(self) -> Simulations:
        """See `Sink`."""
        assert self.store is not None
        return self.store.simulations(len(self.rows))


@contextmanager
def sink_of(
    key: PRNGKeyArray, model: Model, num: int, path: Path | None, shard: Shard | None
) -> Iterator[InMemory | InStore]:
    """Where the simulations of a run go; a store is locked meanwhile."""
    if path is None:
        if shard is not None:
            raise ValueError("shard=(i, n) needs store=path: a shard is a store that `merge` joins with the others.")
        yield InMemory(key, model, num)
        return
    if not path.absolute().parent.is_dir():
        raise StorageError(f"Cannot write {path}: there is no folder {path.absolute().parent}. Create it first.")
    rows = range(num) if shard is None else shard_rows(num, shard)
    with sole_writer(path):
        yield InStore(path, key, model, rows, record_of(key, model, num, rows.start, shard))


def shard_rows(num: int, shard: Shard) -> range:
    """The rows of shard i of n (from 1 on): one piece of the run, whole groups of 128 where there are enough."""
    i, n = shard
    if not 1 <= i <= n:
        raise ValueError(f"shard is {shard!r}, but must be (i, n) with i between 1 and n: shard i of n.")
    if num < n:
        raise ValueError(f"{num} simulations cannot be cut into {n} shards: ask for fewer shards.")
    unit = 128 if num >= 128 * n else 1
    borders = [min(num, round(num / unit * part / n) * unit) for part in range(n)] + [num]
    return range(borders[i - 1], borders[i])


def record_of(key: PRNGKeyArray, model: Model, num: int, first: int, shard: Shard | None) -> dict[str, Any]:
    """What a store says of itself."""
    return {
        "suffice": "simulations",
        "version": VERSION,
        "key": key_record(key),
        "num": num,
        "first": first,
        "shard": None if shard is None else list(shard),
        "names": list(model.names),
        "model": fingerprint(model),
        "versions": versions(),
    }


def require_same(store: Store, record: dict[str, Any]) -> None:
    """Refuse to add simulations of another model, key or shard to a store."""
    found = store.record
    differing = [name for name, value in record["model"].items() if not _same(found["model"].get(name), value)]
    if differing:
        raise StorageError(
            f"{store.path} holds simulations of another model: its {' and '.join(differing)} differ"
            f"{'s' * (len(differing) == 1)} from this one's. Give another path."
        )
    if found["key"] != record["key"]:
        raise StorageError(
            f"{store.path} was begun with another key. Go on with that one, or give another path for this run."
        )
    sharded = found["shard"] is not None or record["shard"] is not None
    if sharded and (found["shard"], found["num"]) != (record["shard"], record["num"]):
        raise StorageError(
            f"{store.path} is {_part(found)}, but {_part(record)} is to be written. Give each shard a path of its own."
        )


def _same(found: str | None, wanted: str) -> bool:
    programs = [text.split() for text in (found or "", wanted) if text.startswith("JAX ")]
    if len(programs) == 2 and programs[0][1] != programs[1][1]:  # of two versions of JAX: they cannot be compared
        return True
    return found == wanted


def _part(record: dict[str, Any]) -> str:
    whole = f"a run of {record['num']} simulations"
    return whole if record["shard"] is None else f"shard {record['shard'][0]} of {record['shard'][1]} of {whole}"


def versions() -> dict[str, str]:
    """Of what decides the numbers."""
    return {name: version(name) for name in ("suffice", "jax", "numpyro")}
