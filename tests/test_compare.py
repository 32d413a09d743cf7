from typing import Any

import jax
import numpy as np
import pytest

import suffice as sf
from suffice.compare import Comparison, Curve, Outcome, training_simulations, within_budget
from tests.conjugate import Sampler, exact, model, moments


@pytest.fixture(scope="module")
def found() -> Comparison:
    observations = sf.simulate(jax.random.key(1), model(), 12)
    methods = {"right": Sampler(), "shifted": Sampler(shift=3.0), "narrow": Sampler(width=0.3)}
    return sf.compare(
        jax.random.key(2),
        model(),
        observations,
        methods,
        reference=lambda row: exact(row, 500),
        num_draws=250,
        draws=300,
    )


def test_errors_of_methods_made_wrong_on_purpose_are_as_large_as_they_were_made(found: Comparison) -> None:
    sd = moments(np.zeros(10))[1]
    table = found.table()
    np.testing.assert_allclose(table.loc["shifted", "W2"], 3 * sd * np.sqrt(2), rtol=0.05)
    np.testing.assert_allclose(table.loc["narrow", "W2"], 0.7 * sd * np.sqrt(2), rtol=0.15)
    np.testing.assert_allclose(table.loc["shifted", "mean error"], 3 * sd * np.sqrt(2), rtol=0.05)
    assert table.loc["right", "W2"] < 0.4 * sd
    assert table.loc["right", "mean error"] < 0.1 * sd


def test_coverage_tells_narrow_posteriors(found: Comparison) -> None:
    coverage = found.table()["coverage 90%"]
    assert coverage["right"] > 0.7
    assert coverage["narrow"] < 0.65
    assert coverage["shifted"] < 0.2


def test_without_truths_and_references_there_is_nothing_to_hold_against() -> None:
    rows = sf.simulate(jax.random.key(1), model(), 2).x
    table = sf.compare(jax.random.key(2), model(), rows, {"right": Sampler()}, num_draws=100).table()
    assert np.isnan(table.loc["right", "W2"])
    assert np.isnan(table.loc["right", "coverage 90%"])


def test_failed_simulations_are_left_out() -> None:
    sims = sf.simulate(jax.random.key(1), model(), 4)
    x = sims.x.copy()
    x[[0, 2], 3] = np.nan
    broken = sf.Simulations.from_arrays(sims.theta, x, sims.names)
    methods = {"right": Sampler()}
    with pytest.warns(sf.SimulationWarning, match=r"^2 of 4 simulations failed and are left out"):
        found = sf.compare(jax.random.key(2), model(), broken, methods, num_draws=100).outcomes["right"]
    assert found.covered is not None
    assert len(found.covered) == len(found.wasserstein) == 2
    with pytest.raises(sf.SupportError, match=r"^Observation 2 of 4, counted from 0: The value at coordinate 3"):
        sf.compare(jax.random.key(2), model(), x[[1, 3, 0, 2]], methods)


@pytest.mark.usefixtures("unchecked_types")
def test_methods_come_by_name() -> None:
    rows: Any = np.zeros((2, 10))
    for methods, words in (
        ([Sampler()], r"methods is of type list, but must be a dictionary.*\{'direct': Direct\(fit\)\}"),
        ({"right": Sampler}, "The method 'right' is the class Sampler, but must be a settings object"),
    ):
        with pytest.raises(TypeError, match=words):
            sf.compare(jax.random.key(2), model(), rows, methods, budget=10)  # type: ignore[arg-type]


def outcome(curve: Curve | None, distance: float = 1.0, training: int = 0) -> Outcome:
    return Outcome(np.full(3, distance), np.zeros(3), None, 0, training, 0.0, 0.0, curve)


def test_the_simulations_needed_are_those_of_the_first_iteration_whose_median_is_low_enough() -> None:
    falling = np.array([[3.0, 1.2, 0.9, 0.5], [3.0, 0.8, 0.7, 0.5], [3.0, 1.1, 0.9, 0.5]])
    curves = Curve(np.array([100, 200, 300, 400]), falling)
    flat = Curve(np.array([100, 200, 300, 400]), falling + 5)
    outcomes = {"goal": outcome(None), "falls": outcome(curves, training=70), "never": outcome(flat)}
    needed = Comparison(outcomes, 100, 0.9).simulations_to_match("goal")
    assert needed.loc["falls"].tolist() == [3, 300, 70]
    assert np.isnan(needed.loc["never", "simulations each"])
    with pytest.raises(ValueError, match="There is no method 'gaol': there are goal, falls, never"):
        Comparison(outcomes, 100, 0.9).simulations_to_match("gaol")


def test_a_budget_is_handed_to_samplers_that_simulate() -> None:
    gamma = sf.zoo.gamma()
    assert gamma.sufficient_statistics is not None
    annealing = sf.Annealing(gamma, gamma.sufficient_statistics, particles=100)
    limited = within_budget("annealing", annealing, 5000)
    assert isinstance(limited, sf.Annealing)
    assert limited.budget == 5000
    surrogate = sf.SyntheticLikelihood(gamma, gamma.sufficient_statistics, simulations=20, particles=50, iterations=10)
    limited = within_budget("sl", surrogate, 3500)
    assert isinstance(limited, sf.SyntheticLikelihood)
    assert limited.iterations == 3
    with pytest.raises(ValueError, match="One iteration of 'sl' takes 1000 simulations, but the budget is 900"):
        within_budget("sl", surrogate, 900)
    assert within_budget("right", Sampler(), 10) == Sampler()
    assert training_simulations(annealing) == 0


def test_samplers_with_a_history_get_a_curve_that_ends_in_their_posterior() -> None:
    gamma = sf.zoo.gamma()
    assert gamma.sufficient_statistics is not None
    method = sf.Annealing(gamma, gamma.sufficient_statistics, particles=100, iterations=10, scale_simulations=200)
    rows = sf.simulate(jax.random.key(3), gamma, 2)
    result = sf.compare(jax.random.key(4), gamma, rows, {"abc": method}, budget=900, draws=100).outcomes["abc"]
    assert result.inference_simulations <= 900
    assert result.curve is not None
    np.testing.assert_allclose(result.curve.wasserstein[:, -1], result.wasserstein)
    assert np.all(np.diff(result.curve.simulations) > 0)
    assert result.curve.median[-1] < result.curve.median[0]
