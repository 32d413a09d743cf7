"""Files: written whole or not at all, read only if whole and known."""

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import suffice as sf
from suffice import storage


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    return sf.simulate(jax.random.key(0), sf.zoo.gaussian(), 20).save(tmp_path / "sims.npz")


def rewrite_manifest(path: Path, **changes: object) -> None:
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members[storage.MANIFEST] = json.dumps(json.loads(members[storage.MANIFEST]) | changes).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_truncated_file(saved: Path, share: float) -> None:
    content = saved.read_bytes()
    saved.write_bytes(content[: int(share * len(content))])
    with pytest.raises(sf.StorageError, match=r"not a whole suffice file.*truncated, damaged"):
        sf.load(saved)


def test_a_flipped_bit_in_the_data(saved: Path) -> None:
    content = bytearray(saved.read_bytes())
    content[content.index(b"x.npy") + 300] ^= 1
    saved.write_bytes(bytes(content))
    with pytest.raises(sf.StorageError, match="CRC"):
        sf.load(saved)


def test_a_newer_version(saved: Path) -> None:
    rewrite_manifest(saved, version=99)
    with pytest.raises(sf.StorageError, match=r"newer suffice.*layout 99.*Update"):
        sf.load(saved)


def test_an_unknown_kind(saved: Path) -> None:
    rewrite_manifest(saved, suffice="hologram")
    with pytest.raises(sf.StorageError, match="'hologram', which this suffice does not know"):
        sf.load(saved)


def test_other_files(tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", theta=np.ones(3))
    with pytest.raises(sf.StorageError, match="not a whole suffice file"):
        sf.load(tmp_path / "other.npz")
    with pytest.raises(sf.StorageError, match="There is no file"):
        sf.load(tmp_path / "nothing.npz")
    with pytest.raises(sf.StorageError, match="no folder"):
        sf.simulate(jax.random.key(0), sf.zoo.gaussian(), 2).save(tmp_path / "none" / "sims.npz")


def test_an_interrupted_write_leaves_the_old_file_whole(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved.read_bytes()

    def interrupt(source: str, target: str) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        sf.simulate(jax.random.key(1), sf.zoo.gaussian(), 20).save(saved)
    assert saved.read_bytes() == before
    assert list(saved.parent.iterdir()) == [saved]


def test_posteriors_come_back(tmp_path: Path) -> None:
    draws = np.random.default_rng(0).normal(size=(2, 50, 3))
    weights = np.full((2, 50), 0.01)
    info: dict[str, Any] = {"acceptance": np.array([0.2, 0.3]), "method": "none"}
    post = sf.Posterior(draws, ("a", "b", "c"), weights, info)
    loaded = sf.load(post.save(tmp_path / "post.npz"))
    assert np.array_equal(loaded.draws, draws)
    assert np.array_equal(loaded.weights, weights)
    assert loaded.names == post.names
    assert loaded.info["method"] == "none"
    assert np.array_equal(loaded.info["acceptance"], info["acceptance"])
