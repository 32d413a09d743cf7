"""Files: one versioned, atomically written archive of arrays for everything that can be saved.

An archive is an ordinary ``.npz`` file (any numpy reads it) with one more member, ``manifest.json``, that holds the
kind of the artefact, the version of its layout and everything that is no array. No pickle, ever.
"""

import json
import os
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from suffice.errors import StorageError

MANIFEST = "manifest.json"


@runtime_checkable
class Artefact(Protocol):
    """A value that can be saved: its kind, the version of its layout, and the way to arrays and back."""

    kind: ClassVar[str]
    version: ClassVar[int]

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """The manifest (plain JSON values) and the arrays."""
        ...

    @classmethod
    def from_archive(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> Any:
        """The value again."""
        ...


_kinds: dict[str, Any] = {}
_Class = TypeVar("_Class", bound=type)


def artefact(cls: _Class) -> _Class:
    """Class decorator: let `load` find this class by its `kind`."""
    _kinds[vars(cls)["kind"]] = cls
    return cls


def save(value: Artefact, path: str | os.PathLike[str]) -> Path:
    """Write `value` to `path`: all of it or nothing, whatever interrupts."""
    manifest, arrays = value.to_archive()
    header = {"suffice": value.kind, "version": value.version, "content": manifest}
    with atomic(path) as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        with archive.open(_member(MANIFEST), "w", force_zip64=True) as member:
            member.write(json.dumps(header, indent=1, sort_keys=True).encode())
        for name, array in arrays.items():
            with archive.open(_member(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)
    return Path(path)


@contextmanager
def atomic(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to that takes its place at `path` when it is whole, and leaves no trace otherwise."""
    target = Path(path)
    if not target.parent.is_dir():
        raise StorageError(f"Cannot write {target}: there is no folder {target.parent}. Create it first.")
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
        flush_folder(target.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def flush_folder(folder: Path) -> None:
    """Have the names in a folder on the disk, as `os.fsync` has the content of a file; Windows does so by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def load(path: str | os.PathLike[str]) -> Any:
    """The value saved at `path`: whatever kind it is, checked for wholeness and version. A folder is a store."""
    if Path(path).is_dir():
        return _kinds["simulations"].open(path)
    header, arrays = _read(Path(path))
    kind = header["suffice"]
    if kind not in _kinds:
        known = ", ".join(sorted(_kinds))
        raise StorageError(
            f"{path} holds a {kind!r}, which this suffice does not know (it knows {known}). Update suffice."
        )
    cls = _kinds[kind]
    return cls.from_archive(_content(cls, path, header), arrays)


def read(cls: Any, path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Manifest and arrays of the artefact of that class at `path`, checked for wholeness and version."""
    header, arrays = _read(Path(path))
    if header["suffice"] != cls.kind:
        raise StorageError(f"{path} holds a {header['suffice']!r}, not a {cls.kind!r}.")
    return _content(cls, path, header), arrays


def _content(cls: Any, path: str | os.PathLike[str], header: Mapping[str, Any]) -> dict[str, Any]:
    version = header["version"]
    if version > cls.version:
        raise StorageError(
            f"{path} was written by a newer suffice ({cls.kind} layout {version}; this one reads up to {cls.version}). "
            "Update suffice."
        )
    return header["content"]


def _read(path: Path) -> tuple[Mapping[str, Any], dict[str, np.ndarray]]:
    if not path.is_file():
        raise StorageError(f"There is no file {path}.")
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read(MANIFEST))
            arrays = {
                name.removesuffix(".npy"): _read_array(archive, name) for name in archive.namelist() if name != MANIFEST
            }
        header["suffice"], header["version"], header["content"]
    except (zipfile.BadZipFile, KeyError, TypeError, ValueError, EOFError, OSError) as error:
        raise StorageError(
            f"{path} is not a whole suffice file ({error}): it is truncated, damaged or something else. "
            "Take it from a backup or make it again."
        ) from error
    return header, arrays


def _member(name: str) -> zipfile.ZipInfo:
    # A fixed date, so that the same content gives the same file.
    return zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))


def _read_array(archive: zipfile.ZipFile, name: str) -> np.ndarray:
    with archive.open(name) as member:
        array = np.lib.format.read_array(member, allow_pickle=False)
        member.read()  # to the end, where the checksum is compared
    return array
