"""Pictures: each function returns a matplotlib figure, to show or to save with `.savefig(path)`."""

from suffice.plot.calibrating import calibration as calibration
from suffice.plot.calibrating import coverage as coverage
from suffice.plot.calibrating import ecdf as ecdf
from suffice.plot.calibrating import histogram as histogram
from suffice.plot.comparing import comparison as comparison
from suffice.plot.comparing import convergence as convergence
from suffice.plot.draws import pair as pair
from suffice.plot.draws import ranks as ranks
from suffice.plot.draws import trace as trace
from suffice.plot.learning import embedding as embedding
from suffice.plot.learning import training as training
from suffice.plot.prediction import bands as bands
from suffice.plot.prediction import predictive_check as predictive_check
from suffice.plot.prediction import scores as scores
