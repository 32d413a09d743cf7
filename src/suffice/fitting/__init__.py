"""Fitting: one loop for every objective, its settings, and the value it ends in."""

from suffice.fitting.history import History as History
from suffice.fitting.result import Fit as Fit
from suffice.fitting.run import fit as fit
from suffice.fitting.training import Training as Training
