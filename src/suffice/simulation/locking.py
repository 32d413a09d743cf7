"""One writer at a time: a lock file beside the store, which a killed writer cannot leave locked."""

import contextlib
import importlib
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suffice.errors import StorageError

LOCKED_BYTE = 2**30  # on Windows a locked byte cannot be read by others: one far behind the name of the writer


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Hold the lock of the store at `path`, or say who does.

    The lock is the operating system's, on a file that names the writer's host and process: it is gone with the process,
    however that ended. Between machines it holds where the file system knows locks; a file that names another host is
    therefore taken to be locked, too.
    """
    lock = path.with_name(path.name + ".lock")
    descriptor = _locked(lock, path)
    try:
        os.ftruncate(descriptor, 0)
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode())
        yield
    finally:
        with contextlib.suppress(PermissionError):  # Windows removes no open file: it is left, and not locked
            lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path, path: Path) -> int:
    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(f"Cannot write beside {path}: {error.strerror}. Choose another folder.") from error
        try:
            _lock(descriptor)
        except OSError as error:
            owner = _owner(descriptor)
            os.close(descriptor)
            raise StorageError(_refusal(path, owner)) from error
        try:
            same = os.fstat(descriptor).st_ino == lock.stat().st_ino
        except FileNotFoundError:
            same = False
        if not same:  # its last owner has just removed it
            os.close(descriptor)
            continue
        owner = _owner(descriptor)
        if owner.get("host", socket.gethostname()) != socket.gethostname():
            os.close(descriptor)
            raise StorageError(f"{_refusal(path, owner)} If that process has ended, remove {lock}.")
        return descriptor


def _lock(descriptor: int) -> None:
    """Lock an open file as this system does, or fail with an `OSError` at once."""
    try:
        system = importlib.import_module("fcntl")
    except ImportError:  # Windows
        system = importlib.import_module("msvcrt")
        os.lseek(descriptor, LOCKED_BYTE, os.SEEK_SET)
        system.locking(descriptor, system.LK_NBLCK, 1)
    else:
        system.flock(descriptor, system.LOCK_EX | system.LOCK_NB)


def _owner(descriptor: int) -> dict[str, str]:
    os.lseek(descriptor, 0, os.SEEK_SET)
    try:
        return {name: str(value) for name, value in json.loads(os.read(descriptor, 4096)).items()}
    except (ValueError, AttributeError):
        return {}


def _refusal(path: Path, owner: dict[str, str]) -> str:
    who = f"process {owner['process']} on {owner['host']}" if {"process", "host"} <= owner.keys() else "another process"
    return (
        f"{path} is being written to by {who}: two writers at once would spoil it. Wait for it, or give each job a "
        "store of its own with shard=(i, n) and merge them."
    )
