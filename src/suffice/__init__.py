"""suffice: likelihood-free inference with learned sufficient statistics."""

from importlib.metadata import version as _version

from suffice import diagnostics as diagnostics
from suffice import plot as plot
from suffice import zoo as zoo
from suffice.abc import Annealing as Annealing
from suffice.abc import Euclidean as Euclidean
from suffice.abc import Mahalanobis as Mahalanobis
from suffice.abc import MarkovAbc as MarkovAbc
from suffice.abc import PopulationAbc as PopulationAbc
from suffice.abc import Rejection as Rejection
from suffice.abc import SequentialAbc as SequentialAbc
from suffice.abc import autocovariances as autocovariances
from suffice.charts import Chart as Chart
from suffice.compare import Comparison as Comparison
from suffice.compare import compare as compare
from suffice.errors import ModelError as ModelError
from suffice.errors import SamplingError as SamplingError
from suffice.errors import SamplingWarning as SamplingWarning
from suffice.errors import SimulationWarning as SimulationWarning
from suffice.errors import StorageError as StorageError
from suffice.errors import SupportError as SupportError
from suffice.errors import TrainingError as TrainingError
from suffice.errors import TrainingWarning as TrainingWarning
from suffice.family import ExponentialFamily as ExponentialFamily
from suffice.family import statistics as statistics
from suffice.fitting import Fit as Fit
from suffice.fitting import Training as Training
from suffice.fitting import fit as fit
from suffice.matching import PosteriorMean as PosteriorMean
from suffice.matching import ScoreMatching as ScoreMatching
from suffice.matching import SlicedScoreMatching as SlicedScoreMatching
from suffice.model import Model as Model
from suffice.posterior import Posterior as Posterior
from suffice.report import report as report
from suffice.sampling import Direct as Direct
from suffice.sampling import Exchange as Exchange
from suffice.sampling import diagnose_inner as diagnose_inner
from suffice.sampling import maximum_likelihood as maximum_likelihood
from suffice.sampling import profile as profile
from suffice.sampling import sample as sample
from suffice.sampling import sample_each as sample_each
from suffice.simulation import Check as Check
from suffice.simulation import Simulations as Simulations
from suffice.simulation import Status as Status
from suffice.simulation import check as check
from suffice.simulation import merge as merge
from suffice.simulation import simulate as simulate
from suffice.storage import load as load
from suffice.surrogates import RatioEstimation as RatioEstimation
from suffice.surrogates import SyntheticLikelihood as SyntheticLikelihood

__version__ = _version("suffice")
