"""Models by name, or from a user's file."""

import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from suffice import zoo
from suffice.errors import ModelError
from suffice.model import Model

MODELS: dict[str, Callable[[], Model]] = {
    "gaussian": zoo.gaussian,
    "gamma": zoo.gamma,
    "beta": zoo.beta,
    "ar2": zoo.ar2,
    "ma2": zoo.ma2,
    "lorenz96-small": lambda: zoo.lorenz96("small"),
    "lorenz96-large": lambda: zoo.lorenz96("large"),
}


def model_of(text: str) -> Model:
    """The model that `text` names: one of ours, or `path/to/file.py:name` of a `Model` or a function that makes one."""
    if text in MODELS:
        return MODELS[text]()
    path, _, name = text.rpartition(":")
    if not path.endswith(".py") or not name:
        raise ModelError(
            f"There is no model {text!r}. Give one of {', '.join(MODELS)}, or a file and a name: path/to/file.py:model."
        )
    return _from_file(Path(path), name)


def _from_file(path: Path, name: str) -> Model:
    if not path.is_file():
        raise ModelError(f"There is no file {path}.")
    specification = importlib.util.spec_from_file_location(path.stem, path)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[path.stem] = module  # so that worker processes find functions of this file
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        specification.loader.exec_module(module)
    except ModelError:
        raise
    except Exception as error:
        line = next(
            (at.lineno for at in reversed(traceback.extract_tb(error.__traceback__)) if at.filename == str(path)), 0
        )
        where = f"{path}, line {line}" if line else str(path)
        raise ModelError(f"{where}: {type(error).__name__}: {error}") from error
    if not hasattr(module, name):
        found = [key for key, value in vars(module).items() if isinstance(value, Model)]
        known = f"It has the models {', '.join(found)}." if found else "It holds no Model at its top level."
        raise ModelError(f"{path} has no name {name!r}. {known}")
    value = getattr(module, name)
    made = value() if callable(value) and not isinstance(value, Model) else value
    if not isinstance(made, Model):
        raise ModelError(f"{name} in {path} is a {type(made).__name__}, but must be a suffice Model or make one.")
    return made
