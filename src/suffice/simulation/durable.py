"""A folder of Zarr files that outlives a loss of power: what has been written is on the disk, not only on its way."""

import asyncio
from pathlib import Path
from typing import Any

from zarr.storage import LocalStore

from suffice import storage


class DurableStore(LocalStore):
    """Zarr's store in a folder, whose files are whole and on the disk when writing them returns.

    Each is written under another name, flushed, renamed, and then its folder is flushed, with those that are new: after
    a loss of power a file is there with all of its content, or not at all, and none is there without those that were
    written before it.
    """

    async def set(self, key: str, value: Any) -> None:
        """See zarr's `Store`."""
        self._check_writable()
        await asyncio.to_thread(put, self.root / key, value)

    def set_sync(self, key: str, value: Any) -> None:
        """See zarr's `Store`."""
        self._check_writable()
        put(self.root / key, value)


def put(path: Path, value: Any) -> None:
    """Write a file of a store, and the folders it needs."""
    new = [folder for folder in path.parents if not folder.exists()]
    path.parent.mkdir(parents=True, exist_ok=True)
    with storage.atomic(path) as file:
        file.write(value.to_bytes())
    for folder in new:
        storage.flush_folder(folder.parent)
