"""Checkpoints: the state of a training on disk, so that a killed one goes on where it was, bit for bit."""

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from suffice import storage
from suffice.errors import StorageError
from suffice.fitting.history import History

_Tree = TypeVar("_Tree")


@storage.artefact
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """The state of a training after some look, and the fingerprint of the call it belongs to.

    `path` None: nothing is written.
    """

    path: Path | None
    fingerprint: str
    history: History | None = None
    leaves: tuple[np.ndarray, ...] = ()

    kind: ClassVar[str] = "checkpoint"
    version: ClassVar[int] = 1

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None, call: PyTree) -> "Checkpoint":
        """The checkpoint at `path`, which must be of the same call, or a new one."""
        if path is None:
            return cls(None, "")
        target, fingerprint = Path(path), _fingerprint(call)
        if not target.exists():
            return cls(target, fingerprint)
        found = storage.load(target)
        if not isinstance(found, cls) or found.fingerprint != fingerprint:
            raise StorageError(
                f"{target} is no checkpoint of this fit: key, settings, simulations or networks differ. "
                "Give another path, or remove the file to begin anew."
            )
        return cls(target, fingerprint, found.history, found.leaves)

    def resume(self, history: History, state: _Tree, best: PyTree) -> tuple[History, _Tree, PyTree]:
        """What was saved, if anything was; else what is given."""
        if self.history is None:
            return history, state, best
        structure = jax.tree.structure((state, best))
        state, best = jax.tree.unflatten(structure, [jnp.asarray(leaf) for leaf in self.leaves])
        return self.history, state, best

    def write(self, history: History, state: PyTree, best: PyTree) -> None:
        """Save the state after a look."""
        if self.path is not None:
            leaves = tuple(np.asarray(leaf) for leaf in jax.tree.leaves((state, best)))
            storage.save(Checkpoint(self.path, self.fingerprint, history, leaves), self.path)

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See `storage.Artefact`."""
        assert self.history is not None
        manifest, arrays = self.history.to_archive()
        arrays |= {f"leaf{i:04}": leaf for i, leaf in enumerate(self.leaves)}
        return {"fingerprint": self.fingerprint, "history": manifest}, arrays

    @classmethod
    def from_archive(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Checkpoint":
        """See `storage.Artefact`."""
        names = sorted(name for name in arrays if name.startswith("leaf"))
        leaves = tuple(arrays.pop(name) for name in names)
        return cls(None, manifest["fingerprint"], History.from_archive(manifest["history"], arrays), leaves)


def _fingerprint(call: PyTree) -> str:
    """A digest of all numbers and settings of a call."""
    digest = hashlib.sha256()
    for leaf in jax.tree.leaves(call):
        if eqx.is_array(leaf):
            is_key = jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
            digest.update(np.asarray(jax.random.key_data(leaf) if is_key else leaf).tobytes())
        else:
            digest.update(re.sub(r" at 0x[0-9a-f]+", "", repr(leaf)).encode())
    return digest.hexdigest()
