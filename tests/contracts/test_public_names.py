"""What `import suffice` gives, and what it must not do yet."""

import subprocess
import sys

import suffice as sf

NAMES = """Annealing Chart Check Comparison Direct Euclidean Exchange ExponentialFamily Fit Mahalanobis MarkovAbc Model
ModelError PopulationAbc Posterior PosteriorMean RatioEstimation Rejection SamplingError SamplingWarning ScoreMatching
SequentialAbc SimulationWarning Simulations SlicedScoreMatching Status StorageError SupportError SyntheticLikelihood
Training TrainingError TrainingWarning autocovariances check compare diagnose_inner diagnostics fit load
maximum_likelihood merge plot profile report sample sample_each simulate statistics zoo"""


def test_the_names_of_the_package() -> None:
    for name in NAMES.split():
        assert getattr(sf, name) is not None


ALONE = """
import sys
sys.modules["fcntl"] = None  # as on Windows
import suffice
from jax._src import xla_bridge
assert not xla_bridge._backends, "importing suffice has started JAX's backend"
assert "blackjax" not in sys.modules
import jax
jax.config.update("jax_num_cpu_devices", 3)  # refused once the backend is there
assert jax.device_count() == 3
assert suffice.Exchange.__name__ == "Exchange"
"""


def test_importing_chooses_nothing_for_the_user() -> None:
    """No backend of JAX is started, and nothing is needed that Windows has not."""
    subprocess.run([sys.executable, "-W", "ignore", "-c", ALONE], check=True, timeout=120)
