"""`merge`: the shards of one run, made by separate jobs, as one store."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from suffice.errors import StorageError
from suffice.progress import bar
from suffice.simulation.dispatch import Made
from suffice.simulation.locking import sole_writer
from suffice.simulation.simulations import Simulations
from suffice.simulation.sinks import require_same
from suffice.simulation.store import Store


def merge(
    paths: Sequence[str | os.PathLike[str]], into: str | os.PathLike[str], *, progress: bool = True
) -> Simulations:
    """Join the shards of a run in the new store `into`: the same numbers as those of a run in one piece.

    The shards are only read. A merge that was killed goes on when it is called again.
    """
    shards = _require_whole([Store.open(path) for path in paths])
    target = Path(into)
    record = shards[0].record | {"shard": None, "first": 0}
    num = int(record["num"])
    with sole_writer(target), bar(num, "merging", show=progress) as advance:
        if target.exists():
            store = Store.open(target, write=True)
            require_same(store, record)
        else:
            like = _read(shards[0], 0, 1)[0]
            store = Store.create(target, record, num, like, max(shard.chunk for shard in shards))
        waiting = store.missing(num)
        advance(num - sum(map(len, waiting)))
        for rows in waiting:
            for shard in shards:
                low, high = max(rows.start, shard.first), min(rows.stop, shard.first + len(shard))
                for start in range(low, high, store.chunk):
                    stop = min(start + store.chunk, high)
                    made, seed = _read(shard, start - shard.first, stop - shard.first)
                    store.put(range(start, stop), made, seed, num)
                    advance(stop - start)
    return store.simulations()


def _read(shard: Store, start: int, stop: int) -> tuple[Made, np.ndarray]:
    names = ("theta", "x", "status", "seconds", "error", "seed")
    theta, x, status, seconds, errors, seed = (shard.column(name, start, stop) for name in names)
    return Made(theta, x, status, seconds, list(errors)), seed


def _require_whole(shards: list[Store]) -> list[Store]:
    """The shards in order, if they are all those of one run, and finished."""
    if not shards:
        raise StorageError("There is nothing to merge: give the paths of all shards of a run.")
    first = shards[0].record
    for shard in shards:
        record = shard.record
        if record["shard"] is None:
            raise StorageError(f"{shard.path} is no shard, but a whole run. Merge what was made with shard=(i, n).")
        if (record["key"], record["num"], record["shard"][1]) != (first["key"], first["num"], first["shard"][1]):
            raise StorageError(f"{shard.path} and {shards[0].path} are shards of different runs.")
        require_same(shard, first | {"shard": record["shard"]})
        lacking = sum(map(len, shard.missing(len(shard))))
        if lacking:
            raise StorageError(
                f"{shard.path} lacks {lacking} of its {len(shard)} simulations. Call simulate with its shard again to "
                "finish it, then merge."
            )
    found = [shard.record["shard"][0] for shard in shards]
    wanted = set(range(1, first["shard"][1] + 1))
    if set(found) != wanted or len(found) != len(wanted):
        raise StorageError(
            f"Shards {', '.join(map(str, sorted(found)))} of {len(wanted)} were given, but each is needed once"
            + (f": {', '.join(map(str, sorted(wanted - set(found))))} missing." if wanted - set(found) else ".")
        )
    return sorted(shards, key=lambda shard: shard.first)
