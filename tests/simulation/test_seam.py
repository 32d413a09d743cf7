"""One seam: everything that simulates takes the same executors, and gives the same numbers with any."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from tests.simulation.outside import outside
from typer.testing import CliRunner

import suffice as sf
from suffice.cli import app
from suffice.simulation import at, checking_outside, running

KEY = jax.random.key(3)
OBSERVED = np.array([0.1, 0.9, -0.4, 1.2])


class Counting(ThreadPoolExecutor):
    """How often it was asked for something."""

    asked = 0

    def submit(self, function: Callable[..., Any], /, *given: Any, **named: Any) -> "Future[Any]":
        self.asked += 1
        return super().submit(function, *given, **named)


@dataclass(frozen=True)
class Guess:
    """A method of inference that looks at nothing."""

    names: tuple[str, ...]

    def observation(self, observed: Any, *, iid: bool) -> np.ndarray:
        return np.asarray(observed)

    def sample_each(self, key: Any, observations: Any, run: Any) -> list[sf.Posterior]:
        generator = np.random.default_rng(0)
        draws = generator.uniform([0, 1], [1, 2], (len(observations), run.num_chains, run.num_draws, 2))
        return [sf.Posterior(one, self.names, info={"method": "Guess"}) for one in draws]


def posterior() -> sf.Posterior:
    draws = np.random.default_rng(1).uniform([0, 1], [1, 2], (1, 300, 2))
    return sf.Posterior(draws, ("mean", "sd"))


STAGES: dict[str, Callable[[sf.Model, Any], Any]] = {
    "simulate": lambda model, where: sf.simulate(KEY, model, 60, executor=where).x,
    "check": lambda model, where: sf.check(model, executor=where).ok,
    "predictive": lambda model, where: posterior().predictive(KEY, model, 50, replicates=2, executor=where),
    "predictive_check": lambda model, where: (
        sf.diagnostics.predictive_check(KEY, model, posterior(), OBSERVED, num=300, executor=where).predicted
    ),
    "prior_predictive_check": lambda model, where: (
        sf.diagnostics.prior_predictive_check(KEY, model, OBSERVED, num=300, executor=where).predicted
    ),
    "calibrate": lambda model, where: (
        sf.diagnostics.calibrate(KEY, model, Guess(model.names), 25, num_draws=60, executor=where).theta
    ),
    "kernel_bandwidth": lambda model, where: sf.diagnostics.kernel_bandwidth(KEY, model, 50, executor=where),
    "Annealing": lambda model, where: sf.sample(KEY, annealing(model, where), OBSERVED).draws,
}


def annealing(model: sf.Model, where: Any) -> sf.Annealing:
    return sf.Annealing(model, summary, particles=20, iterations=2, scale_simulations=50, executor=where)


def summary(x: Any) -> np.ndarray:
    return np.array([np.mean(x), np.std(x)])


@pytest.mark.filterwarnings("ignore::suffice.SamplingWarning")
@pytest.mark.parametrize("stage", STAGES)
def test_the_executor_is_used_and_changes_no_number(stage: str) -> None:
    model = outside()
    with Counting(2) as executor:
        there = STAGES[stage](model, executor)
    assert executor.asked > 0
    np.testing.assert_array_equal(there, STAGES[stage](model, None))
    with pytest.raises(TypeError, match=r"executor is .*, but must be None"):
        STAGES[stage](model, object())


USER_FILE = """
import jax.numpy as jnp, numpyro.distributions as dist, suffice as sf
from tests.simulation import simulators

prior = dist.Uniform(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])).to_event(1)
model = sf.Model.external(prior, simulators.normal, names=("mean", "sd"), exchangeable=True)
"""


@pytest.mark.filterwarnings("ignore::suffice.SamplingWarning")
def test_the_command_hands_its_workers_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    workers_of = running.workers_of

    def noted(where: Any) -> Any:
        asked.append(where)
        return workers_of(where)

    for module in (running, at, checking_outside):
        monkeypatch.setattr(module, "workers_of", noted)
    (tmp_path / "mine.py").write_text(USER_FILE)
    np.savetxt(tmp_path / "data.csv", OBSERVED)
    monkeypatch.chdir(tmp_path)

    def call(name: str, *arguments: object, code: int = 0) -> str:
        result = CliRunner().invoke(app, [name, "mine.py:model", *map(str, arguments)])
        assert result.exit_code == code, result.output
        return " ".join(result.output.split())

    call("check", "--workers", 3)
    assert set(asked) == {3}
    commands: list[tuple[Any, ...]] = [
        ("simulate", "--num", 200),
        ("sample", "data.csv", "--method", "rejection"),
        ("report", "--calibration", 0),
        ("compare", "--methods", "rejection", "--observations", 2, "--budget", 2000),
    ]
    for command in commands:
        if command[0] == "sample":
            call("fit", "--epochs", 2, "--quiet")
        asked.clear()
        call(*command, "--workers", 2, "--quiet")
        assert asked
        assert set(asked) == {2}, command
    assert "exclude each other" in call("check", "--workers", 2, "--dask", "tcp://127.0.0.1:1", code=2)
