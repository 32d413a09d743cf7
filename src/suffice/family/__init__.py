"""The conditional exponential family, its networks, and the regression that rivals it."""

from suffice.family import statistics as statistics
from suffice.family.exponential import ExponentialFamily as ExponentialFamily
from suffice.family.exponential import SharedBase as SharedBase
from suffice.family.natural import Natural as Natural
from suffice.family.regression import Regression as Regression
