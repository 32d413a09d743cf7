"""One writer at a time: a lock file beside the store, which a killed writer cannot leave locked."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from suffice.errors import StorageError


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
        os.pwrite(descriptor, json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode(), 0)
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(lock: Path, path: Path) -> int:
    import fcntl

    while True:
        try:
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise StorageError(f"Cannot write beside {path}: {error.strerror}. Choose another folder.") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
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


def _owner(descriptor: int) -> dict[str, str]:
    try:
        return {name: str(value) for name, value in json.loads(os.pread(descriptor, 4096, 0)).items()}
    except (ValueError, AttributeError):
        return {}


def _refusal(path: Path, owner: dict[str, str]) -> str:
    who = f"process {owner['process']} on {owner['host']}" if {"process", "host"} <= owner.keys() else "another process"
    return (
        f"{path} is being written to by {who}: two writers at once would spoil it. Wait for it, or give each job a "
        "store of its own with shard=(i, n) and merge them."
    )
