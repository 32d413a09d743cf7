"""Checkpoints: the state of a long computation on disk, so that a killed one goes on where it was, bit for bit."""

import hashlib
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from suffice import storage
from suffice.errors import StorageError

_Tree = TypeVar("_Tree")


@storage.artefact
@dataclass(frozen=True, eq=False)
class Checkpoint:
    """What was reached, and the fingerprint of the call it belongs to.

    `path` None: nothing is written. `reached`: plain values, empty when there is nothing to go on from.
    """

    path: Path | None
    fingerprint: str
    reached: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    kind: ClassVar[str] = "checkpoint"
    version: ClassVar[int] = 2

    @classmethod
    def open(cls, path: str | os.PathLike[str] | None, call: PyTree) -> "Checkpoint":
        """The checkpoint at `path`, which must be of the same call, or a new one."""
        if path is None:
            return cls(None, "")
        target, known = Path(path), fingerprint(call)
        if not target.exists():
            return cls(target, known)
        found = storage.load(target)
        if not isinstance(found, cls) or found.fingerprint != known:
            raise StorageError(
                f"{target} is no checkpoint of this call: key, settings, data or networks differ. "
                "Give another path, or remove the file to begin anew."
            )
        return cls(target, known, found.reached, found.arrays)

    def state(self, like: _Tree) -> _Tree:
        """The saved state, of the structure of `like`; `like` itself if nothing was saved."""
        if not self.reached:
            return like
        names = sorted(name for name in self.arrays if name.startswith("state/"))
        return jax.tree.unflatten(jax.tree.structure(like), [jnp.asarray(self.arrays[name]) for name in names])

    @property
    def others(self) -> dict[str, np.ndarray]:
        """The saved arrays that are no part of the state."""
        return {name: array for name, array in self.arrays.items() if not name.startswith("state/")}

    def write(self, reached: dict[str, Any], state: PyTree, **arrays: np.ndarray) -> None:
        """Save what was reached."""
        if self.path is None:
            return
        leaves = {f"state/{i:04}": np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
        storage.save(Checkpoint(self.path, self.fingerprint, reached, leaves | arrays), self.path)

    def to_archive(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """See `storage.Artefact`."""
        return {"fingerprint": self.fingerprint, "reached": self.reached}, self.arrays

    @classmethod
    def from_archive(cls, manifest: dict[str, Any], arrays: dict[str, np.ndarray]) -> "Checkpoint":
        """See `storage.Artefact`."""
        return cls(None, manifest["fingerprint"], manifest["reached"], arrays)


def fingerprint(call: PyTree) -> str:
    """A digest of all numbers and settings of a call."""
    leaves, structure = jax.tree.flatten(call)
    digest = hashlib.sha256()
    for part in (structure, *leaves):
        if eqx.is_array(part):
            is_key = jax.dtypes.issubdtype(part.dtype, jax.dtypes.prng_key)
            digest.update(np.asarray(jax.random.key_data(part) if is_key else part).tobytes())
        else:
            digest.update(re.sub(r" at 0x[0-9a-f]+", "", repr(part)).encode())
    return digest.hexdigest()
