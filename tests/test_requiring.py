"""What is given is taken as it is, or refused in a sentence."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from suffice.errors import ModelError
from suffice.requiring import require_kind, require_numbers, require_whole

MASKED = np.ma.masked_array(np.ones(5), np.arange(5) == 2)
NO_NUMBERS: dict[str, tuple[Any, str]] = {
    "masked": (MASKED, "Some values of the observation are masked.*Fill them in"),
    "a row of several masked": ([MASKED, np.ones(5)], "Some values of the observation are masked"),
    "complex": (np.ones(5) + 1j, "values of type complex128, but must be real"),
    "complex by JAX": (jnp.ones(5) + 1j, "values of type complex64, but must be real"),
    "words": (["1", "2", "3", "4", "five"], "values of type <U4, but must be real"),
    "ragged": ([[1.0, 2.0], [3.0]], r"The observation \(a list\) cannot be read as an array"),
    "dictionary": ({"x": 1.0}, r"The observation \(a dict\) cannot be read as an array"),
}


@pytest.mark.parametrize(("values", "words"), NO_NUMBERS.values(), ids=NO_NUMBERS.keys())
def test_what_is_no_array_of_real_numbers_is_refused(values: Any, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        require_numbers(values, "the observation")


def test_what_can_be_read_without_loss_is_taken() -> None:
    unmasked = np.ma.masked_array(np.arange(5.0), np.zeros(5, bool))
    for values in (unmasked, np.arange(5), np.arange(5.0).astype(object), jnp.arange(5.0), range(5)):
        found = require_numbers(values, "x")
        np.testing.assert_array_equal(found, np.arange(5.0))
        assert type(found) is np.ndarray


@pytest.mark.parametrize(
    ("value", "given"),
    [("2", "'2'"), (None, "None"), ([2], "of type list"), (float, "the class float"), (int, "the class int")],
)
def test_another_kind_is_told_what_it_is(value: Any, given: str) -> None:
    require_kind(2, int, "x", "a number")
    with pytest.raises(TypeError, match=f"^x is {given}, but must be a number.$"):
        require_kind(value, int, "x", "a number")


def test_whole_numbers_may_be_of_numpy() -> None:
    assert type(require_whole("num", np.int64(3), 1)) is int
    for value in (0, -1, 2.5, True, "3", None):
        with pytest.raises(ValueError, match=r"num is .*, but must be a whole number of at least 1"):
            require_whole("num", value, 1)
