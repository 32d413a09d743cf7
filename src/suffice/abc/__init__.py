"""ABC: posteriors from simulations whose statistics come near the observed ones."""

from suffice.abc.annealing import Annealing as Annealing
from suffice.abc.distances import Euclidean as Euclidean
from suffice.abc.distances import Mahalanobis as Mahalanobis
from suffice.abc.markov import MarkovAbc as MarkovAbc
from suffice.abc.population import PopulationAbc as PopulationAbc
from suffice.abc.rejection import Rejection as Rejection
from suffice.abc.sequential import SequentialAbc as SequentialAbc
from suffice.abc.statistics import autocovariances as autocovariances
