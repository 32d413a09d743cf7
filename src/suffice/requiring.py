"""Checks of what is given, shared by all that take it: each refuses in a sentence."""

from typing import Any

import numpy as np

from suffice.errors import ModelError


def require_numbers(values: Any, what: str) -> np.ndarray:
    """`values` as an array of real numbers; refused where something would be lost on the way, such as a mask.

    >>> require_numbers([1, 2.5], "the observation").tolist()
    [1.0, 2.5]
    """
    if any(map(np.ma.is_masked, values if isinstance(values, list | tuple) else [values])):
        raise ModelError(
            f"Some values of {what} are masked, but all must be known: what a mask hides would be taken for data. "
            "Fill them in, or fit a model of the values that are there."
        )
    try:
        array = np.asarray(values)
        if array.dtype == object:
            array = array.astype(float)
    except (TypeError, ValueError) as error:
        raise ModelError(
            f"{_sentence(what)} (a {type(values).__name__}) cannot be read as an array of numbers: {error}. Give an "
            "array, or nested lists of the same length."
        ) from error
    if array.dtype.kind in "cmMSTU":
        raise ModelError(
            f"{_sentence(what)} has values of type {array.dtype}, but must be real numbers. Convert them first "
            "(real and imaginary parts to two coordinates)."
        )
    return array


def require_kind(value: Any, kind: Any, what: str, expected: str) -> None:
    """Refuse what is no object of a kind (a class, a protocol, or several), and a class in place of its object."""
    if isinstance(value, kind) and not isinstance(value, type):
        return
    if isinstance(value, type):
        given = f"the class {value.__name__}"
    else:
        given = repr(value) if isinstance(value, str | int | float | None) else f"of type {type(value).__name__}"
    raise TypeError(f"{what} is {given}, but must be {expected}.")


def require_whole(name: str, value: Any, least: int) -> int:
    """`value`, if it is a whole number of at least `least`, of Python or numpy."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} is {value!r}, but must be a whole number of at least {least}.")
    return int(value)


def _sentence(what: str) -> str:
    return what[:1].upper() + what[1:]
