"""Modules as plain values and arrays, and back: how a fitted family is written to a file without pickle.

A module of this library is written field by field. A module of the user's own is written as its arrays only, and comes
back by filling them into a template that the user gives.
"""

from dataclasses import fields
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from numpyro.distributions import constraints

from suffice.charts import Chart
from suffice.errors import StorageError
from suffice.family.envelope import Envelope
from suffice.family.exponential import ExponentialFamily, SharedBase
from suffice.family.gaussian import ConditionalGaussian
from suffice.family.natural import Natural
from suffice.family.normaliser import Normaliser
from suffice.family.region import Region
from suffice.family.regression import Regression
from suffice.family.statistics import AdditiveMarkov, Affine, DeepSet, Innovations, Mlp, PartiallyExchangeable, softplus

_MODULES: dict[str, type[eqx.Module]] = {
    cls.__name__: cls
    for cls in (
        ExponentialFamily,
        SharedBase,
        Natural,
        Regression,
        Envelope,
        Normaliser,
        ConditionalGaussian,
        Region,
        Chart,
        Mlp,
        DeepSet,
        AdditiveMarkov,
        PartiallyExchangeable,
        Innovations,
        Affine,
    )
}
_ACTIVATIONS = {"softplus": softplus, "tanh": jnp.tanh, "silu": jax.nn.silu, "gelu": jax.nn.gelu, "elu": jax.nn.elu}
_FIXED_SUPPORTS = {
    name: getattr(constraints, name)
    for name in ("real", "real_vector", "positive", "nonnegative", "unit_interval", "simplex")
}
_BOUNDED_SUPPORTS = {
    name: getattr(constraints, name)
    for name in ("greater_than", "greater_than_eq", "less_than", "less_than_eq", "interval", "open_interval")
}
_PRIOR_ARGUMENTS = {  # of distributions whose parameters are not all of their arguments, or more than those
    "Independent": ("base_dist", "reinterpreted_batch_ndims"),
    "LeftTruncatedDistribution": ("base_dist", "low"),
    "RightTruncatedDistribution": ("base_dist", "high"),
    "TwoSidedTruncatedDistribution": ("base_dist", "low", "high"),
    "MultivariateNormal": ("loc", "scale_tril"),
}


def encode(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """`value` as JSON; its arrays are added to `arrays` under running names."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple | list):
        return {"tuple": [encode(item, arrays) for item in value]}
    if isinstance(value, jax.Array | np.ndarray):
        name = f"array{len(arrays):04}"
        arrays[name] = np.asarray(value)
        return {"array": name}
    if isinstance(value, constraints.Constraint):
        return {"support": _encode_support(value)}
    for name, activation in _ACTIVATIONS.items():
        if value is activation:
            return {"activation": name}
    if _MODULES.get(type(value).__name__) is type(value):
        parts = {part.name: encode(getattr(value, part.name), arrays) for part in fields(value)}
        return {"module": type(value).__name__, "fields": parts}
    leaves = [leaf for leaf in jax.tree.leaves(value) if eqx.is_array(leaf)]
    return {"own": type(value).__qualname__, "leaves": [encode(leaf, arrays) for leaf in leaves]}


def decode(code: Any, arrays: dict[str, np.ndarray], template: Any = None) -> Any:
    """The value again; `template`, of the same structure, gives what is not of this library."""
    if not isinstance(code, dict):
        return code
    if "tuple" in code:
        items = code["tuple"]
        alike = isinstance(template, tuple | list) and len(template) == len(items)
        parts = template if alike else [None] * len(items)
        return tuple(decode(item, arrays, part) for item, part in zip(items, parts, strict=True))
    if "array" in code:
        return jnp.asarray(arrays[code["array"]])
    if "support" in code:
        return _decode_support(code["support"])
    if "activation" in code:
        return _ACTIVATIONS[code["activation"]]
    if "module" in code:
        module = object.__new__(_MODULES[code["module"]])
        for name, part in code["fields"].items():
            object.__setattr__(module, name, decode(part, arrays, getattr(template, name, None)))
        return module
    return _fill(code, [decode(leaf, arrays) for leaf in code["leaves"]], template)


def _fill(code: dict[str, Any], leaves: list[jax.Array], template: Any) -> Any:
    own = code["own"]
    if template is None or type(template).__qualname__ != own:
        raise StorageError(
            f"The file holds a network of your own, {own}, which cannot be rebuilt from the file alone. Load it with "
            f"suffice.Fit.load(path, template=family), where family was made as for the fit"
            + ("." if template is None else f"; this template has a {type(template).__qualname__} in that place.")
        )
    parts, structure = jax.tree.flatten(template)
    places = [i for i, part in enumerate(parts) if eqx.is_array(part)]
    shapes, expected = [leaf.shape for leaf in leaves], [parts[i].shape for i in places]
    if shapes != expected:
        raise StorageError(f"The template's {own} has arrays of shapes {expected}, but the file's has {shapes}.")
    for place, leaf in zip(places, leaves, strict=True):
        parts[place] = leaf
    return jax.tree.unflatten(structure, parts)


def encode_prior(prior: dist.Distribution | None, arrays: dict[str, np.ndarray]) -> Any:
    """A prior as JSON, by the names of numpyro's own distributions; None for a distribution of another kind."""
    if prior is None:
        return None
    name = type(prior).__name__
    names = _PRIOR_ARGUMENTS.get(name, tuple(prior.arg_constraints))
    if getattr(dist, name, None) is not type(prior) or not names:
        return None
    code: dict[str, Any] = {}
    for argument in names:
        value = getattr(prior, argument)
        nested = isinstance(value, dist.Distribution)
        code[argument] = encode_prior(value, arrays) if nested else encode(value, arrays)
        if code[argument] is None:
            return None
    return {"prior": name, "arguments": code}


def decode_prior(code: Any, arrays: dict[str, np.ndarray]) -> dist.Distribution | None:
    """The prior again."""
    if code is None:
        return None
    nested = {name: isinstance(value, dict) and "prior" in value for name, value in code["arguments"].items()}
    arguments = {
        name: decode_prior(value, arrays) if nested[name] else decode(value, arrays)
        for name, value in code["arguments"].items()
    }
    return getattr(dist, code["prior"])(**arguments)


def _encode_support(support: constraints.Constraint) -> Any:
    if isinstance(support, constraints.cat):
        parts = [_encode_support(part) for part in support.cseq]
        return {"kind": "cat", "parts": parts, "dim": support.dim, "lengths": list(support.lengths)}
    if isinstance(support, constraints.independent):
        base = _encode_support(support.base_constraint)
        return {"kind": "independent", "base": base, "event": support.reinterpreted_batch_ndims}
    for name, fixed in _FIXED_SUPPORTS.items():
        if type(support) is type(fixed):
            return {"kind": name}
    for name, cls in _BOUNDED_SUPPORTS.items():
        if type(support) is cls:
            ends = (vars(support).get(end) for end in ("lower_bound", "upper_bound"))
            return {"kind": name, "bounds": [np.asarray(end).tolist() for end in ends if end is not None]}
    raise StorageError(f"The support {support!r} cannot be written to a file.")


def _decode_support(code: Any) -> constraints.Constraint:
    kind = code["kind"]
    if kind == "cat":
        return constraints.cat([_decode_support(part) for part in code["parts"]], code["dim"], code["lengths"])
    if kind == "independent":
        return constraints.independent(_decode_support(code["base"]), code["event"])
    if kind in _FIXED_SUPPORTS:
        return _FIXED_SUPPORTS[kind]
    return _BOUNDED_SUPPORTS[kind](*(np.asarray(end, np.float32)[()] for end in code["bounds"]))
