"""A model: what is inferred. Prior × simulator × support; and how simulators that are no JAX code are run."""

from suffice.model.definition import Model as Model
from suffice.model.definition import require_model as require_model
from suffice.model.external import External as External
