"""`sample` and `sample_each`: what is given is checked before any method sees it."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import suffice as sf
from suffice.sampling.running import checked_rows
from tests.conjugate import Sampler, model

ROOT = Path(__file__).parents[2]
OBSERVED = np.linspace(-1.0, 1.0, 10)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("direct", "method is 'direct', but must be a settings object: Direct"),
        (Sampler, "method is the class Sampler, but must be"),
        (model(), r"method is of type Model, but must be a settings object: Direct\(fit\), Exchange\(fit\), or"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_what_is_no_method_is_refused(method: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        sf.sample(jax.random.key(0), method, OBSERVED)


@pytest.mark.usefixtures("unchecked_types")
def test_numbers_of_draws_may_be_of_numpy() -> None:
    num: Any = np.int64(150)
    post = sf.sample(jax.random.key(0), Sampler(), OBSERVED, num_draws=num, num_chains=np.int32(4))  # type: ignore[arg-type]
    assert post.draws.shape == (4, 150, 2)


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        (np.ma.masked_array(OBSERVED, OBSERVED > 0), "are masked"),
        (OBSERVED + 1j, "values of type complex128"),
        ([[1.0, 2.0], [3.0]], "cannot be read as an array"),
        ({"x": OBSERVED}, "cannot be read as an array"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_observations_that_are_no_real_numbers_are_refused(observed: Any, words: str) -> None:
    key = jax.random.key(0)
    for refused in (
        lambda: sf.sample(key, Sampler(), observed),
        lambda: sf.sample_each(key, Sampler(), [observed]),
        lambda: model().observation(observed),
    ):
        with pytest.raises(sf.ModelError, match=words):
            refused()


def test_the_observation_that_is_wrong_is_named() -> None:
    rows = np.stack([OBSERVED, OBSERVED, OBSERVED])
    rows[1, 3] = np.nan
    with pytest.raises(sf.SupportError, match=r"^Observation 1 of 3, counted from 0: The value at coordinate 3 of"):
        checked_rows(model(), rows)
    with pytest.raises(sf.SupportError, match=r"^Observation 0 of 2, counted from 0: Row 1, coordinate 3 of"):
        checked_rows(model(), np.stack([rows, rows]), iid=True)
    with pytest.raises(sf.SupportError, match=r"^The value at coordinate 3 of the observation is nan"):
        checked_rows(model(), rows[1:2])


def test_warnings_point_at_the_line_that_called(tmp_path: Path) -> None:
    """In a process of its own, without the frames of run-time type checks."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import warnings, jax, numpy as np, suffice as sf
            from tests.conjugate import Sampler
            x, few = np.zeros((2, 10)), {"num_draws": 20}
            def inside():
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    sf.sample(jax.random.key(0), Sampler(), x[0], **few)
                    sf.sample_each(jax.random.key(0), Sampler(), x, **few)
                print([(w.filename == __file__, w.lineno) for w in caught])
            inside()
            """
        ).lstrip()
    )
    environment = os.environ | {"PYTHONPATH": f"{Path(sf.__file__).parents[1]}{os.pathsep}{ROOT}"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[(True, 7), (True, 8)]"
