"""What every ABC sampler keeps, counts, refuses, and when it stops; host and compiled program alike."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import suffice as sf
from suffice.abc import Annealing, Euclidean, MarkovAbc, PopulationAbc, Rejection, SequentialAbc, population
from suffice.errors import SamplingError
from tests.abc.cases import abc_posterior, data_with_mean, edged, errors, mean_of

pytestmark = pytest.mark.filterwarnings("ignore::suffice.SamplingWarning")
PARTICLES = 200
SMALL: dict[str, Any] = {"particles": PARTICLES, "scale_simulations": PARTICLES}
OBSERVED = data_with_mean(0.3)


def mean_in_numpy(x: Any) -> np.ndarray:
    return np.array([float(np.asarray(x).mean())])


def annealing(**settings: Any) -> Annealing:
    return Annealing(edged(), mean_of, **{**SMALL, "iterations": 5, **settings})


@pytest.mark.parametrize("make", [Annealing, SequentialAbc, PopulationAbc])
def test_the_host_makes_the_same_draws_as_the_compiled_program(key: jax.Array, make: Any) -> None:
    settings = {**SMALL, "iterations": 4}
    compiled, hosted = (
        sf.sample(key, make(edged(), statistics, **settings), OBSERVED) for statistics in (mean_of, mean_in_numpy)
    )
    assert np.allclose(compiled.draws, hosted.draws, atol=1e-5)
    assert (
        compiled.info["simulations"] == hosted.info["simulations"] < 5 * PARTICLES * (5 if make is PopulationAbc else 1)
    )
    assert np.allclose(compiled.info["history_tolerance"], hosted.info["history_tolerance"], rtol=1e-4)


def test_chains_on_the_host_are_those_of_the_compiled_program(key: jax.Array) -> None:
    settings: dict[str, Any] = {"pilot": PARTICLES, "scale_simulations": PARTICLES, "quantile": 0.3, "thin": 2}
    compiled, hosted = (
        sf.sample(key, MarkovAbc(edged(), statistics, **settings), OBSERVED, num_draws=10)
        for statistics in (mean_of, mean_in_numpy)
    )
    assert compiled.draws.shape == (4, 10, 1)
    assert np.allclose(compiled.draws, hosted.draws, atol=1e-5)


def test_an_external_simulator(key: jax.Array) -> None:
    def function(theta: dict[str, float], rng: Any) -> Any:
        return theta["theta1"] + rng.normal(size=4)

    model = sf.Model.external(edged().prior, function)
    method = SequentialAbc(
        model, mean_of, 400, distance=Euclidean(scaled=False), tolerance=0.5, scale_simulations=50, executor=2
    )
    posterior = sf.sample(key, method, data_with_mean(-0.3))
    assert posterior.info["stopped"] == "tolerance"
    assert posterior.info["failed"] == 0
    effective = min(posterior.info["distinct"], posterior.info["ess"]) / 2
    assert max(errors(posterior, abc_posterior(edged(), -0.3, 0.5), effective)) < 4


def test_failed_simulations_are_counted_and_never_near(key: jax.Array) -> None:
    """Failures below 0.5 cut the prior off there."""

    def simulator(key: jax.Array, theta: jax.Array) -> jax.Array:
        return jnp.where(theta[0] > 0.5, theta[0] + jax.random.normal(key, (4,)), jnp.nan)

    model = sf.Model(edged().prior, simulator)
    posterior = sf.sample(key, Annealing(model, mean_of, **SMALL, iterations=5), OBSERVED)
    assert posterior.draws.min() > 0.5
    assert posterior.info["failed"] > 0.2 * posterior.info["simulations"]
    assert np.all(np.isfinite(posterior.info["distance"]))


def test_the_history_is_whole_and_saved(key: jax.Array, tmp_path: Any) -> None:
    posterior = sf.sample(key, annealing(), OBSERVED)
    info = posterior.info
    assert info["history_theta"].shape == (5, PARTICLES, 1)
    assert "history_weights" not in info
    assert np.array_equal(info["history_theta"][-1], posterior.draws[0])
    assert (
        info["history_tolerance"].shape == info["history_acceptance"].shape == info["history_simulations"].shape == (5,)
    )
    assert np.all(np.diff(info["history_tolerance"]) < 0)
    assert info["history_simulations"][0] == 2 * PARTICLES
    assert info["history_simulations"][-1] == info["simulations"] <= 6 * PARTICLES
    assert (info["method"], info["stopped"], info["iterations"]) == ("Annealing", "iterations", 5)
    again = sf.load(posterior.save(tmp_path / "posterior"))
    assert isinstance(again, sf.Posterior)
    assert np.array_equal(again.info["history_theta"], info["history_theta"])
    assert "history_theta" not in sf.sample(key, annealing(keep_history=False), OBSERVED).info


def test_weighted_history(key: jax.Array) -> None:
    posterior = sf.sample(key, PopulationAbc(edged(), mean_of, **SMALL, iterations=4), OBSERVED)
    info = posterior.info
    assert info["history_weights"].shape == (4, PARTICLES)
    assert np.allclose(info["history_weights"].sum(axis=1), 1.0, atol=1e-5)
    assert posterior.weights is not None
    assert np.allclose(info["history_weights"][-1], posterior.weights[0], atol=1e-7)
    assert info["ess"] == pytest.approx(1 / np.sum(posterior.weights**2))
    assert np.allclose(posterior.info["distance"].max(), info["tolerance"], rtol=0.2)
    assert posterior.info["distance"].max() <= info["tolerance"]


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        ("budget", {"budget": 4 * PARTICLES + 50}),
        ("tolerance", {"tolerance": 0.25}),
        ("acceptance", {"acceptance_floor": 0.999}),
        ("time", {"seconds": 1e-9}),
    ],
)
def test_rules_stop_a_run_with_what_it_has(key: jax.Array, rule: str, settings: dict[str, Any]) -> None:
    whole = sf.sample(key, annealing(iterations=30), OBSERVED).info
    posterior = sf.sample(key, annealing(iterations=30, **settings), OBSERVED)
    info = posterior.info
    assert info["stopped"] == rule
    done = info["iterations"]
    assert 1 < done < 30
    assert np.array_equal(posterior.draws[0], whole["history_theta"][done - 1])
    if rule == "budget":
        assert info["simulations"] <= settings["budget"]
        assert done >= 3
    if rule == "tolerance":
        assert whole["history_tolerance"][done - 1] <= 0.25 < whole["history_tolerance"][done - 2]


def test_a_generation_cut_short_is_not_kept(key: jax.Array) -> None:
    whole = sf.sample(key, PopulationAbc(edged(), mean_of, **SMALL, iterations=4), OBSERVED).info
    cut = int(whole["history_simulations"][2]) + 2 * PARTICLES
    method = PopulationAbc(edged(), mean_of, **SMALL, iterations=4, budget=cut)
    posterior = sf.sample(key, method, OBSERVED)
    assert posterior.info["stopped"] == "budget"
    assert np.array_equal(posterior.draws[0], whole["history_theta"][2])
    assert whole["history_simulations"][2] < posterior.info["simulations"] <= cut


def test_chains_stop_at_their_budget(key: jax.Array) -> None:
    settings: dict[str, Any] = {"pilot": PARTICLES, "scale_simulations": PARTICLES, "quantile": 0.3, "thin": 2}
    method = MarkovAbc(edged(), mean_of, **settings, budget=2 * PARTICLES + 4 * 2 * 6)
    posterior = sf.sample(key, method, OBSERVED, num_draws=10)
    assert posterior.info["stopped"] == "budget"
    assert posterior.draws.shape[1] == 6
    assert posterior.info["simulations"] <= 2 * PARTICLES + 4 * 2 * 6


def test_given_simulations_are_used_and_nothing_is_simulated(key: jax.Array) -> None:
    sims = sf.simulate(key, edged(), 2000, progress=False)
    posterior = sf.sample(key, Rejection(edged(), mean_of, sims, quantile=0.05), OBSERVED)
    distance = np.abs(sims.x.mean(axis=1) - OBSERVED.mean()) / sims.x.mean(axis=1).std()
    nearest = np.sort(np.argsort(distance)[:100])
    assert np.array_equal(posterior.draws[0], sims.theta[nearest])
    assert (posterior.info["simulations"], posterior.info["reused_simulations"]) == (0, 2000)
    assert posterior.info["tolerance"] == pytest.approx(distance[nearest].max(), rel=1e-4)


def test_weights_that_collapse_are_an_error(key: jax.Array, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(population, "log_mixture", lambda position, *_: 100.0 * jnp.arange(len(position)))
    with pytest.raises(SamplingError, match=r"have collapsed: all draws together are worth 1\.00\. Use more"):
        sf.sample(key, PopulationAbc(edged(), mean_of, particles=50, scale_simulations=50), OBSERVED)


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        (lambda x: jnp.array([1.0, jnp.nan]) * x[:2], "Statistic 1 is not finite for 200 of 200 simulations"),
        (lambda x: jnp.stack([x[0], jnp.sign(jnp.abs(x[0]))]), "Statistic 1 is constant over 200 simulations"),
        (lambda x: jnp.mean(x), r"statistics of one x have shape \(\), but must be a vector"),
        (lambda x: x[None], r"have shape \(1, 4\), but must be a vector"),
        (lambda x: x["mean"], r"The statistics failed for data of shape \(4,\): IndexError"),
    ],
)
def test_bad_statistics_are_named(key: jax.Array, statistics: Any, message: str) -> None:
    with pytest.raises(sf.ModelError, match=message):
        sf.sample(key, Annealing(edged(), statistics, **SMALL), OBSERVED)


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (Annealing, {"budget": 1500}, "budget is 1500 simulations, but a first iteration takes 3000, of which 1000"),
        (PopulationAbc, {"quantile": 1.0}, "quantile is 1.0, but must be between 0 and 1"),
        (SequentialAbc, {"kept": 0.0}, "kept is 0.0"),
        (SequentialAbc, {"replicates": 0}, "replicates is 0, but must be a whole number of at least 1"),
        (Annealing, {"speed": -1.0}, "speed is -1.0, but must be a positive number"),
        (Annealing, {"adjust": "quadratic"}, "adjust is 'quadratic'"),
        (Annealing, {"acceptance_floor": 1.5}, "acceptance_floor is 1.5"),
        (MarkovAbc, {"tolerance": 0.0}, "tolerance is 0.0, but must be positive"),
        (Rejection, {"budget": None}, "neither simulations nor a budget"),
        (Rejection, {"acceptance_floor": 0.1}, "Rejection has no acceptance_floor"),
    ],
)
@pytest.mark.usefixtures("unchecked_types")
def test_bad_settings_are_refused(make: Any, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(edged(), mean_of, **settings)


def test_what_cannot_be_done_is_said(key: jax.Array, tmp_path: Any) -> None:
    with pytest.raises(ValueError, match="Annealing compares one observation with one simulation, so it takes no iid"):
        sf.sample(key, annealing(), np.stack([OBSERVED, OBSERVED]), iid=True)
    with pytest.raises(ValueError, match="Annealing keeps no checkpoint"):
        sf.sample(key, annealing(), OBSERVED, checkpoint=tmp_path / "run")
    near = Rejection(edged(), mean_of, sf.simulate(key, edged(), 200, progress=False), tolerance=1e-9)
    with pytest.raises(SamplingError, match="Only 0 of 200 simulations are near enough; the nearest is at distance"):
        sf.sample(key, near, OBSERVED)
    chains = MarkovAbc(edged(), mean_of, pilot=PARTICLES, scale_simulations=PARTICLES, tolerance=1e-9)
    with pytest.raises(SamplingError, match="None of 200 simulations from the prior came within the tolerance 1e-09"):
        sf.sample(key, chains, OBSERVED)
    other = sf.simulate(key, sf.Model(dist.Normal(jnp.zeros(2), 1.0).to_event(1), lambda k, t: t), 20, progress=False)
    with pytest.raises(sf.ModelError, match=r"parameters \('theta1', 'theta2'\) and x of shape \(2,\), but the model"):
        Rejection(edged(), mean_of, other)
