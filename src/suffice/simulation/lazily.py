"""Rows of an array on disk that are read when they are asked for."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int


class StoredRows:
    """Some rows of a stored array, which looks like a numpy array and is read piece by piece.

    Args:
        read: gives the rows from one number up to another, as numpy.
        index: the rows of the stored array that these are, rising.
        shape: of one row.
        dtype: of the numbers.
        chunk: rows that are stored together.
        label: says what is stored, for `repr`.

    `rows[a:b]` and `np.asarray(rows)` read; `rows.rows(…)` selects without reading.
    """

    def __init__(
        self,
        read: Callable[[int, int], np.ndarray],
        index: Int[np.ndarray, " n"],
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        chunk: int,
        label: str,
    ) -> None:
        self._read, self._index, self._row, self._chunk, self._label = read, index, shape, chunk, label
        self.dtype = np.dtype(dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """As numpy's."""
        return (len(self._index), *self._row)

    @property
    def ndim(self) -> int:
        """As numpy's."""
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """As numpy's, if all were read."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __len__(self) -> int:
        return len(self._index)

    def __repr__(self) -> str:
        return f"StoredRows({self.shape}, {self.dtype}, of {self._label})"

    def rows(self, selection: slice | np.ndarray) -> "StoredRows":
        """Some of these rows, not read yet."""
        return StoredRows(self._read, self._index[selection], self._row, self.dtype, self._chunk, self._label)

    def __getitem__(self, selection: Any) -> Any:
        rows, rest = (selection[0], selection[1:]) if isinstance(selection, tuple) else (selection, ())
        if isinstance(rows, int | np.integer):
            return self._gathered(self._index[rows : rows + 1 or None])[(0, *rest)]
        values = self._gathered(self._index[rows])
        return values[(slice(None), *rest)] if rest else values

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        values = self._gathered(self._index)
        return values if dtype is None else values.astype(dtype)

    def _gathered(self, index: np.ndarray) -> np.ndarray:
        """These rows of the stored array, chunk by chunk, so that no more than a chunk is held beside them."""
        values = np.empty((len(index), *self._row), self.dtype)
        order = np.argsort(index, kind="stable")
        chunks = index[order] // self._chunk
        borders = np.flatnonzero(np.diff(chunks, prepend=-1, append=-1))
        for first, last in itertools.pairwise(borders):
            places = order[first:last]
            taken = index[places]
            start, stop = int(taken[0]), int(taken[-1]) + 1
            values[places] = self._read(start, stop)[taken - start]
        return values
