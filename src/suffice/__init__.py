"""suffice: likelihood-free inference with learned sufficient statistics."""

from importlib.metadata import version as _version

from suffice import zoo as zoo
from suffice.charts import Chart as Chart
from suffice.errors import ModelError as ModelError
from suffice.errors import SimulationWarning as SimulationWarning
from suffice.errors import StorageError as StorageError
from suffice.errors import SupportError as SupportError
from suffice.model import Model as Model
from suffice.posterior import Posterior as Posterior
from suffice.simulation import Check as Check
from suffice.simulation import Simulations as Simulations
from suffice.simulation import Status as Status
from suffice.simulation import check as check
from suffice.simulation import simulate as simulate
from suffice.storage import load as load

__version__ = _version("suffice")
