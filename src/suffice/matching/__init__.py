"""Score matching: derivatives of the fitted log-density, and the objectives made of them."""

from suffice.matching.derivatives import Dense as Dense
from suffice.matching.derivatives import DirectionByDirection as DirectionByDirection
from suffice.matching.derivatives import Engine as Engine
from suffice.matching.derivatives import ForwardLaplacian as ForwardLaplacian
from suffice.matching.derivatives import ScoreAndCurvature as ScoreAndCurvature
from suffice.matching.derivatives import sliced_curvature as sliced_curvature
from suffice.matching.objectives import PosteriorMean as PosteriorMean
from suffice.matching.objectives import ScoreMatching as ScoreMatching
from suffice.matching.objectives import SlicedScoreMatching as SlicedScoreMatching
