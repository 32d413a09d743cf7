"""Samplers of posteriors from a fitted family, and the verbs `sample` and `sample_each` for every method."""

from suffice.sampling.direct import Direct as Direct
from suffice.sampling.exchange import Exchange as Exchange
from suffice.sampling.inner import InnerDrift as InnerDrift
from suffice.sampling.inner import diagnose_inner as diagnose_inner
from suffice.sampling.kernels import Hmc as Hmc
from suffice.sampling.kernels import Kernel as Kernel
from suffice.sampling.kernels import RandomWalk as RandomWalk
from suffice.sampling.likelihood import MaximumLikelihood as MaximumLikelihood
from suffice.sampling.likelihood import maximum_likelihood as maximum_likelihood
from suffice.sampling.likelihood import profile as profile
from suffice.sampling.running import Method as Method
from suffice.sampling.running import sample as sample
from suffice.sampling.running import sample_each as sample_each
