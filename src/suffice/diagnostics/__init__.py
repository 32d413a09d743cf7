"""Diagnostics: whether to believe it."""

from suffice.diagnostics.calibration import Coverage as Coverage
from suffice.diagnostics.calibration import coverage as coverage
from suffice.diagnostics.calibration import sbc as sbc
from suffice.diagnostics.calibration import tarp as tarp
from suffice.diagnostics.convergence import ess as ess
from suffice.diagnostics.convergence import rhat as rhat
from suffice.diagnostics.convergence import summary as summary
from suffice.diagnostics.discrepancy import c2st as c2st
from suffice.diagnostics.discrepancy import mean_error as mean_error
from suffice.diagnostics.discrepancy import mmd as mmd
from suffice.diagnostics.discrepancy import wasserstein as wasserstein
from suffice.diagnostics.identifiability import Mcc as Mcc
from suffice.diagnostics.identifiability import mcc as mcc
from suffice.diagnostics.misfit import PredictiveCheck as PredictiveCheck
from suffice.diagnostics.misfit import outside_training as outside_training
from suffice.diagnostics.misfit import predictive_check as predictive_check
from suffice.diagnostics.misfit import prior_predictive_check as prior_predictive_check
from suffice.diagnostics.ranks import Ranks as Ranks
from suffice.diagnostics.scoring import Score as Score
from suffice.diagnostics.scoring import energy_score as energy_score
from suffice.diagnostics.scoring import kernel_bandwidth as kernel_bandwidth
from suffice.diagnostics.scoring import kernel_score as kernel_score
from suffice.diagnostics.verdict import Calibration as Calibration
from suffice.diagnostics.verdict import calibrate as calibrate
from suffice.diagnostics.verdict import judge as judge
