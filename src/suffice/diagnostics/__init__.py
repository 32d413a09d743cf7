"""Diagnostics: whether to believe it."""

from suffice.diagnostics.identifiability import Mcc as Mcc
from suffice.diagnostics.identifiability import mcc as mcc
