"""What can go wrong, by name. Every message says what was given, what was expected and what to do."""


class ModelError(ValueError):
    """A model whose parts do not fit together, or whose simulator does not keep its word."""


class SupportError(ValueError):
    """A value on or outside the bounds it was declared to lie within."""


class StorageError(ValueError):
    """A file that is not there, not whole, not ours, or of a newer version."""


class SimulationWarning(UserWarning):
    """Some simulations cannot be used."""


class TrainingError(RuntimeError):
    """A training that gave nothing to keep."""


class TrainingWarning(UserWarning):
    """A training whose result should be looked at before it is used."""


class SamplingWarning(UserWarning):
    """Draws that should not be believed as they are."""


class SamplingError(RuntimeError):
    """A run that gave no draws worth keeping."""
