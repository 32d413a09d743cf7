"""Data from files: CSV, NPY or Parquet, as one observation or as many."""

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from suffice.errors import StorageError
from suffice.model import Model

if TYPE_CHECKING:
    from pandas import DataFrame

MEANT_AS_NUMBER = re.compile(r"[\s<>≤≥~±+\-−.,]*\d")  # such as <0.1 or 1,5, which name no column


def observed_in(path: Path, model: Model, *, many: bool) -> np.ndarray:
    """One observation of the model's shape from a file; with `many`, one in each row.

    A vector or series may stand in a row or in a column; a multivariate series has one row a time step. Rows of many
    are flattened observations.
    """
    values = _read(path)
    shape = model.data_shape
    if many:
        if values.ndim < 2 or values[0].size != model.data_size:
            raise ValueError(
                f"{path} holds numbers of shape {values.shape}, but with several observations each row must hold the "
                f"{model.data_size} numbers of one x of shape {shape}."
            )
        return values.reshape(len(values), *shape)
    if values.size == model.data_size and (values.shape == shape or len(shape) == 1):
        return values.reshape(shape)
    raise ValueError(
        f"{path} holds numbers of shape {values.shape}, but one x of this model has shape {shape}. For several "
        "observations, one a row, give --each (a posterior for each) or --iid (one posterior given all)."
    )


def _read(path: Path) -> np.ndarray:
    if not path.is_file():
        raise StorageError(f"There is no file {path}.")
    kind = path.suffix.lower()
    if kind == ".npy":
        try:
            return _numbers(np.load(path, allow_pickle=False), path)
        except (ValueError, EOFError) as error:
            raise StorageError(f"{path} is not a whole NPY file of numbers: {error}.") from error
    if kind == ".csv":
        return _csv(path)
    if kind in (".parquet", ".pq"):
        return _numbers(_parquet(path), path)
    raise ValueError(f"{path} ends in {kind!r}, but data must be a .csv, .npy or .parquet file.")


def _csv(path: Path) -> np.ndarray:
    from pandas import read_csv
    from pandas.errors import EmptyDataError, ParserError

    try:
        table = read_csv(path, header=None, dtype=str, skip_blank_lines=True, sep=_separator(path))
    except (EmptyDataError, ParserError) as error:
        raise StorageError(f"{path} is not a table of numbers: {error}.") from error
    words = [text for text in table.iloc[0] if isinstance(text, str)]
    named = bool(words) and not any(_is_number(text) or MEANT_AS_NUMBER.match(text) for text in words)
    rows = table.iloc[1:] if named else table
    _require_numbers(rows, path)
    return rows.to_numpy(np.float64)


def _separator(path: Path) -> str:
    """A semicolon if the first line that is not blank has some, and no comma."""
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        first = next((line for line in file if line.strip()), "")
    return ";" if ";" in first and "," not in first else ","


def _require_numbers(rows: "DataFrame", path: Path) -> None:
    """Raise at the first cell that is neither a number nor empty; rows are labelled by their places in the file."""
    for row, cells in rows.iterrows():
        for column, text in enumerate(cells):
            if isinstance(text, str) and not _is_number(text):
                raise ValueError(
                    f"{path} holds {text!r} in row {int(str(row)) + 1}, column {column + 1} (blank lines not counted), "
                    "which is not a number. Write numbers with decimal points, and commas or semicolons between them; "
                    "names may stand in the first row alone, above all columns."
                )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except (TypeError, ValueError):
        return False
    return True


def _parquet(path: Path) -> np.ndarray:
    from pandas import read_parquet

    try:
        return read_parquet(path).to_numpy()
    except ImportError as error:
        raise StorageError(f"To read {path}, pyarrow must be installed: pip install 'suffice[parquet]'.") from error


def _numbers(values: np.ndarray, path: Path) -> np.ndarray:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} holds something that is not a number: {error}.") from error
