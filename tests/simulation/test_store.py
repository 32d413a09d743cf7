"""The store: whatever happens to its writer, what is finished is there, and the rest is made with the same numbers."""

import errno
import fcntl
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
import zarr
from tests.simulation import simulators
from tests.simulation.outside import outside

import suffice as sf
from suffice.simulation import StoredRows, durable, merge, store
from suffice.simulation.seeds import draws

KEY = jax.random.key(5)
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def whole() -> sf.Simulations:
    """What an uninterrupted run in memory gives."""
    return sf.simulate(KEY, outside(), 300)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CHUNK_BYTES", 24 * 16)  # sixteen rows of θ and x


@pytest.fixture
def path(tmp_path: Path, small_chunks: None) -> Path:
    sf.simulate(KEY, outside(), 300, store=tmp_path / "sims")
    return tmp_path / "sims"


def same(one: sf.Simulations, other: sf.Simulations) -> bool:
    parts = ("theta", "x", "status", "errors")
    return all(np.array_equal(np.asarray(getattr(one, part)), np.asarray(getattr(other, part))) for part in parts)


def test_a_store_holds_the_run(path: Path, whole: sf.Simulations) -> None:
    loaded = sf.load(path)
    assert same(loaded, whole)
    assert loaded.provenance == whole.provenance
    group = zarr.open_group(path, mode="r")  # anyone's Zarr reads it
    assert group["x"].chunks == (16, 4)
    np.testing.assert_array_equal(group["seed"][:], draws(KEY, outside(), range(300)).seed)
    assert (np.asarray(group["seconds"][:]) > 0).all()
    assert not list(path.parent.glob("*.lock"))


def test_nothing_finished_is_made_again(path: Path, whole: sf.Simulations, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[range] = []
    put = store.Store.put

    def noted(self: store.Store, rows: range, *rest: Any) -> Any:
        made.append(rows)
        return put(self, rows, *rest)

    monkeypatch.setattr(store.Store, "put", noted)
    assert same(sf.simulate(KEY, outside(), 300, store=path), whole)
    assert same(sf.simulate(KEY, outside(), 100, store=path), whole[:100])
    assert not made
    longer = sf.simulate(KEY, outside(), 345, store=path)
    assert sum(map(len, made)) == 45
    assert same(longer, sf.simulate(KEY, outside(), 345))
    assert same(sf.load(path), longer)


def test_jax_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CHUNK_BYTES", 1000)
    model = sf.zoo.gaussian()
    sims = sf.simulate(KEY, model, 200, store=tmp_path / "sims")
    sims = sf.simulate(KEY, model, 500, store=tmp_path / "sims")
    memory = sf.simulate(KEY, model, 500)
    assert same(sims, memory)
    assert sims.provenance == memory.provenance
    assert zarr.open_group(tmp_path / "sims", mode="r")["x"].chunks == (128, 10)


WRITER = """
    import os, random, signal, sys, threading, types

    # Only what simulates: some of what the whole package imports would start threads before the fork.
    package = sys.modules["suffice"] = types.ModuleType("suffice")
    package.__path__ = sys.argv[4:]
    import jax
    from suffice.model import Model
    from suffice.simulation import Simulations, durable, simulate, store
    package.Model = Model
    sys.path.insert(0, sys.argv[1])
    from tests.simulation import simulators
    store.CHUNK_BYTES = 24 * 8  # eight rows
    path, log, dice = sys.argv[2], sys.argv[3], random.Random(1)

    def write(files, delay):
        # Go on with the store; die when so many files have been written, and a moment has passed.
        from tests.simulation.outside import outside  # this computes, which is nothing to do before a fork
        model = outside(simulators.quick)
        with open(log, "a") as file:
            file.write(f"{len(Simulations.open(path)) if os.path.exists(path) else 0}\\n")
        put, left = durable.put, iter(range(files, -10_000, -1))

        def put_and_die(*given, **named):
            if next(left) == 0:
                threading.Timer(delay, os.kill, (os.getpid(), signal.SIGKILL)).start()
            return put(*given, **named)

        durable.put = put_and_die
        simulate(jax.random.key(5), model, 1200, store=path, executor=2)
        os._exit(1)

    for _ in range(20):
        files, delay = dice.randrange(25), dice.uniform(0.0, 0.01)  # a new store begins with seven files
        child = os.fork()
        if child == 0:
            write(files, delay)
        assert os.waitpid(child, 0)[1] == signal.SIGKILL
    """


def test_twenty_times_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGKILL at random moments; each writer opens what the last one left, and the end is an uninterrupted run's.

    Writers are forked from a process that has imported everything and computed nothing.
    """
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    path, log = tmp_path / "sims", tmp_path / "log"
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(WRITER), str(ROOT), str(path), str(log)]
    subprocess.run([*command, *sf.__path__], check=True, timeout=300)
    counts = np.array([int(line) for line in log.read_text().split()])
    assert len(counts) == 20
    assert (np.diff(counts) >= 0).all()
    assert len(np.unique(counts)) > 5
    model = outside(simulators.quick)
    left = sf.load(path)
    assert counts[-1] <= len(left) < 1200
    resumed = sf.simulate(KEY, model, 1200, store=path)
    uninterrupted = sf.simulate(KEY, model, 1200)
    assert same(resumed, uninterrupted)
    assert not list(path.parent.glob("sims.lock"))


def renamed_prior() -> sf.Model:
    prior = dist.Uniform(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.5])).to_event(1)
    return sf.Model.external(prior, simulators.normal, names=("mean", "sd"), data_shape=(4,))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: outside(simulators.quick), "its simulator differs"),
        (renamed_prior, "its prior differs"),
        (lambda: outside(data_shape=(5,)), "its shape of x differs"),
        (sf.zoo.gaussian, "its parameters and shape of x and prior and simulator differ from"),
    ],
)
def test_another_model_is_refused(model: Any, words: str, path: Path, whole: sf.Simulations) -> None:
    with pytest.raises(sf.StorageError, match=words):
        sf.simulate(KEY, model(), 400, store=path)
    assert same(sf.load(path), whole)


def test_a_function_is_known_by_what_it_closes_over(tmp_path: Path) -> None:
    def model(scale: float) -> sf.Model:
        return outside(lambda theta, rng: scale * rng.normal(size=4))

    sf.simulate(KEY, model(1.0), 10, store=tmp_path / "sims")
    sf.simulate(KEY, model(1.0), 20, store=tmp_path / "sims")
    with pytest.raises(sf.StorageError, match="its simulator differs"):
        sf.simulate(KEY, model(2.0), 30, store=tmp_path / "sims")


def test_another_key_is_refused(path: Path) -> None:
    with pytest.raises(sf.StorageError, match="begun with another key"):
        sf.simulate(jax.random.key(6), outside(), 300, store=path)


def test_what_is_no_store(tmp_path: Path, path: Path) -> None:
    zarr.open_group(path, mode="r+").attrs["version"] = 99
    for use in (sf.load, lambda path: sf.simulate(KEY, outside(), 300, store=path)):
        with pytest.raises(sf.StorageError, match="written by a newer suffice"):
            use(path)
    zarr.create_group(tmp_path / "theirs")
    (tmp_path / "folder").mkdir()
    with pytest.raises(sf.StorageError, match=r"not one of suffice's simulations"):
        sf.load(tmp_path / "theirs")
    with pytest.raises(sf.StorageError, match="There is no store of simulations"):
        sf.load(tmp_path / "folder")
    with pytest.raises(sf.StorageError, match="there is no folder"):
        sf.simulate(KEY, outside(), 10, store=tmp_path / "no" / "sims")


@pytest.mark.parametrize("array", ["x", "theta", "status"])
@pytest.mark.parametrize("how", ["flip", "cut", "remove"])
def test_damage_is_found_and_mended(array: str, how: str, path: Path, whole: sf.Simulations) -> None:
    chunk = path / array / "c" / ("3" if array == "status" else "3/0")
    content = bytearray(chunk.read_bytes())
    content[2] ^= 0xFF
    chunk.unlink()
    if how != "remove":
        chunk.write_bytes(content if how == "flip" else content[: len(content) // 2])
    if (array, how) == ("status", "remove"):
        assert len(sf.load(path)) == 300 - 16  # a chunk that was never finished, as far as anyone can tell
    else:
        with pytest.raises(sf.StorageError, match=f"{array}.*remove the files of the damaged chunk below .*status"):
            sf.load(path)
    (path / "status" / "c" / "3").unlink(missing_ok=True)  # what the message says
    assert same(sf.simulate(KEY, outside(), 300, store=path), whole)
    assert same(sf.load(path), whole)


def test_a_full_disk(
    tmp_path: Path, small_chunks: None, whole: sf.Simulations, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = durable.put, list[Any]()

    def full(place: Path, value: Any) -> None:
        if len(written) > 60:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(place)
        write(place, value)

    with monkeypatch.context() as patch:
        patch.setattr(durable, "put", full)
        with pytest.raises(sf.StorageError, match=r"No space left on device\). Its \d+ finished simulations are safe"):
            sf.simulate(KEY, outside(), 300, store=tmp_path / "sims")
    kept = sf.load(tmp_path / "sims")
    assert 0 < len(kept) < 300
    rows = [np.flatnonzero((whole.theta == theta).all(1))[0] for theta in kept.theta]
    np.testing.assert_array_equal(kept.x, whole.x[rows])
    assert same(sf.simulate(KEY, outside(), 300, store=tmp_path / "sims"), whole)


def test_two_writers(path: Path, whole: sf.Simulations) -> None:
    lock = path.with_name("sims.lock")
    lock.write_text(json.dumps({"host": "elsewhere", "process": 12}))
    with pytest.raises(sf.StorageError, match=r"written to by process 12 on elsewhere.*remove .*sims\.lock"):
        sf.simulate(KEY, outside(), 400, store=path)
    lock.write_text("")  # as left by a process of this host that was killed
    assert same(sf.simulate(KEY, outside(), 300, store=path), whole)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(sf.StorageError, match=r"written to by another process.*shard=\(i, n\)"):
            sf.simulate(KEY, outside(), 400, store=path)
    assert same(sf.load(path), whole)


@pytest.mark.parametrize("num", [300, 1000])
def test_shards_merge_into_the_same_run(num: int, tmp_path: Path, small_chunks: None) -> None:
    paths = [tmp_path / f"shard{i}" for i in (1, 2, 3)]
    for i, path in enumerate(paths, 1):
        sf.simulate(KEY, outside(), num, store=path, shard=(i, 3))
    merged = merge(paths[::-1], tmp_path / "merged")
    memory = sf.simulate(KEY, outside(), num)
    assert same(merged, memory)
    assert merged.provenance == memory.provenance
    assert same(merge(paths, tmp_path / "merged"), memory)  # again: nothing to do
    assert len(sf.simulate(KEY, outside(), num + 9, store=tmp_path / "merged")) == num + 9  # a store like any other


def test_shards_that_do_not_fit(tmp_path: Path, path: Path) -> None:
    shards = [tmp_path / f"shard{i}" for i in (1, 2)]
    for i, shard in enumerate(shards, 1):
        sf.simulate(KEY, outside(), 100, store=shard, shard=(i, 2))
    sf.simulate(jax.random.key(1), outside(), 100, store=tmp_path / "other", shard=(2, 2))
    cases = [
        ([], "nothing to merge"),
        ([shards[0]], "Shards 1 of 2 were given.*2 missing"),
        ([shards[0], shards[0]], "Shards 1, 1 of 2"),
        ([shards[0], tmp_path / "other"], "shards of different runs"),
        ([shards[0], path], "is no shard"),
    ]
    for paths, words in cases:
        with pytest.raises(sf.StorageError, match=words):
            merge(paths, tmp_path / "merged")
    (shards[1] / "status" / "c" / "0").unlink()
    with pytest.raises(sf.StorageError, match=r"shard2 lacks 16 of its 50 simulations"):
        merge(shards, tmp_path / "merged")
    with pytest.raises(sf.StorageError, match="is shard 1 of 2 of a run of 100 simulations, but shard 2 of 2"):
        sf.simulate(KEY, outside(), 100, store=shards[0], shard=(2, 2))
    for part, words in [((0, 2), "between 1 and n"), ((3, 2), "between 1 and n"), ((1, 101), "cannot be cut")]:
        with pytest.raises(ValueError, match=words):
            sf.simulate(KEY, outside(), 100, store=tmp_path / "new", shard=part)
    with pytest.raises(ValueError, match="needs store=path"):
        sf.simulate(KEY, outside(), 100, shard=(1, 2))


def test_reading_lazily(path: Path, whole: sf.Simulations, monkeypatch: pytest.MonkeyPatch) -> None:
    lazy = sf.Simulations.open(path, memory=0)
    read: list[int] = []
    column = store.Store.column

    def noted(self: store.Store, name: str, a: int, b: int) -> Any:
        read.append(b - a)
        return column(self, name, a, b)

    monkeypatch.setattr(store.Store, "column", noted)
    assert isinstance(lazy.x, StoredRows)
    assert (lazy.x.shape, lazy.x.ndim, len(lazy.x), lazy.x.nbytes) == ((300, 4), 2, 300, 4800)
    part = lazy[40:200][np.arange(160) % 3 == 0]
    assert not read  # selecting reads nothing
    np.testing.assert_array_equal(np.asarray(part.x), whole.x[40:200][::3])
    assert max(read) <= 16
    np.testing.assert_array_equal(lazy.x[[250, 3, 77]], whole.x[[250, 3, 77]])
    np.testing.assert_array_equal(lazy.x[-1], whole.x[-1])
    np.testing.assert_array_equal(lazy.x[5, 2], whole.x[5, 2])
    np.testing.assert_array_equal(lazy.x[5:9, 2], whole.x[5:9, 2])
    assert same(lazy, whole)
    assert repr(lazy.x).startswith("StoredRows((300, 4), float32, of ")


def test_failures_in_a_store(tmp_path: Path) -> None:
    with pytest.warns(sf.SimulationWarning, match="did not converge"):
        sims = sf.simulate(KEY, outside(simulators.seldom), 100, store=tmp_path / "sims")
    with pytest.warns(sf.SimulationWarning):
        memory = sf.simulate(KEY, outside(simulators.seldom), 100)
    assert same(sf.load(tmp_path / "sims").good, memory.good)
    assert sims.errors.tolist() == memory.errors.tolist()
    assert any(sims.errors)
