"""What tells one model from another when simulations are to be added to a store."""

import hashlib
import inspect
import re
import textwrap
import types
from typing import Any

import jax
import numpy as np
from numpyro.distributions import Distribution

from suffice.charts import describe
from suffice.model import Model


def fingerprint(model: Model) -> dict[str, str]:
    """Digests of the parts of a model, by name: prior, support, shape and simulator.

    The simulator is known by its traced program (JAX code, in the same version of JAX), by its source text and the
    plain values it closes over (a Python function), or by its words (a command).
    """
    return {
        "parameters": ", ".join(model.names),
        "shape of x": " × ".join(map(str, model.data_shape)),
        "support": describe(model.support),
        "prior": _digest(_parts(model.prior)),
        "simulator": _simulator(model),
    }


def _parts(distribution: Any) -> Any:
    """The type and parameters of a distribution, and of those it is made from; the same in every process."""
    made_from = {name for name, value in vars(distribution).items() if isinstance(value, Distribution)}
    names = sorted({*getattr(distribution, "arg_constraints", {}), *made_from})
    values = [getattr(distribution, name) for name in names]
    changed = [_parts(transform) for transform in getattr(distribution, "transforms", [])]
    numbers = [_parts(value) if isinstance(value, Distribution) else _rounded(value) for value in values]
    own = (
        []
        if isinstance(distribution, Distribution)
        else [f"{name} {value}" for name, value in sorted(vars(distribution).items()) if name[0] != "_"]
    )
    return [type(distribution).__name__, names, numbers, changed, own]


def _rounded(value: Any) -> Any:
    numbers = np.asarray(value)
    return [f"{number:.5g}" for number in numbers.ravel()] if numbers.dtype.kind in "fiu" else str(value)


def _simulator(model: Model) -> str:
    if model.outside is None:
        theta = jax.ShapeDtypeStruct((model.num_parameters,), jax.dtypes.canonicalize_dtype(float))
        program = jax.make_jaxpr(lambda key, theta: model.simulator(key, theta))(jax.random.key(0), theta)
        constants = [np.asarray(constant).tolist() for constant in program.consts if not _is_key(constant)]
        return f"JAX {jax.__version__} program {_digest([_plain(str(program)), constants])}"
    if model.outside.argv:
        return f"command {' '.join(model.outside.argv)}"
    return f"function {_digest(_function(model.outside.function))}"


def _function(function: Any) -> Any:
    """The source of a function and the plain values that it holds."""
    if not isinstance(function, types.FunctionType):
        call = vars(type(function)).get("__call__")
        return [type(function).__qualname__, _function(call) if isinstance(call, types.FunctionType) else ""]
    try:
        text = textwrap.dedent(inspect.getsource(function))
    except (OSError, TypeError):
        text = function.__code__.co_code.hex()
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [text, *(_value(value) for value in (*cells, *(function.__defaults__ or ())))]


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, types.FunctionType):
        return _function(value)
    return repr(value) if isinstance(value, int | float | complex | str | bytes | tuple | list | dict | None) else ""


def _is_key(value: Any) -> bool:
    return isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)


def _plain(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+|id=\d+", "", text)


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode()).hexdigest()[:16]
