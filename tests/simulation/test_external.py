"""Simulators that are no JAX code: the same numbers everywhere, and every way to fail is survived and told."""

import importlib
import multiprocessing
import os
import runpy
import shutil
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from numpyro.distributions import constraints
from tests.simulation import simulators
from tests.simulation.outside import PRIOR, outside

import suffice as sf
from suffice.model import worker
from suffice.simulation import dependence_sentence, simulate_at
from suffice.simulation.dispatch import dispatch
from suffice.simulation.executors import workers_of
from suffice.simulation.makers import maker_of

EXAMPLES = Path(__file__).parents[2] / "examples"
STATUS = sf.Status
LOCK = threading.Lock()


@pytest.fixture(scope="module")
def normal_model() -> sf.Model:
    return outside()


def by_hand(key: jax.Array, model: sf.Model, i: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulation i of a run, with nothing of the library's."""
    key_prior, key_simulator = jax.random.split(jax.random.fold_in(key, i))
    theta = np.asarray(model.prior.sample(key_prior))
    high, low = (int(word) for word in jax.random.key_data(key_simulator))
    rng = np.random.default_rng((high << 32) + low)
    return theta, simulators.normal(dict(zip(model.names, theta.tolist(), strict=True)), rng).astype(np.float32)


def spawning() -> Executor:
    return ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn"))


@pytest.mark.parametrize("make", [lambda: 1, lambda: 2, lambda: ThreadPoolExecutor(3), spawning])
def test_the_same_numbers_from_any_executor(make: Callable[[], Any], key: jax.Array, normal_model: sf.Model) -> None:
    executor = make()
    sims = sf.simulate(key, normal_model, 300, executor=executor)
    if isinstance(executor, Executor):
        executor.shutdown()
    assert sims.num_good == 300
    assert sims.x.dtype == np.float32
    for i in (0, 1, 127, 128, 299):
        theta, x = by_hand(key, normal_model, i)
        np.testing.assert_array_equal(sims.theta[i], theta)
        np.testing.assert_array_equal(sims.x[i], x)


def test_given_parameters(key: jax.Array, normal_model: sf.Model) -> None:
    theta = np.tile([[0.5, 1.5]], (200, 1))
    pairs = simulate_at(key, normal_model, theta, executor=2)
    high, low = (int(word) for word in jax.random.key_data(jax.random.fold_in(key, 150)))
    rng = np.random.default_rng((high << 32) + low)
    np.testing.assert_array_equal(pairs.x[150], rng.normal(0.5, 1.5, 4).astype(np.float32))
    assert len(np.unique(pairs.x[:, 0])) == 200
    np.testing.assert_array_equal(simulate_at(key, normal_model, theta[:60], executor=1).x, pairs.x[:60])


def test_every_way_to_fail_is_marked(key: jax.Array) -> None:
    theta = np.array([[(tenth + 0.5) / 10, 1.0] for tenth in range(10)])
    model = outside(simulators.troubled, time_limit=0.5)
    pairs = simulate_at(key, model, theta)
    assert [STATUS(code).name for code in pairs.status] == [
        *("CRASHED", "CRASHED", "TIMED_OUT", "FAILED", "NOT_FINITE", "WRONG_SHAPE", "FAILED", "FAILED", "GOOD", "GOOD")
    ]
    np.testing.assert_array_equal(pairs.x[8:], simulate_at(key, outside(), theta).x[8:])


def test_reasons_and_regions_are_told(key: jax.Array) -> None:
    words = (
        r"failed with an error\. The most frequent reason: ArithmeticError: the solver did not converge \(.*seldom\)"
    )
    with pytest.warns(sf.SimulationWarning, match=words) as caught:
        sims = sf.simulate(key, outside(simulators.seldom), 200)
    assert "Failures lie at mean from 0.8" in str(caught[0].message)
    failed = sims.theta[:, 0] > 0.8
    assert np.array_equal(sims.status == STATUS.FAILED, failed)
    assert all("did not converge" in text for text in sims.errors[failed])
    assert not any(sims.good.errors)
    assert "failures depend on theta: the median of mean" in str(dependence_sentence(sims))
    with pytest.warns(sf.SimulationWarning, match="failures depend on theta"):
        sf.fit(key, outside(), sims, sf.PosteriorMean(linear=True))


def test_failures_that_do_not_depend_on_theta_do_not_alarm(key: jax.Array) -> None:
    with pytest.warns(sf.SimulationWarning, match="bad luck"):
        sims = sf.simulate(key, outside(simulators.now_and_then), 300)
    assert 20 < 300 - sims.num_good < 100
    assert dependence_sentence(sims) is None


def test_errors_in_files(key: jax.Array, tmp_path: Path) -> None:
    with pytest.warns(sf.SimulationWarning):
        sims = sf.simulate(key, outside(simulators.seldom), 60)
    loaded = sf.load(sims.save(tmp_path / "sims"))
    assert loaded.errors.tolist() == sims.errors.tolist()
    assert any(loaded.errors)


@pytest.mark.parametrize("how", ["crash", "raise"])
def test_retries_use_the_same_seed(how: str, key: jax.Array, tmp_path: Path, normal_model: sf.Model) -> None:
    theta = np.linspace(0.1, 0.9, 6)[:, None] * [[1.0, 1.0]]
    once, twice = (outside(simulators.FailsFirst(str(tmp_path), how), retries=n) for n in (0, 1))
    assert set(simulate_at(key, once, theta[:2]).status) == {STATUS.CRASHED if how == "crash" else STATUS.FAILED}
    pairs = simulate_at(key, twice, theta)
    np.testing.assert_array_equal(pairs.x, simulate_at(key, normal_model, theta).x)


def test_outside_the_support(key: jax.Array) -> None:
    model = outside(support=constraints.positive)
    pairs = simulate_at(key, model, np.tile([[0.5, 1.0]], (50, 1)))
    assert np.array_equal(pairs.status == STATUS.OUTSIDE_SUPPORT, (pairs.x <= 0).any(axis=1))
    assert 0 < np.sum(pairs.status == STATUS.GOOD) < 50


def test_a_worthless_simulator_is_given_up(key: jax.Array) -> None:
    with pytest.raises(sf.ModelError, match=r"of the first \d\d simulations are of no use, most of which .*most often"):
        sf.simulate(key, outside(simulators.troubled, time_limit=0.2), 10**6, executor=1)


def test_anything_that_cloudpickle_sends(key: jax.Array) -> None:
    offset = np.arange(3.0)
    model = sf.Model.external(PRIOR, lambda theta, rng: offset + theta["theta1"] + rng.normal(size=3))
    assert (model.data_shape, model.traceable) == ((3,), False)
    assert simulate_at(key, model, np.ones((2, 2))).x.shape == (2, 3)


def test_python_and_numpy_generators_are_seeded_too(key: jax.Array) -> None:
    model = outside(lambda theta, rng: np.random.normal(size=4))  # noqa: NPY002
    theta = np.ones((3, 2))
    np.testing.assert_array_equal(simulate_at(key, model, theta).x, simulate_at(key, model, theta, executor=1).x)


IMPORTED = """
import jax.numpy as jnp, numpyro.distributions as dist, suffice as sf

def simulator(theta, rng):
    return rng.normal(theta["mean"], theta["sd"], (30, 2))

prior = dist.Uniform(jnp.array([0.0, 1.0]), jnp.array([1.0, 2.0])).to_event(1)
support = [dist.constraints.real, dist.constraints.real]
model = sf.Model.external(prior, simulator, names=("mean", "sd"), support=support, markov_order=2)
"""


def test_a_model_at_the_top_of_a_module(key: jax.Array, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A child imports the simulator's module, and with it makes the model: that must start no other child."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "top_model.py").write_text(IMPORTED)
    model = importlib.import_module("top_model").model
    assert model.data_shape == (30, 2)
    assert sf.simulate(key, model, 3, executor=1).x.shape == (3, 30, 2)
    monkeypatch.setitem(sys.modules, worker.CHILD, types.ModuleType(worker.CHILD))  # from here on, this is a child
    with pytest.raises(RuntimeError, match="Put what simulates under `if __name__"):
        worker.Sandbox(worker.Job(b"", ("true",), (), None, "float32", None, 0))


def test_an_interrupted_run_leaves_nothing_running(key: jax.Array) -> None:
    maker = maker_of(key, outside(simulators.endless))
    with workers_of(2) as workers:
        made: Any = dispatch(maker, [range(100)], workers)
        next(made)
        made.close()  # as KeyboardInterrupt would
    assert threading.active_count() < 50  # reached at all: endless simulations were ended


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"function": 3}, r"must be a function\(theta, rng\)"),
        ({"function": simulators.deterministic, "time_limit": -1.0}, "time_limit is -1.0, but must be a positive"),
        ({"function": simulators.deterministic, "retries": -1}, "retries is -1"),
        ({"function": lambda theta, rng: 1.0}, r"x of shape \(\)"),
        ({"function": lambda theta, rng: theta["c"]}, r"failed at 5 of 5 parameters.*KeyError: 'c'"),
        ({"function": lambda theta, rng: LOCK}, "cannot be sent to another process"),
    ],
)
def test_mistakes_are_sentences(settings: dict[str, Any], words: str, unchecked_types: None) -> None:
    with pytest.raises(sf.ModelError, match=words):
        sf.Model.external(PRIOR, names=("mean", "sd"), **settings)


def test_it_cannot_be_traced(key: jax.Array, normal_model: sf.Model) -> None:
    with pytest.raises(sf.ModelError, match="cannot run inside compiled JAX code"):
        jax.vmap(normal_model.simulator)(jax.random.split(key, 2), jnp.ones((2, 2)))


@pytest.mark.parametrize("executor", [0, -1, True, 2.5, object()])
def test_executors_must_be_executors(executor: Any, key: jax.Array, normal_model: sf.Model) -> None:
    with pytest.raises(TypeError, match=r"executor is .*, but must be None \(all cores\)"):
        simulate_at(key, normal_model, np.ones((1, 2)), executor=executor)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (simulators.normal, ""),
        (simulators.troubled, "failed with an error"),
        (simulators.unseeded, "The same seed and theta give different x"),
        (simulators.deterministic, "x does not change with sd"),
    ],
)
def test_check(function: Callable[..., Any], words: str) -> None:
    found = sf.check(outside(function, time_limit=0.3))
    assert found.ok == (not words)
    assert words in str(found)


def script(folder: Path, text: str) -> list[str]:
    path = folder / "simulator.py"
    path.write_text(f"import json, sys, time\norder = json.load(sys.stdin)\n{text}\n")
    return [sys.executable, "-S", str(path)]


def test_the_example_in_c(key: jax.Array, tmp_path: Path) -> None:
    program = tmp_path / "simulator"
    subprocess.run(["cc", "-o", program, EXAMPLES / "simulator.c", "-lm"], check=True)
    prior = dist.Uniform(jnp.array([-0.9, 0.5]), jnp.array([0.9, 2.0])).to_event(1)
    model = sf.Model.command(prior, [str(program)], names=["phi", "sigma"], markov_order=1)
    assert model.data_shape == (20,)
    x = simulate_at(key, model, np.tile([[0.8, 1.0]], (300, 1))).x
    np.testing.assert_array_equal(x[:2], simulate_at(key, model, np.tile([[0.8, 1.0]], (2, 1))).x)
    assert len(np.unique(x[:, 0])) == 300
    # The stationary variance is 1/(1 − φ²); means over 300 series, whose error is about 8 %.
    assert np.mean(x**2) == pytest.approx(1 / 0.36, rel=0.25)
    assert np.mean(x[:, 1:] * x[:, :-1]) / np.mean(x**2) == pytest.approx(0.8, abs=0.05)


@pytest.mark.skipif(not shutil.which("Rscript"), reason="needs R")
def test_the_example_in_r(key: jax.Array) -> None:
    prior = dist.Uniform(jnp.array([-0.9, 0.5]), jnp.array([0.9, 2.0])).to_event(1)
    argv = ["Rscript", str(EXAMPLES / "simulator.R")]
    if subprocess.run(["Rscript", "-e", "library(jsonlite)"], capture_output=True, check=False).returncode:
        pytest.skip("needs the R package jsonlite")
    model = sf.Model.command(prior, argv, names=["phi", "sigma"], markov_order=1, data_shape=(20,))
    theta = np.array([[0.8, 1.0], [0.8, 1.0], [-0.5, 2.0]])
    pairs = simulate_at(key, model, theta)
    assert (pairs.status == STATUS.GOOD).all()
    assert len(np.unique(pairs.x)) == 60
    np.testing.assert_array_equal(pairs.x[:1], simulate_at(key, model, theta[:1]).x)


@pytest.mark.filterwarnings("ignore::suffice.SamplingWarning", "ignore::suffice.TrainingWarning")
def test_the_example_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the source in C to a picture of the posterior."""
    script = EXAMPLES / "external_command.py"
    assert len(script.read_text().splitlines()) <= 60
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(script), "--quick", "--picture", "posterior.png"])
    runpy.run_path(str(script), run_name="__main__")
    assert (tmp_path / "posterior.png").stat().st_size > 5000
    assert len(sf.load(tmp_path / "simulations.zarr")) == 200
    assert not (EXAMPLES / "simulator").exists()


def test_commands_see_theta_and_a_seed_of_31_bits(key: jax.Array, tmp_path: Path) -> None:
    argv = script(tmp_path, 'print(json.dumps([order["theta"]["a"], order["seed"]]))')
    model = sf.Model.command(dist.Uniform(jnp.zeros(1), jnp.ones(1)).to_event(1), argv, names=["a"])
    sims = sf.simulate(key, model, 4)
    np.testing.assert_array_equal(sims.x[:, 0], sims.theta[:, 0])
    for i in range(4):
        words = jax.random.key_data(jax.random.split(jax.random.fold_in(key, i))[1])
        assert sims.x[i, 1] == np.float32(int(words[0]) >> 1)


@pytest.mark.parametrize(
    ("text", "status", "words"),
    [
        (
            'print("out of cheese", file=sys.stderr); sys.exit(7)',
            "FAILED",
            "exit code 7. Standard error: out of cheese",
        ),
        ('print("no json")', "FAILED", "answered 'no json"),
        ('print(json.dumps({"y": 1}))', "FAILED", "must answer"),
        ("time.sleep(1000)", "TIMED_OUT", "longer than its time limit of 0.4 s"),
        ('print(json.dumps({"x": [1, 2, 3]}))', "WRONG_SHAPE", r"x has shape (3,)"),
    ],
)
def test_commands_that_fail(text: str, status: str, words: str, key: jax.Array, tmp_path: Path) -> None:
    argv = [*script(tmp_path, text), str(tmp_path)]
    model = sf.Model.command(PRIOR, argv, data_shape=(2,), time_limit=0.4 if status == "TIMED_OUT" else None)
    with pytest.warns(sf.SimulationWarning):
        sims = sf.simulate(key, model, 2)
    assert {STATUS(code).name for code in sims.status} == {status}
    assert words in sims.errors[0]
    assert not _alive(str(tmp_path)), "a command outlived its time limit"


def test_a_command_that_is_not_there() -> None:
    with pytest.raises(sf.ModelError, match="FileNotFoundError"):
        sf.Model.command(PRIOR, ["/no/such/program"])


def _alive(word: str) -> bool:
    """Whether a process with that word in its command line is still there after a moment."""
    for _ in range(50):
        lines = [_command_line(entry) for entry in os.listdir("/proc") if entry.isdigit()]
        if not any(word in line and "simulator.py" in line for line in lines):
            return False
        time.sleep(0.05)
    return True


def _command_line(process: str) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""
