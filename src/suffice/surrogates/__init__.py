"""Surrogate likelihoods of given statistics, the paper's rivals: synthetic likelihood and ratio estimation."""

from suffice.surrogates.ratio import RatioEstimation as RatioEstimation
from suffice.surrogates.synthetic import SyntheticLikelihood as SyntheticLikelihood
