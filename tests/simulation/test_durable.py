"""The store against the machine: losses of power, disks that do not flush, systems with other locks."""

import errno
import fcntl
import json
import os
import socket
import sys
import types
from pathlib import Path

import jax
import numpy as np
import pytest
from tests.simulation.outside import outside

import suffice as sf
from suffice.simulation import store

KEY = jax.random.key(5)


@pytest.fixture(scope="module")
def whole() -> sf.Simulations:
    """What an uninterrupted run in memory gives."""
    return sf.simulate(KEY, outside(), 100)


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "CHUNK_BYTES", 24 * 16)  # sixteen rows of θ and x


def test_a_chunk_is_on_the_disk_before_it_is_finished(
    tmp_path: Path, small_chunks: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a loss of power a content or a name is left if it was flushed: a chunk's status is so last of all."""
    order: list[tuple[str, Path]] = []
    flush, rename = os.fsync, os.replace

    def flushed(descriptor: int) -> None:
        flush(descriptor)
        order.append(("flushed", Path(f"/proc/self/fd/{descriptor}").readlink()))

    def named(source: Path, target: Path) -> None:
        assert ("flushed", source) in order, f"{target} got its name before its content was on the disk"
        rename(source, target)
        order.append(("named", target))

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", named)
    sims = tmp_path / "sims"
    sf.simulate(KEY, outside(), 40, store=sims)
    assert ("flushed", tmp_path) in order  # the name of the store itself
    for chunk in "012":
        finished = order.index(("named", sims / "status" / "c" / chunk))
        assert ("flushed", sims / "status" / "c") in order[finished:]
        for name in ("theta/c/{}/0", "x/c/{}/0", "seed/c/{}", "seconds/c/{}"):
            file = sims / name.format(chunk)
            written = order.index(("named", file))
            assert ("flushed", file.parent) in order[written:finished]
            if name.endswith("/0"):  # a folder of its own, which has a name, too
                assert ("flushed", file.parent.parent) in order[written:finished]


def test_a_disk_that_does_not_flush(
    tmp_path: Path, small_chunks: None, whole: sf.Simulations, monkeypatch: pytest.MonkeyPatch
) -> None:
    flush, number = os.fsync, iter(range(10_000))

    def broken(descriptor: int) -> None:
        if next(number) > 100:
            raise OSError(errno.EIO, "Input/output error")
        flush(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", broken)
        with pytest.raises(sf.StorageError, match=r"Input/output error\). Its \d+ finished simulations are safe"):
            sf.simulate(KEY, outside(), 100, store=tmp_path / "sims")
    assert 0 < len(sf.load(tmp_path / "sims")) < 100
    np.testing.assert_array_equal(sf.simulate(KEY, outside(), 100, store=tmp_path / "sims").x, whole.x)


def test_a_system_without_fcntl(tmp_path: Path, whole: sf.Simulations, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on Windows, whose locks are those of `msvcrt`: here by a stand-in, on the byte that it is asked to lock."""

    def locking(descriptor: int, mode: int, count: int) -> None:
        assert (mode, count) == (2, 1)
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, count, os.lseek(descriptor, 0, os.SEEK_CUR))
        if held:
            raise PermissionError(errno.EACCES, "Permission denied")

    held: list[bool] = []
    stand_in = types.ModuleType("msvcrt")
    vars(stand_in).update(locking=locking, LK_NBLCK=2)
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", stand_in)
    for name in ("pread", "pwrite"):
        monkeypatch.delattr(os, name)
    np.testing.assert_array_equal(sf.simulate(KEY, outside(), 100, store=tmp_path / "sims").x, whole.x)
    held.append(True)
    (tmp_path / "sims.lock").write_text(json.dumps({"host": socket.gethostname(), "process": 12}))
    with pytest.raises(sf.StorageError, match="written to by process 12 on"):
        sf.simulate(KEY, outside(), 400, store=tmp_path / "sims")
